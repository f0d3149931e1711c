// RoCEv2 beside MRC: the same fabric, the same time, and what is done to one is done to the other.

import { Goodput } from "./charts.js";
import { FabricView } from "./fabric.js";
import { Loads } from "./loads.js";
import { merge } from "./merge.js";
import { narrate } from "./narrator.js";

const at = (id) => document.getElementById(id);
const MOST = 6000; // frames

export class Rival {
  // `first`: its frames so far; `look` gives units, the unit of time and seconds since the beginning.
  constructor(layout, first, look) {
    Object.assign(this, { layout, look, frames: [], loads: new Loads(), cursor: -1, crossed: new Map() });
    this.between = layout.links.map(({ ends }) => ends.every((end) => /^t\d/.test(end)));
    this.#draw();
    const marks = () => this.strikes().map(({ t, end }) => ({ t: look.since(t), end }));
    at("rival-goodput").parentElement.querySelector(".legend")?.remove();
    this.goodput = new Goodput(at("rival-goodput"), layout.planes, marks, look.unit);
    this.add(first);
  }

  strikes() { return this.frames.flatMap(({ events }) => events).filter(({ kind }) => kind === "fault.begin" || kind === "fault.end").map(({ t, kind }) => ({ t, end: kind === "fault.end" })); }

  #draw() {
    this.fabric?.packets.stop();
    this.fabric = new FabricView(at("rival-fabric"), this.layout, null);
    this.loads.rewind();
  }

  add(changes) {
    for (const { load, ...told } of changes) {
      const before = this.frames.at(-1) ?? {}, frame = merge(before, told);
      frame.means = [frame.qps.find((qp) => qp[4])?.[4] * 1e3 || null, null];
      this.frames.push(frame);
      this.loads.push(load);
    }
    const gone = this.frames.length - MOST;
    if (gone > 0) { this.frames.splice(0, gone); this.loads.drop(gone); this.cursor = -1; }
  }

  packets(told) {
    this.fabric.packets.take(told);
    for (const [, , way, kind] of told.seen) if (kind === 0 && this.between[way >> 1]) this.crossed.set(way >> 1, (this.crossed.get(way >> 1) ?? 0) + 1);
  }

  // Shows how it stood at a time, and its goodput from another time on.
  show(t, from) {
    const number = this.frames.findLastIndex((frame) => frame.t <= t);
    if (number < 0) return;
    const frame = this.frames[number];
    this.fabric.update(frame, this.frames[Math.max(0, number - 12)], this.loads.now, this.loads.seek(number));
    this.cursor = number;
    this.goodput.scale.least = this.look.top() * 1.08;
    const shown = this.frames.slice(0, number + 1).filter((each) => each.t >= from), units = this.look.units;
    this.goodput.update(shown.map((each) => this.look.since(each.t)), shown.map((each) => each.goodput), units.rateScale, (value) => units.rate(value));
    const said = narrate(this.frames, number);
    if (at("rival-story").textContent !== said) at("rival-story").textContent = said;
  }

  // The cable between switches that most data packets crossed while they were seen: the hash of the switches chose it.
  busiest() {
    const [index] = [...this.crossed].reduce((most, each) => (each[1] > most[1] ? each : most), [null, 0]);
    return index === null ? null : this.layout.links[index].name;
  }

  fit() {
    if (this.fabric.stale) this.#draw();
    this.fabric.fit();
    this.goodput.fit();
  }
}

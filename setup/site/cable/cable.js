// The page on a dying cable: figures that the simulator in this tab runs again for every place of their handles.

import { interpreter } from "./interpreter.js";
import { PLANES } from "./static/charts.js";
import { FabricView } from "./static/fabric.js";
import { merge } from "./static/merge.js";

const SPEED = 1 / 60; // seconds of virtual time per second
const HOLD = 1.6; // seconds at the end, before it begins again
const STEPS = 100; // frames of a figure
const BAR = 0.012, BARS = 40; // seconds of virtual time of a bar of what arrives; bars at most
const DOT = 1.7; // times as large as in the lab, whose drawing is larger
const FRAME = 30; // milliseconds between two pictures: the simulator wants its share
const PAUSE = 0.03; // seconds without a packet that are told
const STATES = { GOOD: "in use", SKIP: "in use, spared", STANDBY: "standby", ASSUMED_BAD: "assumed bad", PORT_DOWN: "port down", DENIED: "denied" };
const still = matchMedia("(prefers-reduced-motion: reduce)");
const state = document.getElementById("state");

function made(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function cell(row, text, kind = "") { row.append(made("td", text, kind)); }

// --- the simulator -------------------------------------------------------------------------------------------------------

const simulator = interpreter("figures", () => { state.textContent = "the simulator starts …"; });
simulator.ready.then(() => { state.textContent = ""; performance.mark("lab-ready"); }, (error) => { state.textContent = error.message; state.className = "over"; });

const runs = new Map(); // what was asked → what the simulator told, or will

function simulate(body) {
  const asked = JSON.stringify(body);
  if (!runs.has(asked)) runs.set(asked, simulator.ask("api/figure", asked));
  return runs.get(asked);
}

// --- one run, drawn ------------------------------------------------------------------------------------------------------

class Shown {
  // `run`: what the simulator told of a scenario.
  constructor(root, name, named) {
    this.root = root;
    if (named) root.append(made("h3", name));
    this.line = made("p", "", "line");
    this.view = made("div", "", "view");
    const both = made("div", "", "both"), right = made("div");
    this.table = document.createElement("table");
    this.bars = made("canvas", "", "arrive");
    this.bars.setAttribute("role", "img");
    right.append(made("p", "Data packets that arrive, by plane", "small"), this.bars);
    both.append(this.table, right);
    root.append(this.line, this.view, both);
  }

  take(run) {
    this.run = run;
    let whole = {};
    this.frames = run.frames.map((change) => { whole = merge(whole, change); return whole; });
    this.fabric = new FabricView(this.view, run.layout, null);
    this.fabric.packets.stop();
    const events = this.frames.flatMap((frame) => frame.events);
    this.cut = events.find(({ kind }) => kind === "fault.begin");
    this.repaired = events.find(({ kind }) => kind === "fault.end");
    this.learned = this.cut && events.find(({ kind, t, old }) => kind === "ev.state" && t >= this.cut.t && old === "GOOD");
    this.verdict = events.find(({ kind }) => kind === "verdict");
    this.rtt = this.frames.flatMap((frame) => frame.qps).find((qp) => qp[4])?.[4];
    this.hosts = new Set(run.layout.hosts.map((host) => host.name));
    this.fell = run.packets.filter(([, , , kind, arrived]) => !arrived && kind === 0).map(([, left]) => left).sort((a, b) => a - b);
    this.#bin();
    const sender = this.frames.findLast((frame) => frame.qps.length)?.qps ?? [];
    this.senders = sender.map(([host, qp]) => `${host}/${qp}`);
    this.shown = -1;
  }

  #bin() {
    const { begin, end, layout } = this.run;
    const count = Math.min(BARS, Math.round((end - begin) / BAR));
    this.bins = Array.from({ length: count }, () => new Map());
    this.trims = [];
    this.arrived = [];
    for (const [, left, way, kind, arrived] of this.run.packets) {
      const link = layout.links[way >> 1], to = link.ends[1 - way % 2];
      if (!arrived || kind === 1 || !this.hosts.has(to)) continue;
      if (kind === 2) { this.trims.push(left); continue; }
      const bin = this.bins[Math.floor((left - begin) / (end - begin) * count)];
      if (left >= begin && left <= end) this.arrived.push(left);
      bin?.set(link.plane, (bin.get(link.plane) ?? 0) + 1);
    }
    this.most = Math.max(1, ...this.bins.map((bin) => [...bin.values()].reduce((a, b) => a + b, 0)));
  }

  frame(t) {
    const at = this.frames.findLastIndex((frame) => frame.t <= t);
    return Math.max(0, at);
  }

  draw(t) {
    if (!this.run) return;
    const at = this.frame(t), frame = this.frames[at];
    if (at !== this.shown) {
      this.shown = at;
      this.fabric.update(frame, null, new Map(), null);
      this.#know(frame);
      const line = this.#say(t, frame);
      if (line !== this.line.textContent) this.line.textContent = line;
    }
    this.fabric.packets.paint(t, this.run.packets, SPEED * 0.9 * this.scale, DOT);
    this.#arrivals(t);
  }

  // What is believed of each path beside what is true of it.
  #know(frame) {
    const key = JSON.stringify([frame.evs, frame.down, frame.faulty, frame.verdicts]);
    if (key === this.known) return;
    this.known = key;
    const head = document.createElement("thead"), body = document.createElement("tbody"), top = document.createElement("tr");
    const many = new Set(this.senders.map((name) => name.split("/")[0])).size > 1;
    for (const text of ["path", many ? "its sender believes" : `${this.senders[0]?.split("/")[0] ?? "h1"} believes`, "truth"]) { const th = made("th", text); th.scope = "col"; top.append(th); }
    head.append(top);
    const rows = this.senders.flatMap((name) => (frame.evs[name] ?? []).map((ev) => [name, ev]));
    for (const [name, [, plane, uplink, how]] of rows.slice(0, 8)) {
      const row = document.createElement("tr"), wrong = this.#wrong(frame, name, plane, uplink), out = !["GOOD", "SKIP"].includes(how);
      cell(row, `${many ? `${name.split("/")[0]}: ` : ""}plane ${plane}, ${uplink ? `T1 ${uplink}` : "T1 by hash"}`);
      cell(row, STATES[how] ?? how, out ? "no" : "yes");
      cell(row, wrong ?? "carries packets", wrong ? "no" : "yes");
      body.append(row);
    }
    this.table.replaceChildren(head, body);
  }

  #wrong(frame, name, plane, uplink) {
    const { links } = this.run.layout, down = new Set(frame.down), faulty = new Set(frame.faulty);
    const host = name.split("/")[0], peer = frame.qps.find((qp) => `${qp[0]}/${qp[1]}` === name)?.[2];
    const index = (a, b) => links.findIndex(({ ends, plane: own }) => own === plane && ends.includes(a) && (b === undefined || ends.includes(b)));
    const near = index(host), far = peer ? index(peer) : -1;
    const path = [near, far];
    if (near < 0) return null;
    const t0s = [near, far].filter((n) => n >= 0).map((n) => links[n].ends.find((end) => end !== host && end !== peer));
    const used = uplink ? [uplink] : this.#hashed(plane, t0s);
    for (const one of used) for (const t0 of t0s) path.push(index(`t1-p${plane}-${one}`, t0));
    if (path.some((n) => down.has(n))) return "dead";
    return path.some((n) => n >= 0 && faulty.has(links[n].name)) ? "loses packets" : null;
  }

  // T1s that a hash chose: those whose cables carried data.
  #hashed(plane, t0s) {
    this.chosen ??= new Map();
    if (!this.chosen.has(plane)) {
      const found = new Set();
      for (const [, , way, kind] of this.run.packets) {
        const link = this.run.layout.links[way >> 1], t1 = kind === 0 && link.plane === plane && /t1-p\d+-(\d+)$/.exec(link.ends[1 - way % 2]);
        if (t1 && t0s.includes(link.ends[way % 2])) found.add(Number(t1[1]));
      }
      this.chosen.set(plane, [...found]);
    }
    return this.chosen.get(plane);
  }

  #long(seconds) {
    const ms = seconds * 1e3;
    return `${ms.toFixed(ms < 10 ? 1 : 0)} ms${this.rtt ? ` (${(seconds / this.rtt).toFixed(1)} RTT)` : ""}`;
  }

  #say(t, frame) {
    const fell = this.fell.filter((when) => when <= t).length, again = frame.totals.retransmitted - this.frames[0].totals.retransmitted;
    if (!this.cut) {
      const trimmed = this.trims.filter((when) => when <= t).length;
      return trimmed ? `${trimmed} packets trimmed, none dropped; ${again} retransmitted.` : "The queue is not full.";
    }
    if (t < this.cut.t) return "No fault yet.";
    const gray = frame.faulty.length && !frame.down.length, said = [];
    if (this.repaired && t >= this.repaired.t) said.push("The cable is up again.");
    else said.push(gray ? "The cable loses packets." : `The cable has been down for ${this.#long(t - this.cut.t)}.`);
    said.push(`${fell} data packet${fell === 1 ? "" : "s"} lost, ${again} retransmitted.`);
    if (this.verdict && t >= this.verdict.t) said.push(`Clustermapper: ${this.verdict.text.split(": ").at(-1)}.`);
    else if (this.learned && t >= this.learned.t) said.push(this.learned.t === this.cut.t ? "The sender detected it immediately." : `The sender detected it after ${this.#long(this.learned.t - this.cut.t)}.`);
    else if (!(this.repaired && t >= this.repaired.t)) said.push("The sender has not detected it yet.");
    return said.join(" ");
  }

  sum() {
    const { end } = this.run, dead = this.cut && this.frames.some((frame) => frame.down.length);
    const late = dead ? [this.cut.t, ...this.arrived.filter((t) => t > this.cut.t).sort((a, b) => a - b), end] : [];
    const gap = Math.max(0, ...late.slice(1).map((t, n) => t - late[n])), data = this.arrived.length;
    const knew = this.learned ? (this.learned.t === this.cut.t ? "the sender detected it immediately" : `the sender detected it after ${this.#long(this.learned.t - this.cut.t)}`) : this.cut ? "no path was retired" : "";
    const parts = [`${data} data packets arrived`, this.cut ? `${this.fell.length} were lost` : `${this.trims.length} were trimmed`];
    if (gap > PAUSE) parts.push(`nothing arrived for ${(gap * 1e3).toFixed(0)} ms`);
    if (knew) parts.push(knew);
    if (this.run.scenarioHasMapper || this.verdict) parts.push(this.verdict ? `Clustermapper named the cable after ${((this.verdict.t - this.cut.t) * 1e3).toFixed(0)} ms` : "no verdict yet");
    return `${parts.join(", ")}.`;
  }

  #arrivals(t) {
    const { bars } = this, ratio = devicePixelRatio, width = Math.round(bars.clientWidth * ratio), height = Math.round(bars.clientHeight * ratio);
    if (!width) return;
    if (bars.width !== width || bars.height !== height) { bars.width = width; bars.height = height; }
    const ink = bars.getContext("2d"), style = getComputedStyle(document.documentElement), { begin, end } = this.run, count = this.bins.length, wide = width / count;
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    ink.clearRect(0, 0, width, height);
    this.bins.forEach((bin, n) => {
      ink.globalAlpha = begin + (n + 0.5) * (end - begin) / count <= t ? 1 : 0.18;
      let y = height - 2;
      for (const plane of this.run.layout.planes) {
        const high = (bin.get(plane) ?? 0) / this.most * (height - 12 * ratio);
        ink.fillStyle = colour(`plane-${(plane - 1) % PLANES.length + 1}`);
        ink.fillRect(n * wide + 1, y - high, wide - 2, high);
        y -= high;
      }
    });
    ink.globalAlpha = 1;
    ink.fillStyle = colour("soft");
    ink.fillRect(0, height - 2, width, 2);
    for (const event of [this.cut, this.repaired]) {
      if (!event) continue;
      const x = (event.t - begin) / (end - begin) * width;
      ink.fillStyle = colour(event === this.cut ? "bad" : "good");
      ink.fillRect(x, 0, 2 * ratio, height);
      ink.beginPath(); ink.moveTo(x - 5 * ratio, 0); ink.lineTo(x + 7 * ratio, 0); ink.lineTo(x + ratio, 8 * ratio); ink.fill();
    }
    ink.fillStyle = colour("ink");
    ink.fillRect((t - begin) / (end - begin) * width - ratio / 2, 0, ratio, height);
  }
}

// --- a figure ------------------------------------------------------------------------------------------------------------

class Figure {
  constructor(section, told, first) {
    Object.assign(this, { told, at: 0, playing: !still.matches, visible: false });
    this.root = document.createElement("figure");
    const views = made("div", "", told.scenarios.length > 1 ? "two" : "");
    this.shown = told.scenarios.map(({ name }) => {
      const place = made("div", "", "show");
      views.append(place);
      const one = new Shown(place, name, told.scenarios.length > 1);
      one.scale = (told.speed ?? SPEED) / SPEED;
      return one;
    });
    const label = made("label", told.handle), id = `${section.id}-handle`;
    this.handle = Object.assign(document.createElement("input"), { type: "range", min: 0, max: told.values.length - 1, value: told.start, id });
    label.htmlFor = id;
    this.value = made("output");
    this.value.htmlFor = id;
    const row = made("div", "", "handle");
    row.append(label, this.handle, this.value);
    this.play = made("button", this.playing ? "Pause" : "Play");
    this.play.addEventListener("click", () => this.#toggle());
    this.link = made("a", "Open it in the lab");
    this.sum = made("p", "", "sum");
    this.sum.setAttribute("role", "status");
    const under = made("div", "", "under");
    under.append(this.play, this.sum, this.link);
    this.root.append(views, row, under);
    section.append(this.root);
    this.#name();
    this.handle.addEventListener("input", () => { this.#name(); this.#run(); });
    if (first) this.#take(first);
    new IntersectionObserver(([entry]) => { this.visible = entry.isIntersecting; if (this.visible) this.#tick(); }, { threshold: 0.15 }).observe(this.root);
    addEventListener("resize", () => this.#draw());
  }

  #name() {
    const [word] = this.told.values[this.handle.value];
    this.value.textContent = word;
    this.handle.setAttribute("aria-valuetext", word);
  }

  texts(place = this.handle.value) {
    const [, fill] = this.told.values[place];
    return this.told.scenarios.map(({ text }) => text.replace(/\$([A-Z]+)/g, (_, name) => fill[name]));
  }

  async #runs(place) {
    const { begin, end } = this.told, found = [];
    for (const text of this.texts(place)) found.push(await simulate({ text, begin, end, step: (end - begin) / STEPS }));
    return found;
  }

  async #run() {
    if (this.running) { this.again = true; return; } // the last place of the handle counts
    this.running = true;
    this.root.classList.add("busy");
    const runs = await this.#runs(this.handle.value);
    this.running = false;
    if (this.again) { this.again = false; this.#run(); return; }
    this.root.classList.remove("busy");
    const wrong = runs.find((run) => run.error);
    if (wrong) { this.sum.textContent = wrong.error; return; }
    this.#take(runs);
    for (const place of [this.handle.valueAsNumber - 1, this.handle.valueAsNumber + 1]) { // where the handle may go next
      if (this.told.values[place] && !this.running) await this.#runs(place);
    }
  }

  #take(runs) {
    runs.forEach((run, n) => this.shown[n].take(run));
    const hasMapper = this.told.scenarios[0].text.includes("mapper:");
    this.sum.textContent = this.shown.map((one, n) => {
      one.run.scenarioHasMapper = hasMapper;
      one.bars.setAttribute("aria-label", `packets that arrive over time: ${one.sum()}`);
      return `${runs.length > 1 ? `${this.told.scenarios[n].name}: ` : ""}${one.sum()}`;
    }).join(" ");
    this.time = this.told.begin;
    if (!this.playing) this.time = this.told.begin + 0.6 * (this.told.end - this.told.begin);
    this.#draw();
    this.#open();
  }

  async #open() {
    const text = this.texts().at(0), bytes = new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer());
    const word = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    this.link.href = `./#${new URLSearchParams({ s: word })}`;
  }

  #toggle() {
    this.playing = !this.playing;
    this.play.textContent = this.playing ? "Pause" : "Play";
    if (this.playing) { this.before = undefined; this.#tick(); }
  }

  #draw() { for (const one of this.shown) one.draw(this.time); }

  #tick() {
    if (this.ticking) return;
    this.ticking = true;
    this.before = performance.now();
    const step = (now) => {
      if (!this.playing || !this.visible) { this.ticking = false; return; }
      if (now - this.before < FRAME) { requestAnimationFrame(step); return; }
      const speed = (this.told.speed ?? SPEED) * Number(document.getElementById("speed").value);
      this.time += (now - this.before) / 1e3 * speed;
      this.before = now;
      if (this.time > this.told.end + HOLD * speed) this.time = this.told.begin;
      for (const one of this.shown) one.draw(Math.min(this.time, this.told.end));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
}

const { figures, first } = await (await fetch("figures.json")).json();
for (const [name, told] of Object.entries(figures)) new Figure(document.getElementById(name), told, first[name]);
performance.mark("figures");
navigator.serviceWorker?.register("sw.js").catch(() => {});

// The fabric as SVG: planes side by side, T1s above T0s above hosts. Only what changed since the last frame is touched.
// Where there are more cables than can be told apart, only those that somebody chose or broke are elements of it.

import { Mesh } from "./mesh.js";
import { Packets } from "./packets.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
// Height of the drawing, rows of nodes, their size, width of a cable at rest, how far from it a click means it; where there
// is little room, taller and larger.
const WIDE = { high: 300, t1: 50, t0: 158, host: 272, node: [64, 26], line: 1.2, near: 8 }, NARROW = { high: 560, t1: 90, t0: 285, host: 510, node: [106, 50], line: 3, near: 22 };
const LITTLE = 600; // pixels
const MANY = 800; // cables
const THIN = 0.25; // of their width have cables where there are many
const GAP = 17; // units of the drawing from the middle of a cut cable to either stump
const RECENT = 12; // frames: what a port counted since then is shown filled

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

function spread(count, from, to) {
  const step = (to - from) / count;
  return Array.from({ length: count }, (_, place) => from + step * (place + 0.5));
}

function distance(x, y, { x1, y1, x2, y2 }) {
  const dx = x2 - x1, dy = y2 - y1;
  const along = Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy)));
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}

export class FabricView {
  // `select` is called with what is clicked; null: nothing can be. `only`: one plane to be drawn alone, in the whole width.
  constructor(root, layout, select, only = null) {
    this.layout = layout;
    this.select = select;
    this.only = only;
    this.narrow = root.clientWidth > 0 && root.clientWidth < LITTLE;
    this.form = this.narrow ? NARROW : WIDE;
    this.planes = only === null ? layout.planes : [only];
    this.nodes = new Map();
    this.cables = new Map(); // number → what is drawn of it
    this.shown = new Map(); // number → how
    this.onpath = new Set();
    this.under = null;
    this.usids = new Map(layout.switches.map(({ name, usid }) => [name, usid]));
    this.special = new Set(); // numbers of cables that were down, degraded, chosen or on the path
    this.dead = [];
    this.numbers = new Map(layout.links.map((link, index) => [link.name, index]));
    this.ends = new Map(); // switch or host, port → number of its cable, which end
    layout.links.forEach((link, index) => link.ends.forEach((name, end) => this.ends.set(`${name} ${link.ports[end]}`, [index, end])));
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${this.form.high}`, ...(this.narrow ? { class: "narrow" } : {}), role: select ? "group" : "img", "aria-label": "Planes, switches, hosts and cables" });
    this.tip = element("title", {}, this.svg);
    this.#place();
    this.lines = layout.links.map((link) => this.#line(link));
    this.many = this.lines.filter(Boolean).length > MANY;
    this.above = element("g", {}, this.svg);
    this.broken = element("g", { class: "broken" }, this.svg); // stumps, gap and mark of cables that are down
    this.breaks = new Map(); // number → what is drawn of that
    if (!this.many) this.lines.forEach((line, index) => line && this.#cable(index));
    for (const [name, at] of this.places) this.#node(name, at);
    this.marks = element("g", { class: "marks" }, this.svg);
    for (const plane of this.planes) this.#plane(plane);
    this.svg.addEventListener("click", (event) => this.#clicked(event));
    this.svg.addEventListener("pointermove", (event) => this.#hover(event));
    this.svg.addEventListener("pointerleave", () => this.#point(null));
    root.replaceChildren(this.svg);
    this.svg.classList.toggle("many", this.many);
    if (this.many) this.mesh = new Mesh(root, this.lines, WIDTH, this.form.high);
    this.packets = new Packets(root, this.lines, layout.links.map((link) => link.plane), WIDTH, this.form.high);
  }

  #place() {
    this.places = new Map();
    const { switches, hosts } = this.layout;
    const wide = WIDTH / this.planes.length;
    const { t1, t0 } = this.form;
    const high = switches.some((each) => each.tier === "t2") ? { t2: t1, t1: (t1 + t0) / 2, t0 } : { t1, t0 };
    this.planes.forEach((plane, place) => {
      for (const tier of Object.keys(high)) {
        const row = switches.filter((each) => each.plane === plane && each.tier === tier);
        const xs = spread(row.length, place * wide + 8, (place + 1) * wide - 8);
        const step = (wide - 16) / row.length;
        row.forEach((each, n) => this.places.set(each.name, { x: xs[n], y: high[tier], w: Math.min(this.form.node[0], Math.max(step - 4, step * 0.7)), tier }));
      }
    });
    const xs = spread(hosts.length, 0, WIDTH);
    const step = WIDTH / hosts.length;
    hosts.forEach((each, n) => this.places.set(each.name, { x: xs[n], y: this.form.host, w: Math.min(this.form.node[0], Math.max(step - 6, step * 0.7)), tier: "host" }));
  }

  #line(link) {
    const [a, b] = link.ends.map((name) => this.places.get(name));
    return a && b && { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
  }

  #selectable(made, label, target) {
    if (!this.select) return; // to be looked at
    made.setAttribute("tabindex", "0");
    made.setAttribute("role", "button");
    made.setAttribute("aria-label", label);
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.select(target); }
    });
  }

  #cable(index) {
    const link = this.layout.links[index];
    const line = element("line", { ...this.lines[index], class: "cable", "data-name": link.name, "stroke-width": this.form.line }, this.above);
    line.style.setProperty("--own", `var(--plane-${(link.plane - 1) % 8 + 1})`);
    if (!this.many) this.#selectable(line, `cable ${link.name}`, { kind: "cable", name: link.name });
    this.cables.set(index, line);
    return line;
  }

  #node(name, at) {
    const kind = at.tier === "host" ? "host" : "switch";
    const group = element("g", { class: `node ${kind}`, "data-name": name }, this.svg);
    element("rect", { x: at.x - at.w / 2, y: at.y - this.form.node[1] / 2, width: at.w, height: this.form.node[1] }, group);
    const short = name.replace(/^t[012]-p\d+-/, "");
    const label = at.w > (this.narrow ? 80 : 40) ? name : at.w > (this.narrow ? 14 : 7) * short.length + 2 ? short : "";
    if (label) element("text", { x: at.x, y: at.y }, group).textContent = label;
    this.#selectable(group, `${kind} ${name}`, { kind, name });
    this.nodes.set(name, group);
  }

  #plane(plane) {
    const wide = WIDTH / this.planes.length;
    const text = element("text", { x: (this.planes.indexOf(plane) + 0.5) * wide, y: this.narrow ? 28 : 16, class: "plane-name", "data-name": `plane ${plane}` }, this.svg);
    text.textContent = `plane ${plane}`;
    this.#selectable(text, `plane ${plane}`, { kind: "plane", name: String(plane) });
  }

  // --- the pointer ------------------------------------------------------------------------------------------------------

  #at(event) {
    const on = event.target.closest?.("[data-name]");
    if (on?.classList.contains("node")) return { kind: on.classList.contains("host") ? "host" : "switch", name: on.dataset.name };
    if (on?.classList.contains("plane-name")) return { kind: "plane", name: on.dataset.name.slice(6) };
    const matrix = this.svg.getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    const { near } = this.form;
    let best = null, nearest = near;
    this.lines.forEach((line, index) => {
      if (!line || y < line.y1 - near && y < line.y2 - near || y > line.y1 + near && y > line.y2 + near) return;
      const far = distance(x, y, line);
      if (far < nearest) { nearest = far; best = index; }
    });
    return best === null ? null : { kind: "cable", name: this.layout.links[best].name, index: best };
  }

  #clicked(event) {
    const target = this.#at(event);
    if (target) this.select?.({ kind: target.kind, name: target.name });
  }

  #hover(event) {
    const target = this.#at(event);
    this.svg.classList.toggle("over", Boolean(target));
    const said = !target ? "" : target.kind === "cable" ? this.#said(target.index) : `${target.kind} ${target.name}${this.usids.has(target.name) ? `, uSID ${this.usids.get(target.name)}` : ""}`;
    if (this.tip.textContent !== said) this.tip.textContent = said;
    this.#point(target?.kind === "cable" ? target.name : null);
  }

  // Tells `pointed` the cable under the pointer, or null.
  #point(name) {
    if (this.under === name) return;
    this.under = name;
    this.pointed?.(name);
  }

  #said(index) {
    const link = this.layout.links[index], [a, b] = link.ends;
    const [up, back] = this.loads?.get(index) ?? [0, 0];
    return `${link.name}: ${a} → ${b} ${(up * 100).toFixed(0)} %, ${b} → ${a} ${(back * 100).toFixed(0)} %`;
  }

  // --- a frame ------------------------------------------------------------------------------------------------------------

  // `loads`: numbers of cables → shares from either end. `changed`: those that are new since the last time; null: any.
  update(frame, before, loads, changed) {
    this.loads = loads;
    const down = new Set(frame.down), faulty = new Set(frame.faulty.map((name) => this.numbers.get(name)));
    const picked = [this.chosen, ...this.onpath].map((name) => this.numbers.get(name)).filter((index) => index !== undefined);
    const special = new Set([...down, ...faulty, ...picked]);
    for (const index of new Set([...(changed ?? [...this.shown.keys(), ...loads.keys()]), ...this.special, ...special])) {
      if (!this.lines[index]) continue;
      const share = Math.max(...(loads.get(index) ?? [0]));
      const state = down.has(index) ? "down" : faulty.has(index) ? "faulty" : share > 0.97 ? "full" : share > 0.005 ? "busy" : "";
      this.#draw(index, state, (this.form.line + 5 * Math.min(state === "down" ? 0.15 : share, 1)).toFixed(1), special.has(index));
    }
    this.special = special;
    this.#break(down);
    for (const name of this.dead) this.nodes.get(name)?.classList.remove("dead");
    for (const name of frame.dead) this.nodes.get(name)?.classList.add("dead");
    this.dead = frame.dead;
    if (frame.ports !== this.counted || before?.ports !== this.countedBefore) this.#count(frame.ports, before?.ports ?? frame.ports);
    this.mesh?.draw();
  }

  #draw(index, state, width, special) {
    const { name } = this.layout.links[index], chosen = name === this.chosen, onpath = this.onpath.has(name);
    const key = `${state} ${width} ${chosen} ${onpath}`;
    if (this.shown.get(index) === key) return;
    if (state || special) this.shown.set(index, key); else this.shown.delete(index);
    if (this.many) {
      this.mesh.set(index, state && !special ? `${(this.layout.links[index].plane - 1) % 8 + 1} ${(width * THIN).toFixed(2)}` : "");
      if (!special) { this.cables.get(index)?.remove(); this.cables.delete(index); return; }
    }
    const line = this.cables.get(index) ?? this.#cable(index);
    line.setAttribute("class", ["cable", state, chosen ? "chosen" : "", onpath ? "onpath" : ""].filter(Boolean).join(" "));
    line.setAttribute("stroke-width", width);
  }

  // A cable that is down is seen to be so: two stumps, a cross in the gap, and a pulse when it happens.
  #break(down) {
    for (const [index, drawn] of this.breaks) if (!down.has(index)) { drawn.remove(); this.breaks.delete(index); }
    for (const index of down) {
      const line = this.lines[index];
      if (!line || this.breaks.has(index)) continue;
      const { x1, y1, x2, y2 } = line, far = Math.hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / far, dy = (y2 - y1) / far;
      const x = (x1 + x2) / 2, y = (y1 + y2) / 2, size = this.narrow ? 1.8 : 1, gap = GAP * size, arm = 4.5 * size, group = element("g", {}, this.broken);
      element("line", { x1, y1, x2: x - gap * dx, y2: y - gap * dy }, group);
      element("line", { x1: x2, y1: y2, x2: x + gap * dx, y2: y + gap * dy }, group);
      element("circle", { cx: x, cy: y, r: 10 * size }, group);
      element("path", { d: `M${x - arm} ${y - arm}l${2 * arm} ${2 * arm}m0 ${-2 * arm}l${-2 * arm} ${2 * arm}` }, group);
      element("circle", { cx: x, cy: y, r: 12 * size, class: "pulse" }, group);
      this.breaks.set(index, group);
    }
  }

  // Ports that trimmed (a diamond) or marked (a disc), at their end of the cable; filled while they do.
  #count(ports, before) {
    this.counted = ports;
    this.countedBefore = before;
    this.marks.replaceChildren();
    const far = [];
    for (const [name, counts] of Object.entries(ports)) {
      for (const [port, [trims, marks]] of Object.entries(counts)) {
        const [index, end] = this.ends.get(`${name} ${port}`) ?? [], line = this.lines[index];
        if (!line || !trims && !marks) continue;
        const [trimmed, marked] = before[name]?.[port] ?? [0, 0];
        const [x, y, u, v] = end ? [line.x2, line.y2, line.x1, line.y1] : [line.x1, line.y1, line.x2, line.y2];
        const unit = 1 / Math.hypot(u - x, v - y), at = (way) => [x + (u - x) * unit * way, y + (v - y) * unit * way];
        if (this.many) {
          if (marks) far.push([...at(24), "marked", marks > marked]);
          if (trims) far.push([...at(30), "trimmed", trims > trimmed]);
          continue;
        }
        const label = `${name} port ${port}: ${trims} trimmed, ${marks} marked`;
        if (marks) this.#sign("marked", at(24), marks > marked, name, label);
        if (trims) this.#sign("trimmed", at(34), trims > trimmed, name, label);
      }
    }
    this.mesh?.mark(far);
  }

  #sign(kind, [x, y], now, name, label) {
    const made = kind === "marked" ? element("circle", { cx: x, cy: y, r: 4 }, this.marks) : element("path", { d: `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z` }, this.marks);
    made.setAttribute("class", `${kind}${now ? " now" : ""}`);
    made.setAttribute("data-port", name);
    element("title", {}, made).textContent = label;
  }

  choose(target) {
    for (const group of this.nodes.values()) group.classList.remove("chosen");
    this.chosen = target?.kind === "cable" ? target.name : null;
    this.nodes.get(target?.name)?.classList.add("chosen");
  }

  highlight(names) { this.onpath = new Set(names); }

  // Whether it would be drawn in another form where it stands now.
  get stale() { const wide = this.svg.parentElement?.clientWidth ?? 0; return wide > 0 && this.narrow !== wide < LITTLE; }

  fit() { this.mesh?.draw(); }
}

export { RECENT };

// The fabric as SVG: planes side by side, T1s above T0s above hosts. Only what changed since the last frame is touched.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const ROW = { t1: 46, t0: 150, host: 262 };

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

export class FabricView {
  constructor(root, layout, select) {
    this.layout = layout;
    this.cables = [];
    this.nodes = new Map();
    this.shown = [];
    this.select = select;
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} 300`, role: "group", "aria-label": "Planes, switches, hosts and cables" });
    this.lines = element("g", {}, svg);
    this.#place();
    layout.links.forEach((link, index) => this.#cable(link, index));
    for (const [name, at] of this.places) this.#node(svg, name, at);
    for (const plane of layout.planes) this.#plane(svg, plane);
    root.append(svg);
  }

  #place() {
    this.places = new Map();
    const { planes, switches, hosts } = this.layout;
    const wide = WIDTH / planes.length;
    planes.forEach((plane, place) => {
      for (const tier of ["t1", "t0"]) {
        const row = switches.filter((each) => each.plane === plane && each.tier === tier);
        const xs = spread(row.length, place * wide + 8, (place + 1) * wide - 8);
        row.forEach((each, n) => this.places.set(each.name, { x: xs[n], y: ROW[tier], w: Math.min(64, (wide - 16) / row.length - 4), tier }));
      }
    });
    const xs = spread(hosts.length, 0, WIDTH);
    hosts.forEach((each, n) => this.places.set(each.name, { x: xs[n], y: ROW.host, w: Math.min(64, WIDTH / hosts.length - 6), tier: "host" }));
  }

  #selectable(group, label, target) {
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "button");
    group.setAttribute("aria-label", label);
    const chosen = () => this.select({ ...target, group });
    group.addEventListener("click", chosen);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); chosen(); }
    });
  }

  #cable(link, index) {
    const [a, b] = link.ends.map((name) => this.places.get(name));
    const group = element("g", { class: "cable", "data-name": link.name }, this.lines);
    const at = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    element("line", { ...at, class: "load", "stroke-width": 1.2 }, group);
    element("line", { ...at, class: "hit" }, group);
    const title = element("title", {}, group);
    title.textContent = link.name;
    this.#selectable(group, `cable ${link.name}`, { kind: "cable", name: link.name, link });
    this.cables.push({ group, load: group.firstChild, title, link });
    this.shown.push("");
  }

  #node(svg, name, at) {
    const group = element("g", { class: `node ${at.tier === "host" ? "host" : "switch"}`, "data-name": name }, svg);
    element("rect", { x: at.x - at.w / 2, y: at.y - 13, width: at.w, height: 26 }, group);
    const text = element("text", { x: at.x, y: at.y }, group);
    text.textContent = at.w > 40 ? name : name.replace(/^t[01]-p\d+-/, "");
    const badge = element("text", { x: at.x, y: at.y + 20, class: "badge" }, group);
    this.#selectable(group, `${at.tier === "host" ? "host" : "switch"} ${name}`, { kind: at.tier === "host" ? "host" : "switch", name });
    this.nodes.set(name, { group, badge });
  }

  #plane(svg, plane) {
    const wide = WIDTH / this.layout.planes.length;
    const text = element("text", { x: (plane - 0.5) * wide, y: 14, class: "plane-name" }, svg);
    text.textContent = `plane ${plane}`;
    this.#selectable(text, `plane ${plane}`, { kind: "plane", name: String(plane) });
  }

  update(frame) {
    const down = new Set(frame.down);
    const faulty = new Set(frame.faulty);
    this.cables.forEach((cable, index) => {
      const [up, back] = frame.load[index] ?? [0, 0];
      const share = Math.max(up, back);
      const state = down.has(index) ? "down" : faulty.has(cable.link.name) ? "faulty" : share > 0.97 ? "full" : share > 0.005 ? "busy" : "";
      const width = (1.2 + 5 * Math.min(share, 1)).toFixed(1);
      const key = `${state} ${width}`;
      if (key === this.shown[index]) return;
      this.shown[index] = key;
      for (const name of ["down", "faulty", "full", "busy"]) cable.group.classList.toggle(name, name === state);
      cable.load.setAttribute("stroke-width", width);
      cable.title.textContent = `${cable.link.name}: ${(up * 100).toFixed(0)} % up, ${(back * 100).toFixed(0)} % down${state ? `, ${state}` : ""}`;
    });
    const dead = new Set(frame.dead);
    for (const [name, node] of this.nodes) {
      node.group.classList.toggle("dead", dead.has(name));
      const told = frame.switches[name];
      const badge = told ? [told.trimmed && `✂${told.trimmed}`, told.marked && `●${told.marked}`].filter(Boolean).join(" ") : "";
      if (node.badge.textContent !== badge) node.badge.textContent = badge;
    }
  }

  highlight(names) {
    const wanted = new Set(names);
    for (const cable of this.cables) cable.group.classList.toggle("onpath", wanted.has(cable.link.name));
  }
}

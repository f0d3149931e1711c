// What is selected: how it stands, what can be done to it; paths, EVs and traffic of two hosts.

import { SLOW } from "./demo.js";
import { address } from "./address.js";
import { operate } from "./server.js";

const BREAKS = {
  cable: [
    ["Fail", "link_down", (it) => ({ link: it.name })], ["Flap", "flap", (it) => ({ link: it.name, period: "500ms" })],
    ["Lossy (5 %)", "loss", (it) => ({ link: it.name, rate: "5%" })], ["Silent drop", "silent_drop", (it) => ({ link: it.name })],
  ],
  port: [
    ["Fail", "nic_port_down", (it) => ({ port: it.name })], ["Flap", "flap", (it) => ({ link: it.name, period: "500ms" })],
    ["Lossy (5 %)", "loss", (it) => ({ link: it.name, rate: "5%" })],
  ],
  switch: [["Crash", "switch_crash", (it) => ({ switch: it.name })], ["Freeze", "switch_freeze", (it) => ({ switch: it.name })]],
  plane: [["Fail", "plane_down", (it) => ({ plane: Number(it.name) })]],
  host: [["Fail the NIC", "nic_down", (it) => ({ host: it.name })]],
};
const TRAFFIC = ["write", "stream", "pingpong"];

export function button(text, action, kind = "") {
  const made = document.createElement("button");
  made.textContent = text;
  made.className = kind;
  made.addEventListener("click", action);
  return made;
}

function made(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

export class Selection {
  // `changed` is called when another thing is chosen, `enlarge` with the plane that shall be drawn alone.
  constructor(root, layout, changed, enlarge) {
    Object.assign(this, { root, layout, changed, enlarge });
    this.links = new Map(layout.links.map((link) => [link.name, link]));
    this.numbers = new Map(layout.links.map((link, index) => [link.name, index]));
    this.ports = new Map(); // switch or host → its port, what is at the other end, the cable
    for (const link of layout.links) {
      link.ends.forEach((end, n) => {
        if (!this.ports.has(end)) this.ports.set(end, []);
        this.ports.get(end).push([link.ports[n], link.ends[1 - n], link]);
      });
    }
    this.ways = new Map(); // paths of the two hosts, as names of cables
    this.target = null;
    this.hosts = [];
    this.slowly = true; // time slows down when something is broken, where it can
    this.said = made("p", "", "hint");
    this.said.setAttribute("role", "status");
  }

  get onPath() { return this.hosts.length === 2 ? this.paths ?? [] : []; }

  choose(target) {
    this.target = target;
    this.said.textContent = "";
    if (target.kind === "host") this.hosts = [...this.hosts.filter((name) => name !== target.name), target.name].slice(-2);
    else this.hosts = [];
    const port = target.kind === "cable" && this.#isPort(target.name);
    this.facts = made("div");
    this.root.replaceChildren(made("h2", `${port ? "NIC port" : target.kind} ${target.name}`), this.facts);
    if (this.layout.operable) this.root.append(this.#deeds(port ? "port" : target.kind));
    if (target.kind === "plane") this.root.append(button("Draw this plane alone", () => this.enlarge(Number(target.name))), " ", button("All planes", () => this.enlarge(null)));
    if (target.kind === "host") this.#pair();
    this.root.append(this.said);
    this.changed();
  }

  fail() { if (this.target && this.layout.operable) this.#inject(BREAKS[this.#kind()][0]); }

  async clear(name = "") { this.#say(await operate("clear", name ? { name } : {})); }

  update(frame, loads) {
    if (!this.target) return;
    const { kind, name } = this.target;
    if (kind === "cable") this.facts.replaceChildren(this.#cable(frame, name, loads));
    if (kind === "switch") this.facts.replaceChildren(this.#ports(frame, name));
    if (kind === "host" && this.hosts.length === 2) this.#evs(frame);
  }

  #kind() { return this.target.kind === "cable" && this.#isPort(this.target.name) ? "port" : this.target.kind; }

  #isPort(name) { return this.links.get(name)?.ends.some((end) => this.layout.hosts.some((host) => host.name === end)); }

  #deeds(kind) {
    const row = made("p", "", "deeds");
    for (const fault of BREAKS[kind] ?? []) row.append(button(fault[0], () => this.#inject(fault), "break"));
    row.append(button("Clear all", () => this.clear(), "mend"));
    return row;
  }

  async #inject([, kind, fields]) {
    if (this.layout.speed && this.slowly) await operate("slow", SLOW);
    this.#say(await operate("inject", { kind, fields: fields(this.target) }));
  }

  #say(told) {
    this.said.className = told.error ? "mistake" : "hint";
    this.said.textContent = told.error ?? told.message ?? "done";
  }

  #cable(frame, name, loads) {
    const link = this.links.get(name), [a, b] = link.ends;
    const [up, back] = loads.get(this.numbers.get(name)) ?? [0, 0];
    const rows = [[`${a} → ${b}`, up, a, link.ports[0]], [`${b} → ${a}`, back, b, link.ports[1]]];
    return table(["direction", "load", "trimmed", "marked"], rows.map(([way, share, node, port]) => [way, `${(share * 100).toFixed(0)} %`, ...(frame.ports[node]?.[port] ?? [0, 0])]));
  }

  #ports(frame, name) {
    const mine = [...this.ports.get(name)].sort((a, b) => a[0] - b[0]);
    return table(["port", "to", "queue", "trimmed", "marked"], mine.map(([port, far]) => [port, far, frame.depths[name]?.[port] ?? 0, ...(frame.ports[name]?.[port] ?? [0, 0])]));
  }

  #pair() {
    const [from, to] = this.hosts;
    if (!to) { this.root.append(made("p", "Choose a second host to see the paths between them.", "hint")); return; }
    this.root.append(made("h2", `${from} → ${to}`));
    if (this.layout.operable) {
      const kind = document.createElement("select"), size = document.createElement("input");
      kind.append(...TRAFFIC.map((name) => new Option(name)));
      kind.setAttribute("aria-label", "kind of traffic");
      size.value = "64 MiB";
      size.size = 8;
      size.setAttribute("aria-label", "size");
      const row = made("p", "", "deeds");
      row.append(kind, size, button("Send", async () => this.#say(await operate("traffic", { traffic: { kind: kind.value, from, to, size: size.value } }))));
      this.root.append(row);
    }
    this.evs = made("div");
    this.evsShown = null;
    this.root.append(this.evs);
  }

  #evs(frame) {
    const [from, to] = this.hosts;
    const qp = frame.qps.findLast(([host, , peer]) => host === from && peer === to);
    const evs = qp ? frame.evs[`${qp[0]}/${qp[1]}`] : [];
    if (this.evsShown === evs && this.pairShown === `${from} ${to}`) return;
    this.evsShown = evs;
    this.pairShown = `${from} ${to}`;
    this.paths = evs.flatMap(([, plane, uplink]) => this.path(from, to, plane, uplink));
    if (!qp) { this.evs.replaceChildren(made("p", "No QP between them sends.", "hint")); return; }
    this.evs.className = "paths";
    const rows = evs.map(([ev, plane, uplink, state]) => [ev.toString(16).padStart(8, "0"), `plane ${plane}${uplink ? `, T1 ${uplink}` : ""}`, state]);
    const node = table(["EV", "path, address", "state"], rows);
    [...node.tBodies[0].rows].forEach((row, at) => {
      const below = document.createElement("tr"), cell = below.insertCell(), [, plane, uplink] = evs[at];
      cell.colSpan = rows[at].length;
      cell.textContent = address(this.layout, from, to, plane, uplink);
      row.after(below);
    });
    this.evs.replaceChildren(node);
  }

  // Cables of a path, by name.
  path(from, to, plane, uplink) {
    const key = `${from} ${to} ${plane} ${uplink}`;
    if (!this.ways.has(key)) {
      const ends = [from, to].map((host) => this.ports.get(host).find(([, , link]) => link.plane === plane));
      const t0s = ends.map(([, far]) => far);
      const core = uplink ? this.ports.get(`t1-p${plane}-${uplink}`).filter(([, far]) => t0s.includes(far)) : [];
      this.ways.set(key, [...ends, ...core].map(([, , link]) => link.name));
    }
    return this.ways.get(key);
  }
}

function table(head, rows) {
  const node = document.createElement("table"), top = node.createTHead().insertRow(), body = node.createTBody();
  for (const text of head) top.append(made("th", text));
  for (const row of rows) {
    const line = body.insertRow();
    for (const text of row) line.insertCell().textContent = text;
    if (head.at(-1) === "state") line.lastChild.className = `state ${row.at(-1)}`;
  }
  return node;
}

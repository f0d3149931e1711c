// The demo: a stream, a cable cut in slow motion, the cable again, and then a host's own cable.

import { operate } from "./server.js";

export const SLOW = { speed: 0.02, seconds: 7 };
const LASTS = "60s"; // of traffic

// Steps: seconds to wait before, line of the narrator (none: its own), operation. Real time cannot be slowed down.
// `rival`: the lab with RoCEv2 beside it, if there is one; the cable that is cut is one that its queue pair uses.
function steps(layout, rival) {
  const { from, to, core, port } = places(layout), slow = layout.speed ? "slow" : null, plane = (name) => /-p(\d+)/.exec(name)[1];
  const all = new Set(layout.links.map((link) => link.plane)).size;
  if (rival) {
    return [
      [0, `${from} sends to ${to}, over the same fabric twice.`, "traffic", { traffic: { kind: "stream", from, to, duration: LASTS } }],
      [4, "The cable that RoCEv2's queue pair uses is about to be cut, in both.", slow, { ...SLOW, seconds: 11 }],
      [3, "", "inject", () => ({ kind: "link_down", fields: { link: rival.busiest() ?? core, name: "demo-cut" } })],
      [slow ? 16 : 8, "MRC retransmitted a few packets and kept sending. RoCEv2's queue pair keeps retrying the dead cable.", null, null],
      [6, "", "clear", { name: "demo-cut" }],
      [5, "Click any cable to cut it in both.", null, null],
    ];
  }
  return [
    [0, `${from} sends to ${to}. Every packet takes its own path, over ${all} plane${all > 1 ? "s" : ""}.`, "traffic", { traffic: { kind: "stream", from, to, duration: LASTS } }],
    ...(core ? [
      [3, `Watch plane ${plane(core)}: one of its cables is about to be cut.${slow ? " Time runs fifty times slower." : ""}`, slow, { ...SLOW, seconds: 11 }],
      [3, "", "inject", { kind: "link_down", fields: { link: core, name: "demo-cut" } }],
      [slow ? 12 : 8, "", "clear", { name: "demo-cut" }],
    ] : []),
    [5, `Now ${from}'s own cable into plane ${plane(port)}.`, slow, { ...SLOW, seconds: 8 }],
    [2, "", "inject", { kind: "nic_port_down", fields: { port, name: "demo-port" } }],
    [slow ? 10 : 6, "", "clear", { name: "demo-port" }],
    [5, "One transfer, two failures, no timeout and no broken connection. Click any cable to cut it yourself.", null, null],
  ];
}

// Two hosts under different T0s if there are such, a cable between the first one's T0 and a T1, and a NIC port of it.
function places(layout) {
  const from = layout.hosts[0].name, ports = layout.links.filter((link) => link.ends.includes(from));
  const other = (link, name) => link.ends.find((end) => end !== name);
  const t0 = other(ports[0], from), near = new Set(layout.links.filter((link) => link.ends.includes(t0)).map((link) => other(link, t0)));
  const to = (layout.hosts.find(({ name }) => name !== from && !near.has(name)) ?? layout.hosts[1]).name;
  const core = near.has(to) ? undefined : layout.links.filter((link) => link.name.startsWith(`${t0}/`));
  return { from, to, core: core?.at(-1)?.name, port: ports[ports.length > 1 ? 1 : 0].name };
}

export class Demo {
  // `say` gets a line for the narrator, or "" for its own; `done` is called at the end.
  constructor(say, done) { Object.assign(this, { say, done, number: 0 }); }

  get runs() { return this.timer !== undefined; }

  async start(layout, rival = null) {
    this.stop();
    this.steps = steps(layout, rival);
    await operate("clear", {});
    this.number = 0;
    this.#next();
  }

  stop() { clearTimeout(this.timer); this.timer = undefined; this.say(""); }

  #next() {
    const step = this.steps[this.number];
    if (!step) { this.timer = undefined; this.done(); return; }
    this.timer = setTimeout(async () => {
      this.number++;
      const [, line, operation, fields] = step;
      this.say(line);
      const told = operation ? await operate(operation, typeof fields === "function" ? fields() : fields) : {};
      if (told.error) { this.stop(); this.say(told.error); this.done(); return; }
      this.#next();
    }, step[0] * 1e3);
  }
}

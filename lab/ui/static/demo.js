// The demo: a stream, a cable cut in slow motion, the cable again, and then a host's own cable.

import { operate } from "./server.js";

export const SLOW = { pace: 0.02, seconds: 7 };
const STEPS = [
  // seconds to wait before, line of the narrator (none: its own), operation
  [0, "h1 sends to h3. Every packet takes its own path: four planes, two uplinks each.", "traffic", { traffic: { kind: "stream", from: "h1", to: "h3", size: "256 MiB" } }],
  [3, "Watch plane 1: one of its cables is about to be cut. Time runs fifty times slower.", "slow", { ...SLOW, seconds: 11 }],
  [3, "", "strike", { kind: "link_down", fields: { link: "t0-p1-1/t1-p1-2", name: "demo-cut" } }],
  [12, "", "heal", { name: "demo-cut" }],
  [5, "Now h1's own cable into plane 2.", "slow", { ...SLOW, seconds: 8 }],
  [2, "", "strike", { kind: "nic_port_down", fields: { port: "h1-p2", name: "demo-port" } }],
  [10, "", "heal", { name: "demo-port" }],
  [5, "One transfer, two failures, no timeout and no broken connection. Click any cable to cut it yourself.", null, null],
];

export class Demo {
  // `say` gets a line for the narrator, or "" for its own; `done` is called at the end.
  constructor(say, done) { Object.assign(this, { say, done, number: 0 }); }

  get runs() { return this.timer !== undefined; }

  async start() {
    this.stop();
    await operate("heal", {});
    this.number = 0;
    this.#next();
  }

  stop() { clearTimeout(this.timer); this.timer = undefined; this.say(""); }

  #next() {
    const step = STEPS[this.number];
    if (!step) { this.timer = undefined; this.done(); return; }
    this.timer = setTimeout(async () => {
      this.number++;
      const [, line, operation, fields] = step;
      this.say(line);
      const told = operation ? await operate(operation, fields) : {};
      if (told.error) { this.stop(); this.say(told.error); this.done(); return; }
      this.#next();
    }, step[0] * 1e3);
  }
}

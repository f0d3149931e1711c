// How figures are told: as shares of the line and round trips of an empty fabric, or in bytes and seconds.

const PREFIX = [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"]];
const KEPT = "units";

export class Units {
  constructor() {
    try { this.absolute = localStorage.getItem(KEPT) === "absolute"; } catch { this.absolute = false; }
  }

  // `layout` of the fabric that is shown; `receivers`: hosts to which QPs send.
  fit(layout) { Object.assign(this, { layout, receivers: 1 }); }

  // Whether there are other receivers than before.
  count(receivers) {
    const changed = receivers > this.receivers;
    this.receivers = Math.max(this.receivers, receivers);
    return changed;
  }

  toggle() {
    this.absolute = !this.absolute;
    try { localStorage.setItem(KEPT, this.absolute ? "absolute" : "relative"); } catch { /* this visit only */ }
  }

  get #line() { return this.layout.line_rate * this.layout.planes.length * this.receivers; }

  get #prefix() { return PREFIX.find(([one]) => this.#line >= one) ?? [1, "B/s"]; }

  get name() { return this.absolute ? `${this.#prefix[1]}, ms` : "% of line, RTT"; }

  // Of bytes/s.
  get rateScale() { return this.absolute ? 1 / this.#prefix[0] : 100 / this.#line; }

  get rateName() { return this.absolute ? this.#prefix[1] : this.receivers > 1 ? `% of ${this.receivers} lines` : "% of line"; }

  rate(scaled) { return this.absolute ? `${scaled.toFixed(2)} ${this.#prefix[1]}` : `${scaled.toFixed(1)} %`; }

  // Of milliseconds.
  get tripScale() { return this.absolute ? 1 : 1e-3 / this.layout.base_rtt; }

  get tripName() { return this.absolute ? "ms" : "RTT"; }

  trip(scaled) { return this.absolute ? `${scaled.toPrecision(3)} ms` : `${scaled.toFixed(2)} RTT`; }

  // Seconds as round trips of an empty fabric.
  trips(seconds) { const count = seconds / this.layout.base_rtt; return `${count < 10 ? count.toFixed(1) : Math.round(count).toLocaleString("en")} RTT`; }
}

// How figures are told: as shares of the line and round trips of an empty fabric, or in the units of the run's report.

const BITS = [1e9 / 8, "Gb/s"], BYTES = [1e6, "MB/s"]; // on links whose rate is given in bits, and on others
const SHORT = 1e-4; // seconds: round trips below are told in microseconds
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

  get #prefix() { return this.layout.bits ? BITS : BYTES; }

  get #time() { return this.layout.base_rtt < SHORT ? [1e3, "µs"] : [1, "ms"]; }

  get name() { return this.absolute ? `${this.#prefix[1]}, ${this.#time[1]}` : "% of line, RTT"; }

  // Of bytes/s.
  get rateScale() { return this.absolute ? 1 / this.#prefix[0] : 100 / this.#line; }

  get rateName() { return this.absolute ? this.#prefix[1] : this.receivers > 1 ? `% of ${this.receivers} lines` : "% of line"; }

  rate(scaled) { return this.absolute ? `${scaled.toFixed(2)} ${this.#prefix[1]}` : `${scaled.toFixed(1)} %`; }

  // Of milliseconds.
  get tripScale() { return this.absolute ? this.#time[0] : 1e-3 / this.layout.base_rtt; }

  get tripName() { return this.absolute ? this.#time[1] : "RTT"; }

  trip(scaled) { return this.absolute ? `${scaled.toPrecision(3)} ${this.#time[1]}` : `${scaled.toFixed(2)} RTT`; }

  // Seconds as round trips of an empty fabric.
  trips(seconds) { const count = seconds / this.layout.base_rtt; return `${count < 10 ? count.toFixed(1) : Math.round(count).toLocaleString("en")} RTT`; }
}

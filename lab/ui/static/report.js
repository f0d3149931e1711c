// The report of a run, drawn by the page's own charts from the series of the report's pictures.

import { Chart, FROM_ZERO, Goodput, axis, of, timeAxis } from "./charts.js";
import { get } from "./server.js";

const HUES = ["ink", "soft", "good", "plane-1", "plane-2", "plane-3", "plane-4", "plane-5"];

class Lines extends Chart {
  // `lines`: name → values; told by `format`.
  constructor(root, lines, faults, unit, format, hues = HUES) {
    const named = Object.keys(lines).slice(0, hues.length);
    super(root, named.map((name, n) => [name, `var(--${hues[n]})`]), () => ({
      scales: { x: { time: false }, y: FROM_ZERO }, axes: [timeAxis(unit), axis()],
      series: [{}, ...named.map((_, n) => ({ stroke: of(hues[n]), width: 2, points: { show: false } }))],
    }), faults, unit);
    Object.assign(this, { named, format, hues });
  }

  said(at) { return this.named.map((name, n) => [name, this.format(this.data[n + 1][at]), of(this.hues[n])]); }
}

function made(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

export class Report {
  constructor(dialog, units) {
    Object.assign(this, { dialog, units, body: dialog.querySelector(".report") });
  }

  async open(planes) {
    const told = await get("api/report");
    this.body.replaceChildren(told.error ? made("p", told.error, "mistake") : made("p", "…"));
    this.dialog.showModal();
    if (told.error) return;
    const { series, faults } = told, seconds = series.step * series.t.length, unit = seconds < 2e-3 ? ["µs", 1e6] : seconds < 2 ? ["ms", 1e3] : ["s", 1];
    const single = series.t.length === 1; // a run of one bin is drawn from its begin to its end, as a point has no area
    const both = (values) => (single ? [values[0], values[0]] : values);
    const times = (single ? [series.t[0], series.t[0] + series.step] : series.t.map((t) => t + series.step / 2)) // middles of the bins, as in the pictures
      .map((t) => t * unit[1]);
    const marks = () => faults.flatMap(({ begin, end }) => [{ t: begin * unit[1], end: false }, { t: end * unit[1], end: true }]);
    const list = document.createElement("ul");
    for (const { ok, expected, observed } of told.verdicts) {
      const line = made("li", "", ok ? "standing passed" : "standing failed");
      line.append(made("b", ok ? "✓ passed" : "✗ failed"), ` ${expected}`, made("small", observed));
      list.append(line);
    }
    const places = [`Goodput, stacked by plane (${this.units.rateName})`, "Packets declared lost, and retransmitted", `Goodput of every flow (${this.units.rateName})`].map((title) => {
      const figure = document.createElement("figure"), place = document.createElement("div");
      figure.append(made("figcaption", title), place);
      return [figure, place];
    });
    this.body.replaceChildren(made("h2", told.title), made("p", told.headline), list, ...places.map(([figure]) => figure));
    const name = () => unit[0], rate = (value) => this.units.rate(value), scale = this.units.rateScale;
    const rows = series.t.map((_, n) => Object.fromEntries(planes.map((plane) => [plane, series.goodput_bytes_per_second[`plane ${plane}`]?.[n] ?? 0])));
    new Goodput(places[0][1], planes, marks, name).update(times, both(rows), scale, rate);
    const losses = { lost: series.lost_packets, retransmitted: series.retransmitted_packets };
    new Lines(places[1][1], losses, marks, name, String, ["bad", "ink"]).draw([times, ...Object.values(losses).map(both)]);
    const flows = Object.fromEntries(Object.entries(series.flow_goodput_bytes_per_second).slice(0, HUES.length));
    new Lines(places[2][1], flows, marks, name, rate).draw([times, ...Object.values(flows).map((values) => both(values).map((value) => value * scale))]);
  }
}

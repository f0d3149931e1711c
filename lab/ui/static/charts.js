// Goodput, transport and losses over time (uPlot), and the heat map of EV states (a canvas: a thousand EVs are a thousand rows).

import { explained } from "./words.js";

// The colours of lab/report/palette.py: a hue is a plane, vermilion is broken; all else is ink in shades.
export const PLANES = ["#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#999933", "#882255", "#332288", "#777777"];
PLANES.forEach((colour, n) => document.documentElement.style.setProperty(`--plane-${n + 1}`, colour)); // for the fabric
export const STATES = { GOOD: "#a9bccd", SKIP: "#6c8299", STANDBY: "#e3e7ec", ASSUMED_BAD: "#d55e00", PORT_DOWN: "#5b2a86", DENIED: "#2b333d" };
const OUT = new Set(["ASSUMED_BAD", "PORT_DOWN", "DENIED"]); // striped as well
const MOST_ROWS = 1200;
export const FROM_ZERO = { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] };

// A colour of the page's scheme.
export function of(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }

function size() { return parseFloat(getComputedStyle(document.documentElement).fontSize); }
function height(root) {
  return document.documentElement.classList.contains("projector") ? Math.max(60, root.clientHeight) : Math.round(size() * 11.5);
}

// Times with their unit at the last one.
export function timeAxis(unit) {
  return axis({ size: Math.round(size() * 1.9), values: (_, values) => values.map((value, n) => (n === values.length - 1 ? `${value} ${unit()}` : value)) });
}

export function axis(more = {}) {
  const px = size();
  return { stroke: of("soft"), grid: { stroke: of("grid"), width: 1 }, ticks: { show: false }, font: `${Math.round(px * 0.75)}px system-ui, sans-serif`, size: Math.round(px * 3.2), gap: 4, ...more };
}

function marks(faults) {
  return {
    hooks: {
      draw: [(plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.lineWidth = 2;
        for (const { t, end } of faults()) {
          const x = plot.valToPos(t, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.strokeStyle = ctx.fillStyle = end ? of("soft") : of("bad");
          ctx.setLineDash(end ? [2, 4] : [6, 4]);
          ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
          ctx.beginPath(); ctx.moveTo(x - 5, bbox.top); ctx.lineTo(x + 5, bbox.top); ctx.lineTo(x, bbox.top + 7); ctx.fill();
        }
        ctx.restore();
      }],
    },
  };
}

// Values under the pointer, in a box beside it. `said` has the lines for a place of the data, each [name, value, colour].
function values(said, unit) {
  const box = document.createElement("div");
  box.className = "values";
  box.hidden = true;
  const draw = (plot) => {
    const { idx, left } = plot.cursor;
    box.hidden = idx == null || left < 0 || plot.data[0][idx] === undefined;
    if (box.hidden) return;
    const lines = said(idx).map(([name, value, colour]) => {
      const line = document.createElement("span"), swatch = document.createElement("i"), number = document.createElement("b");
      swatch.style.background = colour;
      number.textContent = value;
      line.append(swatch, `${name} `, number);
      return line;
    });
    box.replaceChildren(`${Number(plot.data[0][idx].toFixed(3))} ${unit()}`, ...lines);
    const right = left > plot.over.clientWidth / 2;
    box.style.left = right ? "" : `${left + 12}px`;
    box.style.right = right ? `${plot.over.clientWidth - left + 12}px` : "";
  };
  return { hooks: { ready: [(plot) => plot.over.append(box)], setCursor: [draw], setData: [draw] } };
}

// All charts show their values at the moment that one is pointed at.
const POINTER = { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false }, sync: { key: "moments", setSeries: false } };

export class Chart {
  constructor(root, legend, options, faults, unit) {
    this.root = root;
    this.make = () => new uPlot({ width: root.clientWidth, height: height(root), cursor: POINTER, legend: { show: false }, plugins: [marks(faults), values((at) => this.said(at), unit)], ...options() }, this.data ?? [[]], root);
    const key = document.createElement("p");
    key.className = "legend";
    for (const [name, colour, dash, side] of legend) {
      const swatch = document.createElement("i");
      swatch.style.cssText = dash ? `border-top: 3px ${dash[0] < 4 ? "dotted" : "dashed"} ${colour}; background: none; height: 0; width: 1.6rem; vertical-align: .22rem` : `background: ${colour}`;
      const text = document.createElement("span");
      text.append(swatch, explained(name), side ? `, ${side}` : "");
      key.append(text);
    }
    root.before(key);
    this.fit();
  }

  draw(data) { this.data = data; this.plot.setData(data); }

  fit() { this.plot?.destroy(); this.root.replaceChildren(); this.plot = this.make(); }
}

export class Goodput extends Chart {
  constructor(root, planes, faults, unit) {
    const colour = (plane) => PLANES[(plane - 1) % PLANES.length];
    // Stacked: the sum is drawn first and the lower planes over it.
    const scale = { least: 0 }; // the axis goes up to this, at least
    const series = [...planes].reverse().map((plane) => ({ stroke: of("paper"), fill: colour(plane), width: 0.5, points: { show: false } }));
    super(root, planes.map((plane) => [`plane ${plane}`, colour(plane)]), () => ({ scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(most * 1.08, scale.least) || 1] } }, axes: [timeAxis(unit), axis()], series: [{}, ...series] }), faults, unit);
    this.planes = planes;
    this.scale = scale;
    this.rows = [];
  }

  // `scale`: of bytes/s to what the axis has; `format` tells one such value.
  update(times, rows, scale, format) {
    const sums = this.planes.map(() => new Array(rows.length));
    rows.forEach((row, n) => {
      let sum = 0;
      this.planes.forEach((plane, place) => { sum += (row[plane] ?? 0) * scale; sums[place][n] = sum; });
    });
    Object.assign(this, { rows, factor: scale, format });
    this.top = Math.max(0, ...sums.at(-1));
    this.draw([times, ...sums.reverse()]);
  }

  said(at) {
    const row = this.rows[at] ?? {}, told = (value) => this.format(value * (this.factor ?? 0));
    const shares = this.planes.map((plane) => [`plane ${plane}`, told(row[plane] ?? 0), PLANES[(plane - 1) % PLANES.length]]);
    return [["all", told(this.planes.reduce((sum, plane) => sum + (row[plane] ?? 0), 0)), "transparent"], ...shares.reverse()];
  }
}

export class Transport extends Chart {
  constructor(root, faults, unit) {
    const line = (stroke, more = {}) => ({ stroke, width: 2, points: { show: false }, ...more });
    super(root, [["round trip", "var(--ink)", false, "left"], ["window", "var(--soft)", true, "right"]], () => ({
      scales: { x: { time: false }, y: FROM_ZERO, w: FROM_ZERO },
      axes: [timeAxis(unit), axis(), axis({ scale: "w", side: 1, grid: { show: false } })],
      series: [{}, line(of("ink")), line(of("soft"), { dash: [6, 3], scale: "w" })],
    }), faults, unit);
  }

  update(times, rtts, windows, format) { this.format = format; this.draw([times, rtts, windows]); }

  said(at) {
    const [, rtts, windows] = this.data, rtt = rtts[at], window = windows[at];
    return [["round trip", rtt == null ? "none" : this.format(rtt), of("ink")], ["window", window == null ? "none" : `${window.toFixed(1)} packets`, of("soft")]];
  }
}

const COUNTS = [["lost", "bad"], ["retransmitted", "ink", [6, 3]], ["trimmed", "soft"], ["marked", "soft", [2, 3]]];

export class Losses extends Chart {
  constructor(root, faults, unit) {
    super(root, COUNTS.map(([name, colour, dash]) => [name, `var(--${colour})`, dash]), () => ({
      scales: { x: { time: false }, y: FROM_ZERO },
      axes: [timeAxis(unit), axis()],
      series: [{}, ...COUNTS.map(([, colour, dash]) => ({ stroke: of(colour), width: 2, dash, points: { show: false } }))],
    }), faults, unit);
  }

  said(at) { return COUNTS.map(([name, colour], n) => [name, String(this.data[n + 1]?.[at] ?? 0), of(colour)]); }

  // Totals of frames, as packets within a time that ends with each.
  update(times, totals, within) {
    let first = 0;
    const since = times.map((time) => { while (times[first] < time - within) first++; return Math.max(0, first - 1); });
    const grown = COUNTS.map(([name]) => totals.map((each, n) => Math.max(0, each[name] - totals[since[n]][name])));
    this.draw([times, ...grown]);
  }
}

export class EvMap {
  // `said` is the box for what is pointed at; `describe` tells path and address of an EV as lines.
  constructor(canvas, key, said, describe) {
    Object.assign(this, { canvas, said, describe, only: null, pointed: null, places: [] });
    canvas.addEventListener("pointermove", (event) => this.#point(event));
    canvas.addEventListener("pointerleave", () => { this.said.hidden = true; this.pointed?.(null); });
    for (const [state, colour] of Object.entries(STATES)) {
      const swatch = document.createElement("i"), text = document.createElement("span");
      swatch.style.background = colour;
      if (OUT.has(state)) swatch.className = "striped";
      text.append(swatch, explained(state.toLowerCase().replace("_", " ")));
      key.append(text);
    }
  }

  update(frames, from, to) {
    const canvas = this.canvas, ratio = devicePixelRatio;
    const rows = this.#rows(frames, from, to);
    const px = size(), count = [...rows.values()].reduce((sum, row) => sum + row.names.length, 0);
    canvas.style.height = `${Math.round(Math.min(Math.max(count * px * 0.9, px * 5), px * 15))}px`;
    const width = canvas.clientWidth, tall = canvas.clientHeight / Math.max(count, 1);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(canvas.clientHeight * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(canvas.clientHeight * ratio);
    }
    const ink = canvas.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, canvas.clientHeight);
    ink.font = `${Math.round(px * 0.72)}px system-ui, sans-serif`;
    ink.textBaseline = "middle";
    this.places = [];
    if (!rows.size) { ink.fillStyle = of("soft"); ink.fillText("no QP sends yet", 8, 20); return; }
    const label = Math.round(px * 5.6), each = tall >= px * 0.75, wide = (width - label) / Math.max(to - from, 1);
    this.shown = { frames, from, label, wide, tall };
    let top = 0;
    for (const [key, row] of rows) {
      this.places.push(...row.evs.map((ev) => ({ key, host: key.split("/")[0], peer: row.peer, ...ev })));
      for (const out of [false, true]) { // what is out of use must be seen, however thin its row
        this.#runs(frames, from, to, key, (evs, begin, end) => evs.forEach(([ev, , , state]) => {
          if (OUT.has(state) !== out) return;
          const place = top + row.place.get(ev), x = label + (begin - from) * wide, y = place * tall;
          ink.globalAlpha = this.only && !this.only(this.places[place]) ? 0.22 : 1;
          this.#cell(ink, state, x, y, (end - begin) * wide, Math.max(tall - (tall > 3 ? 1 : 0), out ? 1.5 : 0.5));
        }));
      }
      ink.globalAlpha = 1;
      ink.fillStyle = of("ink");
      if (each) row.names.forEach((name, n) => ink.fillText(name, 0, (top + n + 0.5) * tall));
      else if (row.names.length * tall >= px * 0.8) ink.fillText(`${key.split("/")[0]} → ${row.peer || "?"}`, 0, (top + row.names.length / 2) * tall);
      top += row.names.length;
      if (tall > 2) ink.clearRect(0, top * tall - 1.5, width, 1.5);
    }
  }

  #point({ offsetX, offsetY }) {
    const { frames, from, label, wide, tall } = this.shown ?? {}, at = this.places[Math.floor(offsetY / tall)];
    const frame = frames?.[Math.min(frames.length - 1, Math.max(from, from + Math.floor((offsetX - label) / wide)))];
    this.pointed?.(at ?? null);
    this.said.hidden = !at;
    if (!at) return;
    const state = frame.evs[at.key]?.find(([ev]) => ev === at.ev)?.[3];
    const lines = [`EV ${at.ev.toString(16).padStart(8, "0")}${state ? `: ${state.toLowerCase().replace("_", " ")}` : ""}`, ...this.describe(at)];
    this.said.replaceChildren(...lines.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    const right = offsetX > this.canvas.clientWidth / 2;
    Object.assign(this.said.style, { top: `${offsetY + 14}px`, left: right ? "" : `${offsetX + 12}px`, right: right ? `${this.canvas.clientWidth - offsetX + 12}px` : "" });
  }

  #cell(ink, state, x, y, wide, tall) {
    ink.fillStyle = STATES[state] ?? "#999";
    ink.fillRect(x, y, wide, tall);
    if (!OUT.has(state) || tall < 4) return;
    ink.fillStyle = "#ffffff90";
    for (let at = x - x % 7 + 7; at < x + wide; at += 7) ink.fillRect(at, y, 2, tall);
  }

  // Which QPs had EVs, and which; in the order in which they came.
  #rows(frames, from, to) {
    const rows = new Map();
    let seen = null, count = 0;
    for (let n = from; n < to; n++) {
      if (frames[n].evs === seen) continue;
      seen = frames[n].evs;
      for (const [key, evs] of Object.entries(seen)) {
        let row = rows.get(key);
        if (!row) {
          if (count >= MOST_ROWS) continue;
          const [, , peer] = frames[n].qps.find(([host, qp]) => `${host}/${qp}` === key) ?? [];
          rows.set(key, row = { names: [], evs: [], place: new Map(), told: null, peer });
        }
        if (row.told === evs) continue;
        row.told = evs;
        for (const [ev, plane, uplink] of evs) {
          if (row.place.has(ev)) continue;
          row.place.set(ev, row.names.length);
          row.evs.push({ ev, plane, uplink });
          row.names.push(`${key.split("/")[0]} p${plane}${uplink ? ` u${uplink}` : ""}`);
          count++;
        }
      }
    }
    return rows;
  }

  // Stretches of frames in which nothing changed about the EVs of a QP.
  #runs(frames, from, to, key, draw) {
    let evs = frames[from].evs[key], begin = from;
    for (let n = from + 1; n <= to; n++) {
      const next = n < to ? frames[n].evs[key] : null;
      if (next === evs) continue;
      if (evs) draw(evs, begin, n);
      evs = next;
      begin = n;
    }
  }
}

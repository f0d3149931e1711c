// Goodput and transport over time (uPlot), and the heat map of EV states (a canvas: a thousand EVs are a thousand rows).

const PLANES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555"];
const STATES = { GOOD: "#009e73", SKIP: "#f0e442", ASSUMED_BAD: "#d55e00", PORT_DOWN: "#7a3b12", DENIED: "#0072b2", STANDBY: "#c3cad3" };
const HEIGHT = 190;
const FROM_ZERO = { range: (_, __, most) => [0, Math.max(most ?? 0, 1e-6) * 1.08] };
const AXIS = { stroke: "#5b6675", grid: { stroke: "#eceff3" }, size: 46 };

function marks(faults) {
  return {
    hooks: {
      draw: [(plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = "#d55e00";
        ctx.setLineDash([4, 4]);
        for (const at of faults()) {
          const x = plot.valToPos(at, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        }
        ctx.restore();
      }],
    },
  };
}

export class Goodput {
  constructor(root, planes, faults) {
    this.root = root;
    this.planes = planes;
    // Stacked: the sum is drawn first and the lower planes over it.
    const series = [...planes].reverse().map((plane) => ({ label: `plane ${plane}`, stroke: PLANES[(plane - 1) % 8], fill: PLANES[(plane - 1) % 8] + "cc", width: 1, points: { show: false } }));
    this.plot = new uPlot({ width: root.clientWidth, height: HEIGHT, cursor: { show: false }, legend: { show: false }, scales: { x: { time: false }, y: FROM_ZERO }, axes: [{ ...AXIS, size: 30 }, AXIS], series: [{}, ...series], plugins: [marks(faults)] }, [[], ...planes.map(() => [])], root);
  }

  update(times, rows) {
    const sums = this.planes.map(() => []);
    for (const row of rows) {
      let sum = 0;
      this.planes.forEach((plane, place) => { sum += (row[plane] ?? 0) / 1e6; sums[place].push(sum); });
    }
    this.plot.setData([times, ...sums.reverse()]);
  }

  fit() { this.plot.setSize({ width: this.root.clientWidth, height: HEIGHT }); }
}

export class Transport {
  constructor(root, faults) {
    this.root = root;
    this.plot = new uPlot({ width: root.clientWidth, height: HEIGHT, cursor: { show: false }, legend: { show: false }, scales: { x: { time: false }, y: FROM_ZERO, w: FROM_ZERO }, axes: [{ ...AXIS, size: 30 }, AXIS, { ...AXIS, scale: "w", side: 1, grid: { show: false } }], series: [{}, { label: "round trip", stroke: "#0072b2", width: 2, points: { show: false } }, { label: "window", stroke: "#cc79a7", width: 2, dash: [6, 3], scale: "w", points: { show: false } }], plugins: [marks(faults)] }, [[], [], []], root);
  }

  update(times, rtts, windows) { this.plot.setData([times, rtts, windows]); }

  fit() { this.plot.setSize({ width: this.root.clientWidth, height: HEIGHT }); }
}

export class EvMap {
  constructor(canvas) { this.canvas = canvas; }

  update(frames, from, to) {
    const canvas = this.canvas;
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio;
    if (canvas.width !== width * ratio) { canvas.width = width * ratio; canvas.height = height * ratio; }
    const ink = canvas.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    const rows = new Map();
    for (let n = from; n < to; n++) for (const qp of frames[n].qps) for (const [ev, plane, uplink] of qp.evs) rows.set(`${qp.host}/${qp.qp}/${ev}`, `${qp.host} p${plane} u${uplink}`);
    if (!rows.size) { ink.fillStyle = "#5b6675"; ink.fillText("no QP sends yet", 8, 20); return; }
    const keys = [...rows.keys()], place = new Map(keys.map((key, n) => [key, n]));
    const tall = height / keys.length, label = tall >= 9 ? 64 : 0, wide = (width - label) / (to - from);
    for (let n = from; n < to; n++) {
      for (const qp of frames[n].qps) for (const [ev, , , state] of qp.evs) {
        ink.fillStyle = STATES[state] ?? "#999";
        const y = place.get(`${qp.host}/${qp.qp}/${ev}`) * tall;
        ink.fillRect(label + (n - from) * wide, y, Math.ceil(wide), Math.max(tall - 1, 1));
        if (state === "ASSUMED_BAD" || state === "PORT_DOWN") { ink.fillStyle = "#fff8"; ink.fillRect(label + (n - from) * wide, y + tall / 2 - 1, Math.ceil(wide), 2); }
      }
    }
    if (label) { ink.fillStyle = "#1c2430"; ink.font = "10px system-ui"; ink.textBaseline = "middle"; keys.forEach((key, n) => ink.fillText(rows.get(key), 0, (n + 0.5) * tall)); }
  }
}

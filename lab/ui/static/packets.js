// Packets as dots on their cables, where they were in virtual time, while it is slow. What was lost falls off its cable.

const LAG = 0.16; // seconds behind the newest word, so that what is drawn has been told
const FALL = 0.9; // seconds that a lost one falls
const RIM = 15; // units of the drawing that a node covers of a cable
const SIZE = [4.6, 2.3, 3.4]; // data, feedback, trimmed
const MOST = 6000;

export class Packets {
  // `lines`: for every cable its ends in units of a drawing that is `wide` by `high`; `planes`: its plane.
  constructor(root, lines, planes, wide, high) {
    Object.assign(this, { lines, planes, wide, high, scale: high > 400 ? 1.8 : 1 }); // larger on the narrow drawing
    this.canvas = document.createElement("canvas");
    this.canvas.className = "packets";
    root.append(this.canvas);
    this.flying = []; // as told: entered, left, way, kind, whether it arrived
    this.falling = []; // where, since when
    this.on = false;
    this.clear = true;
  }

  // What was seen since the last word; `slow`: more will come.
  take({ now, speed, slow, seen }) {
    const real = performance.now() / 1e3;
    if (!this.on) { this.time = now; this.flying = []; }
    this.told = { now, speed, real };
    this.flying.push(...seen);
    if (this.flying.length > MOST) this.flying.splice(0, this.flying.length - MOST);
    this.ends = slow ? Infinity : real + 1;
    this.canvas.parentElement?.querySelector("svg")?.classList.toggle("slow", slow);
    if (!this.on) { this.on = true; requestAnimationFrame(() => this.#draw()); }
  }

  stop() { this.ends = 0; this.flying = []; this.falling = []; }

  // All that was seen, as it was at a time; a lost one falls for so many seconds of virtual time.
  paint(t, seen, fall, size = 1) {
    const ink = this.#wipe(), style = getComputedStyle(document.documentElement);
    const colour = (plane) => style.getPropertyValue(`--plane-${(plane - 1) % 8 + 1}`);
    const lost = style.getPropertyValue("--bad"), edge = style.getPropertyValue("--paper");
    for (const [entered, leaves, way, kind, arrived] of seen) {
      if (entered > t || leaves + fall < t) continue;
      const line = this.lines[way >> 1], share = (t - entered) / (leaves - entered || 1);
      if (!line || arrived && share > 1) continue;
      const [x, y] = this.#at(line, way, arrived ? share : Math.min(share, 0.5));
      if (arrived || share < 0.5) { this.#dot(ink, x, y, size * this.scale * SIZE[kind], colour(this.planes[way >> 1]), kind === 1 ? null : edge); continue; }
      const gone = (t - (entered + leaves) / 2) / fall;
      if (gone > 1) continue;
      ink.globalAlpha = 1 - gone * gone;
      this.#dot(ink, x + 6 * gone, y + 90 * gone * gone, size * this.scale * SIZE[kind] * 1.15, lost, null);
      ink.globalAlpha = 1;
    }
  }

  #draw() {
    const real = performance.now() / 1e3;
    if (real > this.ends && !this.falling.length) { this.on = false; this.flying = []; this.#wipe(); return; }
    const { now, speed, real: then } = this.told;
    this.time = Math.max(this.time, Math.min(now, now + (real - then) * speed - LAG * speed));
    const ink = this.#wipe(), style = getComputedStyle(document.documentElement), t = this.time;
    const colour = (plane) => style.getPropertyValue(`--plane-${(plane - 1) % 8 + 1}`);
    const lost = style.getPropertyValue("--bad"), edge = style.getPropertyValue("--paper");
    const left = [];
    for (const one of this.flying) {
      const [entered, leaves, way, kind, arrived] = one, line = this.lines[way >> 1];
      if (!line) continue;
      if (entered > t) { left.push(one); continue; }
      const share = (t - entered) / (leaves - entered || 1);
      if (!arrived && share >= 0.5) { this.falling.push({ at: this.#at(line, way, 0.5), since: real, size: this.scale * SIZE[kind] }); continue; }
      if (share > 1) continue;
      left.push(one);
      const [x, y] = this.#at(line, way, share);
      this.#dot(ink, x, y, this.scale * SIZE[kind], colour(this.planes[way >> 1]), kind === 1 ? null : edge);
    }
    this.flying = left;
    this.falling = this.falling.filter(({ since }) => real - since < FALL);
    for (const { at: [x, y], since, size } of this.falling) {
      const gone = (real - since) / FALL;
      ink.globalAlpha = 1 - gone * gone;
      this.#dot(ink, x + 6 * gone, y + 90 * gone * gone, size * 1.15, lost, null);
    }
    ink.globalAlpha = 1;
    requestAnimationFrame(() => this.#draw());
  }

  #at(line, way, share) {
    const { x1, y1, x2, y2 } = line, rim = Math.min(0.4, RIM * this.scale / (Math.abs(y2 - y1) || 1));
    const along = rim + (1 - 2 * rim) * (way % 2 ? 1 - share : share);
    return [x1 + (x2 - x1) * along, y1 + (y2 - y1) * along];
  }

  #dot(ink, x, y, size, fill, edge) {
    ink.beginPath();
    ink.arc(x, y, size, 0, 7);
    ink.fillStyle = fill;
    ink.fill();
    if (edge) { ink.strokeStyle = edge; ink.lineWidth = 1; ink.stroke(); }
  }

  #wipe() {
    const { canvas } = this, svg = canvas.parentElement?.querySelector("svg"), box = svg?.getBoundingClientRect();
    const ink = canvas.getContext("2d");
    if (!box) return ink;
    const ratio = devicePixelRatio, width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const scale = Math.min(width / this.wide, height / this.high); // the drawing stands in the middle of its frame
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.clearRect(0, 0, width, height);
    ink.setTransform(scale, 0, 0, scale, (width - scale * this.wide) / 2, (height - scale * this.high) / 2);
    return ink;
  }
}

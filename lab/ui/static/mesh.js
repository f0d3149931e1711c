// Cables of a fabric that has too many for an element each: drawn on a canvas behind the others, all of a kind at once.

const CLEAR = 2000, FAINTEST = 0.3; // as many busy cables are drawn as they are; more are the fainter

export class Mesh {
  // `lines`: for every cable its ends in units of a drawing that is `wide` by `high`; none for those that are not drawn.
  constructor(root, lines, wide, high) {
    Object.assign(this, { lines, wide, high });
    this.kinds = new Map(); // plane and width → numbers of cables
    this.how = new Map(); // number → plane and width
    this.ports = []; // where, what, whether now
    this.canvas = document.createElement("canvas");
    this.canvas.className = "mesh";
    this.rest = document.createElement("canvas"); // all of them at rest, drawn once
    root.prepend(this.canvas);
    this.stale = true;
  }

  // How a cable is drawn from now on; at rest without a key.
  set(index, key) {
    const former = this.how.get(index);
    if (former === key) return;
    this.kinds.get(former)?.delete(index);
    if (key) {
      this.how.set(index, key);
      if (!this.kinds.has(key)) this.kinds.set(key, new Set());
      this.kinds.get(key).add(index);
    } else this.how.delete(index);
    this.stale = true;
  }

  // Marks at ports: [x, y, kind, whether it goes on].
  mark(ports) { this.ports = ports; this.stale = true; }

  draw() {
    const ratio = devicePixelRatio, width = Math.round(this.canvas.clientWidth * ratio), scale = width / this.wide;
    const style = getComputedStyle(document.documentElement), paper = style.getPropertyValue("--paper");
    if (!width || !this.stale && this.canvas.width === width && this.paper === paper) return;
    this.stale = false;
    if (this.canvas.width !== width || this.paper !== paper) {
      this.paper = paper;
      for (const each of [this.canvas, this.rest]) { each.width = width; each.height = Math.round(this.high * scale); }
      const ink = this.rest.getContext("2d");
      ink.setTransform(scale, 0, 0, scale, 0, 0);
      ink.globalAlpha = 0.35;
      this.#stroke(ink, this.lines.keys(), style.getPropertyValue("--idle"), 0.4);
    }
    const ink = this.canvas.getContext("2d");
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ink.drawImage(this.rest, 0, 0);
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.globalAlpha = Math.min(1, Math.max(FAINTEST, CLEAR / this.how.size));
    for (const [key, numbers] of this.kinds) {
      const [plane, wide] = key.split(" ");
      if (numbers.size) this.#stroke(ink, numbers, style.getPropertyValue(`--plane-${plane}`), Number(wide));
    }
    ink.globalAlpha = 1;
    for (const [x, y, kind, now] of this.ports) {
      ink.fillStyle = style.getPropertyValue(now ? "--ink" : "--paper");
      ink.strokeStyle = style.getPropertyValue("--ink");
      ink.lineWidth = 0.4;
      ink.beginPath();
      if (kind === "marked") ink.arc(x, y, 2, 0, 7); else ink.rect(x - 1.8, y - 1.8, 3.6, 3.6);
      ink.fill(); ink.stroke();
    }
  }

  #stroke(ink, numbers, colour, wide) {
    ink.strokeStyle = colour;
    ink.lineWidth = wide;
    ink.beginPath();
    for (const index of numbers) {
      const at = this.lines[index];
      if (at) { ink.moveTo(at.x1, at.y1); ink.lineTo(at.x2, at.y2); }
    }
    ink.stroke();
  }
}

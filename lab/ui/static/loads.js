// Loads of cables frame by frame, kept as what changed: a fabric of thousands of cables would not fit frame by frame.

const none = {};

export class Loads {
  constructor() {
    this.changes = []; // of every frame: number of a cable → its loads from either end, or null
    this.before = new Map(); // what stood before the first
    this.rewind();
  }

  rewind() {
    this.now = new Map(this.before);
    this.number = -1;
  }

  push(change) { this.changes.push(change ?? none); }

  // The oldest frames are forgotten.
  drop(count) {
    for (const change of this.changes.splice(0, count)) apply(this.before, change);
    if (this.number < count) this.rewind();
    else this.number -= count;
  }

  // Go to a frame. Returns the numbers of the cables whose load is another than at the frame before; null: perhaps all.
  seek(number) {
    const back = number < this.number, changed = new Set();
    if (back) this.rewind();
    while (this.number < number) for (const index of apply(this.now, this.changes[++this.number])) changed.add(index);
    return back ? null : changed;
  }
}

function apply(loads, change) {
  const changed = [];
  for (const [name, pair] of Object.entries(change)) {
    const index = Number(name);
    if (pair) loads.set(index, pair); else loads.delete(index);
    changed.push(index);
  }
  return changed;
}

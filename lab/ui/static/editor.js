// The scenario editor: checked as it is typed, completed from the schema, run as it stands.

import { complete } from "./complete.js";
import { get, post } from "./server.js";

const REST = 400; // milliseconds after the last key
const SLOW = 800; // milliseconds after which a check that is under way is told
const SHOWN = 12; // options at once

export class Editor {
  constructor(root) {
    this.root = root;
    this.text = root.querySelector("textarea");
    this.said = root.querySelector("output");
    this.lines = root.querySelector(".lines");
    this.list = root.querySelector(".options");
    this.world = root.querySelector("select");
    this.runs = root.querySelector("button.run");
    this.runs.addEventListener("click", () => this.run());
    this.text.addEventListener("input", () => { this.#number(); this.#later(); this.#offer(); });
    this.text.addEventListener("keydown", (event) => this.#key(event));
    this.text.addEventListener("blur", () => this.#close());
    this.text.addEventListener("scroll", () => { this.lines.scrollTop = this.text.scrollTop; });
    root.addEventListener("toggle", () => { if (root.open) this.#opened(); });
  }

  // What the server has: the text, unless another was typed, and the names of the fabric.
  offer(layout) {
    if (!this.text.value) this.text.value = layout.text;
    const named = (entries) => entries.map((each) => each.name);
    const ports = layout.links.filter((link) => !link.name.includes("/")).map((link) => link.name);
    this.names = { cable: named(layout.links), switch: named(layout.switches), host: named(layout.hosts), port: ports };
    this.names.any = [...this.names.switch, ...this.names.cable];
    this.runs.hidden = this.world.hidden = !layout.runs;
    this.#number();
  }

  focus() {
    this.root.open = true;
    this.text.focus();
    this.root.scrollIntoView({ block: "nearest" });
  }

  async #opened() {
    this.check();
    await this.#load();
  }

  async #load() { this.schema ??= await get("api/schema"); }

  #number() {
    const count = this.text.value.split("\n").length;
    this.lines.textContent = Array.from({ length: count }, (_, n) => n + 1).join("\n");
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), REST);
  }

  async check() {
    const text = this.text.value, slow = setTimeout(() => this.#tell({}, "checking …"), SLOW);
    const told = await post("api/check", text);
    clearTimeout(slow);
    if (text === this.text.value) this.#tell(told, told.name && `“${told.name}”: no mistakes`);
  }

  async run() {
    this.runs.disabled = true;
    this.#tell({ mistakes: [] }, "the lab comes up …");
    try {
      const told = await post("api/run", JSON.stringify({ text: this.text.value, world: this.world.value }));
      this.#tell(told, told.message);
    } finally { this.runs.disabled = false; }
  }

  #tell(told, said) {
    const mistakes = told.mistakes ?? [];
    this.said.className = mistakes.length || told.error ? "mistake" : "passed";
    const items = mistakes.map(({ line, text }) => {
      const item = document.createElement("button");
      item.className = "line";
      item.textContent = `line ${line}: ${text}`;
      item.addEventListener("click", () => this.#goTo(line));
      return item;
    });
    this.said.replaceChildren(...(items.length ? items : [told.error ?? said ?? ""]));
  }

  #goTo(line) {
    const lines = this.text.value.split("\n"), begin = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
  }

  // --- completion -----------------------------------------------------------------------------------------------------------

  async #offer(asked = false) {
    if (asked) await this.#load();
    const found = this.schema && complete(this.schema, this.text.value, this.text.selectionStart, this.names);
    if (!found || (!asked && found.from === this.text.selectionStart && !/[:{]\s$/.test(this.text.value.slice(0, found.from)))) { this.#close(); return; }
    this.found = found;
    this.at = 0;
    this.list.hidden = false;
    this.#draw();
  }

  #draw() {
    const first = Math.max(0, this.at - SHOWN + 1);
    this.list.replaceChildren(...this.found.options.slice(first, first + SHOWN).map(({ text, about }, n) => {
      const item = document.createElement("li"), small = document.createElement("small");
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(first + n === this.at));
      small.textContent = about;
      item.append(text, small);
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); this.at = first + n; this.#take(); });
      return item;
    }));
  }

  #key(event) {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); this.#offer(true); return; }
    if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); if (!this.runs.hidden) this.run(); return; }
    if (this.list.hidden) {
      if (event.key === "Escape") this.text.blur();
      return;
    }
    const last = this.found.options.length - 1;
    const deeds = {
      ArrowDown: () => { this.at = Math.min(last, this.at + 1); this.#draw(); },
      ArrowUp: () => { this.at = Math.max(0, this.at - 1); this.#draw(); },
      Enter: () => this.#take(), Tab: () => this.#take(), Escape: () => this.#close(),
    };
    if (deeds[event.key]) { event.preventDefault(); deeds[event.key](); }
  }

  #take() {
    const { from, options } = this.found;
    this.text.setRangeText(options[this.at].text, from, this.text.selectionStart, "end");
    this.#close();
    this.#number();
    this.#later();
  }

  #close() { this.list.hidden = true; }
}

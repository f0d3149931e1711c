// The finished runs that can be played again: a list to choose from.

import { button } from "./selection.js";
import { get, post } from "./server.js";

export class Shelf {
  constructor(dialog) {
    this.dialog = dialog;
    this.list = dialog.querySelector("ul");
    this.said = dialog.querySelector("p");
  }

  async open() {
    this.said.textContent = "";
    const runs = await get("api/results").catch((error) => { this.said.textContent = error.message; return []; });
    this.list.replaceChildren(...runs.map((run) => this.#item(run)));
    if (!runs.length && !this.said.textContent) this.said.textContent = "No run has ended here yet.";
    this.dialog.showModal();
    this.list.querySelector("button")?.focus();
  }

  #item({ name, state, ended }) {
    const item = document.createElement("li"), told = document.createElement("span");
    told.className = state;
    told.textContent = ` ${state}, ${new Date(ended * 1e3).toLocaleString()}`;
    item.append(button(name, () => this.#take(name)), told);
    return item;
  }

  async #take(name) {
    this.said.textContent = "reading …";
    const { error } = await post("api/replay", JSON.stringify({ name }));
    this.said.textContent = error ?? "";
    if (!error) this.dialog.close();
  }
}

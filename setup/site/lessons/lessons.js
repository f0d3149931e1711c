// Lessons beside the fabric: their texts, what the learner hands in, and the grade; what is done is kept in the browser.

import { post } from "./static/server.js";

const KEPT = "mrclab-lessons";
const NOTE = "In this page, click where the text has the prompt: a cable to cut or mend it, two hosts to send. Terminal commands stand for the buttons below.";

function made(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function load() { try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; } }

function keep(kept) { try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* this visit only */ } }

class Lessons {
  constructor(lessons) {
    Object.assign(this, { lessons, kept: load() }); // number → { text, done }
    this.root = made("section", "", "lesson");
    this.root.setAttribute("aria-label", "Lesson");
    this.root.hidden = true;
    document.querySelector("main").prepend(this.root);
    this.button = made("button", "Lessons");
    this.button.setAttribute("aria-pressed", "false");
    this.button.addEventListener("click", () => this.#toggle());
    document.getElementById("demo").before(this.button);
  }

  #toggle() {
    this.root.hidden = !this.root.hidden;
    this.button.setAttribute("aria-pressed", String(!this.root.hidden));
    document.body.classList.toggle("learning", !this.root.hidden);
    if (!this.root.hidden && !this.shown) this.#open(this.lessons.find(({ number }) => !this.kept[number]?.done) ?? this.lessons[0]);
    dispatchEvent(new Event("resize"));
  }

  #open(lesson) {
    this.shown = lesson;
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", "Lesson");
    for (const { number, title } of this.lessons) choice.add(new Option(`${this.kept[number]?.done ? "✓ " : ""}${number}. ${title}`, number, false, number === lesson.number));
    choice.addEventListener("change", () => this.#open(this.lessons.find(({ number }) => number === Number(choice.value))));
    const done = this.lessons.filter(({ number }) => this.kept[number]?.done).length;
    const text = made("div", "", "text");
    text.innerHTML = lesson.html; // of this site's own build
    text.tabIndex = 0;
    for (const wide of text.querySelectorAll("pre")) wide.tabIndex = 0; // they scroll sideways
    text.setAttribute("role", "region");
    text.setAttribute("aria-label", "Text of the lesson");
    this.root.replaceChildren(choice, made("p", `${done} of ${this.lessons.length} done in this browser`, "hint"), made("p", NOTE, "hint"), text);
    if (lesson.file) this.#file(lesson);
    const row = made("p", "", "deeds"), grade = made("button", "Check it", "mend");
    grade.addEventListener("click", () => this.#grade(grade));
    row.append(grade);
    if (/^variants:/m.test(lesson.text)) this.#variants(row);
    this.said = made("div");
    this.said.setAttribute("role", "status");
    this.root.append(row, this.said);
  }

  #file(lesson) {
    this.text = document.createElement("textarea");
    this.text.value = this.kept[lesson.number]?.text ?? lesson.text;
    this.text.spellcheck = false;
    this.text.wrap = "off";
    this.text.setAttribute("aria-label", lesson.file);
    this.text.addEventListener("input", () => { this.kept[lesson.number] = { ...this.kept[lesson.number], text: this.text.value }; keep(this.kept); });
    const again = made("button", "Begin again", "small");
    again.addEventListener("click", () => { this.text.value = lesson.text; this.text.dispatchEvent(new Event("input")); });
    const head = made("p", `${lesson.file} `, "file");
    head.append(again);
    this.root.append(head, this.text);
  }

  // Runs one of the variants, in the fabric beside.
  #variants(row) {
    const name = Object.assign(document.createElement("input"), { size: 12, placeholder: "variant" });
    name.setAttribute("aria-label", "variant to run");
    const run = made("button", "Run this variant");
    run.addEventListener("click", async () => {
      const told = await post("api/run", JSON.stringify({ text: this.text.value, variant: name.value.trim() }));
      const mistakes = (told.mistakes ?? []).map(({ line, text }) => `line ${line}: ${text}`).join("\n");
      this.said.replaceChildren(made("p", mistakes || told.error || told.said, told.error ? "mistake" : "hint"));
    });
    row.append(name, run);
  }

  async #grade(button) {
    const { number, file } = this.shown;
    button.disabled = true;
    this.said.replaceChildren(made("p", "Checked …", "hint"));
    const told = await post("api/grade", JSON.stringify({ number, text: file ? this.text.value : "" }));
    button.disabled = false;
    if (told.error) { this.said.replaceChildren(made("p", told.error, "mistake")); return; }
    const list = document.createElement("ul");
    for (const { ok, wanted, missing } of told.checks) {
      const line = made("li", "", ok ? "standing passed" : "standing failed");
      line.append(made("b", ok ? "✓" : "✗"), ` ${wanted}`);
      if (!ok && missing) {
        const hint = document.createElement("details");
        hint.append(made("summary", "Hint"), made("span", missing));
        line.append(hint);
      }
      list.append(line);
    }
    if (told.done) { this.kept[number] = { ...this.kept[number], done: true }; keep(this.kept); }
    const open = told.checks.filter(({ ok }) => !ok).length;
    this.said.replaceChildren(made("p", told.done ? "Done." : `${open} of ${told.checks.length} are missing.`, told.done ? "passed" : ""), list);
    this.root.querySelector("select").selectedOptions[0].textContent = `${this.kept[number]?.done ? "✓ " : ""}${number}. ${this.shown.title}`;
  }
}

new Lessons(await (await fetch("lessons.json")).json());

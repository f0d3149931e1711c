// Lessons beside a fabric: their texts, what the learner hands in, and the grade; what is done is kept in the browser.

const KEPT = "mrclab-lessons";

export function made(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function load() { try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; } }

function keep(kept) { try { localStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* this visit only */ } }

export class Lessons {
  // `post(path, body)` asks the lab; `note` stands above the text; `deeds(lesson, row, text)` adds a page's own buttons;
  // `elsewhere(lesson)` gives the address of a lesson that has another page, else null.
  constructor(root, lessons, { post, note, deeds = () => {}, elsewhere = () => null }) {
    Object.assign(this, { root, lessons, post, note, deeds, elsewhere, kept: load() }); // number → { text, done }
    root.classList.add("lesson");
    root.setAttribute("aria-label", "Lesson");
  }

  // The first one that is not done, or that of a number.
  begin(number = null) {
    const here = this.lessons.filter((lesson) => !this.elsewhere(lesson));
    this.#open(here.find((lesson) => (number ? lesson.number === number : !this.kept[lesson.number]?.done)) ?? here[0]);
  }

  #name({ number, title }) { return `${this.kept[number]?.done ? "✓ " : ""}${number}. ${title}`; }

  #open(lesson) {
    const address = this.elsewhere(lesson);
    if (address) { location.href = address; return; }
    this.shown = lesson;
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", "Lesson");
    for (const each of this.lessons) choice.add(new Option(this.#name(each), each.number, false, each.number === lesson.number));
    choice.addEventListener("change", () => this.#open(this.lessons.find(({ number }) => number === Number(choice.value))));
    const text = made("div", "", "text");
    text.innerHTML = lesson.html; // of this site's own build
    text.tabIndex = 0;
    for (const wide of text.querySelectorAll("pre")) wide.tabIndex = 0; // they scroll sideways
    text.setAttribute("role", "region");
    text.setAttribute("aria-label", "Text of the lesson");
    const teach = made("a", "Slides and printable sheet");
    teach.href = `teach.html#${lesson.number}`;
    const head = made("p", `${lesson.minutes} minutes${lesson.needs.length ? `, after lesson ${lesson.needs.join(" and ")}` : ""} · `, "hint");
    head.append(teach);
    this.root.replaceChildren(choice, this.#progress(), head, made("p", this.note, "hint"), text);
    if (lesson.file) this.#file(lesson);
    const row = made("p", "", "deeds"), grade = made("button", "Check it", "mend");
    grade.addEventListener("click", () => this.#grade(grade));
    row.append(grade);
    this.said = made("div");
    this.said.setAttribute("role", "status");
    this.deeds(lesson, row, () => this.text?.value ?? "", (text, kind) => this.said.replaceChildren(made("p", text, kind)));
    this.root.append(row, this.said);
  }

  // A box for each lesson, filled where it is done.
  #progress() {
    const done = this.lessons.filter(({ number }) => this.kept[number]?.done).length, line = made("p", "", "hint progress");
    for (const lesson of this.lessons) line.append(made("i", "", this.kept[lesson.number]?.done ? "done" : lesson === this.shown ? "now" : ""));
    line.append(`${done} of ${this.lessons.length} done in this browser`);
    return line;
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

  async #grade(button) {
    const { number, file } = this.shown;
    button.disabled = true;
    this.said.replaceChildren(made("p", "Checked …", "hint"));
    const told = await this.post("api/grade", JSON.stringify({ number, text: file ? this.text.value : "" }));
    button.disabled = false;
    if (told.error) { this.said.replaceChildren(made("p", told.error, "mistake")); return; }
    const list = document.createElement("ul");
    for (const { ok, expected, missing } of told.checks) {
      const line = made("li", "", ok ? "standing passed" : "standing failed");
      line.append(made("b", ok ? "✓" : "✗"), ` ${expected}`);
      if (!ok && missing) {
        const hint = document.createElement("details");
        hint.append(made("summary", "Hint"), made("span", missing));
        line.append(hint);
      }
      list.append(line);
    }
    if (told.done) { this.kept[number] = { ...this.kept[number], done: true }; keep(this.kept); }
    const open = told.checks.filter(({ ok }) => !ok).length;
    this.said.replaceChildren(made("p", told.done ? "Done." : `${open} of ${told.checks.length} missing.`, told.done ? "passed" : ""), list);
    this.root.querySelector("select").selectedOptions[0].textContent = this.#name(this.shown);
    this.root.querySelector(".progress").replaceWith(this.#progress());
  }
}

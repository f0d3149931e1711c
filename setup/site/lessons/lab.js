// Lessons beside the lab: a panel on the left of the fabric, with a button of its own.

import { Lessons, made } from "./lessons.js";
import { post } from "./static/server.js";

const NOTE = "In this page, click where the text has the prompt: a cable to cut or mend it, two hosts to send. Terminal commands stand for the buttons below.";
const SWITCHES = new Set([2, 3]); // lessons that have a page of their own

// Runs one of the variants of what is in the editor, in the fabric beside.
function variants(lesson, row, text, say) {
  if (!/^variants:/m.test(lesson.text)) return;
  const name = Object.assign(document.createElement("input"), { size: 12, placeholder: "variant" });
  name.setAttribute("aria-label", "variant to run");
  const run = made("button", "Run this variant");
  run.addEventListener("click", async () => {
    const told = await post("api/run", JSON.stringify({ text: text(), variant: name.value.trim() }));
    const mistakes = (told.mistakes ?? []).map(({ line, text: what }) => `line ${line}: ${what}`).join("\n");
    say(mistakes || told.error || told.message, told.error ? "mistake" : "hint");
  });
  row.append(name, run);
}

const root = document.createElement("section"), button = made("button", "Lessons");
root.hidden = true;
document.querySelector("main").prepend(root);
button.setAttribute("aria-pressed", "false");
document.getElementById("demo").before(button);
const lessons = new Lessons(root, (await (await fetch("lessons.json")).json()).filter(({ here }) => here), {
  post, note: NOTE, deeds: variants, elsewhere: ({ number }) => (SWITCHES.has(number) ? `p4.html#${number}` : null),
});

function toggle(number = null) {
  root.hidden = !root.hidden;
  button.setAttribute("aria-pressed", String(!root.hidden));
  document.body.classList.toggle("learning", !root.hidden);
  if (!root.hidden && !lessons.shown) lessons.begin(number);
  dispatchEvent(new Event("resize"));
}

button.addEventListener("click", () => toggle());
const wanted = /^#lesson-(\d+)$/.exec(location.hash);
if (wanted) toggle(Number(wanted[1]));

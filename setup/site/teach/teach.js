// A lesson for who teaches it: its page with answers behind a click, slides (P), and a sheet that prints without answers.

import { slidesOf } from "./slides.js";

const at = (id) => document.getElementById(id);
const lessons = await (await fetch("lessons.json")).json();
let shown = null, slide = -1;

function made(name, text = "") { const node = document.createElement(name); node.textContent = text; return node; }

// A section for the head, and one for each heading of the text.
function sections(lesson) {
  const holder = document.createElement("div"), head = made("section"), facts = made("dl");
  holder.innerHTML = lesson.html; // of this site's own build
  head.append(made("h2", `Lesson ${lesson.number}: ${lesson.title}`));
  const rows = [["Time", `${lesson.minutes} minutes`], ["Before it", lesson.needs.length ? lesson.needs.map((number) => `lesson ${number}`).join(", ") : "nothing"], ["Handed in", lesson.file || "what was done to the lab"], ["Graded by", `mrclab grade ${lesson.number}${lesson.file ? ` ${lesson.file}` : ""}${lesson.here ? ", or in the browser" : ""}`]];
  for (const [term, told] of rows) facts.append(made("dt", term), made("dd", told));
  const goal = [...holder.querySelectorAll("p")].find((each) => each.textContent.startsWith("Goal")), before = goal?.nextElementSibling;
  head.append(goal ?? "", facts);
  if (before?.textContent.startsWith("Before it")) before.remove();
  const found = [head];
  for (const node of [...holder.childNodes]) {
    if (node.nodeName === "H2" || node.nodeName === "P" && node.textContent.startsWith("Question.")) found.push(made("section"));
    found.at(-1).append(node);
    if (node.nodeName === "P" && node.textContent.startsWith("Question.")) { const room = made("div"); room.className = "room"; found.at(-1).append(room); }
  }
  for (const wide of found.flatMap((each) => [...each.querySelectorAll("pre")])) wide.tabIndex = 0; // they scroll
  return found;
}

function open(number) {
  shown = lessons.find((each) => each.number === number) ?? lessons[0];
  at("lesson").value = String(shown.number);
  at("open").href = shown.number === 2 || shown.number === 3 ? `p4.html#${shown.number}` : `./#lesson-${shown.number}`;
  at("open").hidden = !shown.here;
  document.title = `Lesson ${shown.number}: ${shown.title}`;
  if (slide >= 0) deal(0); else at("page").replaceChildren(...sections(shown));
}

// Lays the slides out for the screen as it is; begins with the first one of a section of the text.
let deals = 0;
async function deal(section) {
  const number = ++deals;
  at("place").textContent = "";
  const all = sections(shown);
  at("page").replaceChildren(...all); // so that pictures load
  await Promise.all([...at("page").querySelectorAll("img")].map((image) => image.decode().catch(() => {})));
  if (slide < 0 || number !== deals) return; // ended meanwhile, or another size of the screen
  slidesOf(at("page"), all);
  turn([...at("page").children].findIndex((each) => each.dataset.section === String(section)));
}

function turn(number) {
  const all = [...at("page").children];
  slide = Math.max(0, Math.min(all.length - 1, number));
  all.forEach((each, n) => each.classList.toggle("now", n === slide));
  at("place").textContent = `${slide + 1} of ${all.length}`;
  at("page").scrollTop = 0;
}

function slides(on) {
  document.body.classList.toggle("show", on);
  if (on) { slide = 0; document.documentElement.requestFullscreen?.().catch(() => {}); deal(0); }
  else if (slide >= 0) { slide = -1; open(shown.number); if (document.fullscreenElement) document.exitFullscreen(); }
}

for (const { number, title } of lessons) at("lesson").add(new Option(`${number}. ${title}`, number));
at("lesson").addEventListener("change", () => { location.hash = at("lesson").value; });
at("slides").addEventListener("click", () => slides(true));
at("print").addEventListener("click", () => print());
addEventListener("hashchange", () => open(Number(location.hash.slice(1))));
addEventListener("resize", () => { if (slide >= 0) deal(Number(at("page").children[slide]?.dataset.section ?? 0)); });
document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && slide >= 0) slides(false); });
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey) return;
  const keys = { p: () => slides(slide < 0), Escape: () => slides(false), ArrowRight: () => slide >= 0 && turn(slide + 1), PageDown: () => slide >= 0 && turn(slide + 1), ArrowLeft: () => slide >= 0 && turn(slide - 1), PageUp: () => slide >= 0 && turn(slide - 1), Home: () => slide >= 0 && turn(0) };
  const action = keys[event.key] ?? keys[event.key.toLowerCase()];
  if (action) action();
});
open(Number(location.hash.slice(1)));

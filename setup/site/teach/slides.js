// Slides of a lesson: each section is one, in smaller letters where it is too much for the screen; what is still too much
// goes on in the next slide, listings line by line.

const SIZES = [1, 0.92, 0.84, 0.76]; // of the letters
const FEW = 6; // lines: a listing goes on in the next slide only if so many stand in this one
const PARTS = new Set(["SECTION", "DIV", "UL", "OL", "DETAILS", "TABLE", "TBODY"]); // what can go on in another slide
const KEPT = new Set(["H2", "SUMMARY", "THEAD"]); // what stands in both

// Makes sections, whose pictures are loaded, the slides of `page`, which is as large as the screen.
export function slidesOf(page, sections) {
  const made = sections.flatMap((section, number) => {
    const slides = [];
    for (let rest = section; rest;) {
      slides.push(rest);
      rest = fitted(page, rest);
    }
    for (const each of slides) each.dataset.section = number;
    return slides;
  });
  page.replaceChildren(...made);
}

// Makes a slide fit with all answers open; what had to be taken off its end, as another slide, or null.
function fitted(page, slide) {
  const answers = [...slide.querySelectorAll("details")];
  for (const each of answers) each.open = true;
  slide.classList.add("now");
  page.replaceChildren(slide);
  const fits = () => !tooHigh(page), sized = (size) => { slide.style.fontSize = `${size}em`; return fits() && !wide(slide).length; };
  let rest = null;
  if (!SIZES.some(sized)) {
    for (const each of wide(slide)) each.classList.add("wrapped");
    rest = cut(slide, fits);
    SIZES.some(sized); // larger where little is left
  }
  slide.classList.remove("now");
  for (const each of answers) each.open = false;
  return rest;
}

function tooHigh(page) { return page.scrollHeight > page.clientHeight + 1; }

function wide(slide) { return [...slide.querySelectorAll("pre, table")].filter((each) => each.scrollWidth > each.clientWidth + 1); }

// Takes parts off the end of a node until it fits; they come back in a copy of it, or null where there is nothing to take.
function cut(node, fits) {
  if (fits()) return null;
  if (node.nodeName === "PRE") return cutLines(node, fits, 1);
  if (!PARTS.has(node.nodeName)) return null;
  const rest = node.cloneNode(false), heads = [...node.children].filter((each) => KEPT.has(each.nodeName));
  while (!fits()) {
    const parts = [...node.childNodes].filter((each) => !KEPT.has(each.nodeName) && each.textContent.trim() + (each.querySelector?.("img") ? "i" : ""));
    if (parts.length === 1) {
      const more = cut(parts[0], fits);
      if (more) rest.prepend(more);
      break;
    }
    if (!parts.length) break;
    const more = parts.at(-1).nodeName === "PRE" ? cutLines(parts.at(-1), fits, FEW) : null;
    rest.prepend(more ?? parts.at(-1));
  }
  if (!rest.childNodes.length) return null;
  if (node.nodeName === "OL") rest.start = node.start + node.children.length;
  rest.prepend(...heads.map((each) => { const again = each.cloneNode(true); again.classList.add("again"); return again; }));
  return rest;
}

// As many lines as fit stay, but no fewer than `least`.
function cutLines(node, fits, least) {
  const lines = node.textContent.replace(/\n$/, "").split("\n"), text = node.firstElementChild ?? node;
  let count = lines.length;
  const keep = (wanted) => { count = wanted; text.textContent = lines.slice(0, count).join("\n"); };
  while (count > least && !fits()) keep(count - 1);
  if (!fits() && least > 1) { keep(lines.length); return null; }
  if (count === lines.length) return null;
  const rest = node.cloneNode(true);
  (rest.firstElementChild ?? rest).textContent = lines.slice(count).join("\n");
  return rest;
}

// One packet at a time through the demo's fabric of P4 switches, which run here: tables can be changed between packets.

import { interpreter } from "./interpreter.js";
import { Lessons, made } from "./lessons.js";
import "./static/charts.js"; // plane colours
import { FabricView } from "./static/fabric.js";

const HERE = new Set([2, 3]), OWN = "t1-p1-2"; // lessons of this page; the switch of lesson 3
const NOTE = "Your program runs in the switches of this page. In a terminal, mrclab grade checks the same.";
const at = (id) => document.getElementById(id), state = at("state");
state.textContent = "the switches start …";
const python = interpreter("p4");
const ask = (path, body = {}) => python.ask(path, JSON.stringify(body));

let built, layout, fabric, dot, hops = [], shown = 0, looked = OWN, open = new Set(["usid_fib"]); // built: what is shown until Python runs

function made2(name, nodes, kind = "") { const node = made(name, "", kind); node.append(...nodes); return node; }

function button(text, action, kind = "") { const node = made("button", text, kind); node.type = "button"; node.addEventListener("click", action); return node; }

// --- the packet's way ----------------------------------------------------------------------------------------------------

function options() {
  for (const [id, names] of [["from", layout.hosts.map(({ name }) => name)], ["to", layout.hosts.map(({ name }) => name)], ["plane", layout.planes], ["uplink", [1, 2]]]) at(id).replaceChildren(...names.map((name) => new Option(name)));
  for (const [id, value] of Object.entries(built.packet)) at(id).value = value;
}

async function send() {
  const told = await ask("api/p4/walk", { from: at("from").value, to: at("to").value, plane: Number(at("plane").value), uplink: Number(at("uplink").value) });
  if (told.error) say(told.error); else draw(told.hops);
}

function draw(way) {
  hops = way;
  fabric.draw(hops);
  show(0);
}

function say(text) { at("story").textContent = text; }

function show(number) {
  if (!hops.length) return;
  shown = Math.max(0, Math.min(hops.length - 1, number));
  const hop = hops[shown], { x, y } = fabric.places.get(hop.node), last = shown === hops.length - 1;
  if (!dot.parentNode) fabric.svg.append(dot);
  dot.style.transform = `translate(${x}px, ${y}px)`;
  dot.classList.toggle("lost", Boolean(hop.dropped));
  fabric.choose({ kind: "switch", name: hop.node });
  say(`${shown + 1} of ${hops.length}: ${hop.node}${hop.dropped ? ` drops the packet: ${hop.dropped}.` : hop.to ? ` sends it by port ${hop.leaves} to ${hop.to}.${hop.trimmed ? " It was trimmed: its queue is long." : ""}` : " has the packet."}`);
  at("back").disabled = shown === 0;
  at("on").disabled = last;
  pipeline(hop);
  if (hop.tables) look(hop.node); else at("tables").replaceChildren();
}

// Headers before and after, tables in their order, registers and counters.
function pipeline(hop) {
  const head = made("h2", hop.tables ? `${hop.node}: in at port ${hop.port}` : `${hop.node} gets it at NIC port ${hop.port}`);
  if (!hop.tables) { at("hop").replaceChildren(head, headers(hop)); return; }
  const met = made("ol", "", "met");
  for (const each of hop.tables) {
    const line = made("li", "", each.hit ? "hit" : "");
    line.append(made("b", each.table), made("span", ` ${each.hit ? "hit" : "miss: the default action"}`), document.createElement("br"), made("span", each.key.join(", "), "key"), document.createElement("br"), made("code", each.action));
    met.append(line);
  }
  if (hop.dropped) met.append(made2("li", [made("b", "dropped"), ` ${hop.dropped}`], "last"));
  const facts = [
    ...hop.registers.map(({ name, index, before, after }) => [`${name}[${index}]`, before === after ? String(after) : `${before} → ${after}`]),
    ...hop.counters.map(({ name, index, now }) => [`${name}[${index}]`, `counted: ${now}`]),
  ];
  const rows = made("table");
  rows.append(made2("tbody", facts.map((cells) => made2("tr", cells.map((text) => made("td", text))))));
  const right = made2("div", [made("h3", "Tables that it met"), met, made("h3", "Registers and counters"), facts.length ? rows : made("p", "none", "hint")]);
  if (hop.leaves) right.append(queue(hop));
  at("hop").replaceChildren(head, made2("div", [made2("div", [made("h3", hop.after ? "Headers, as they came and as they left" : "Headers, as they came"), headers(hop)]), right], "pipeline"));
}

// The queue's length stands in a register: the student sets it, and the next packet is trimmed.
function queue(hop) {
  const form = made("form", "", "deeds"), input = Object.assign(document.createElement("input"), { type: "number", min: 0, max: 500, value: 40, size: 5 });
  input.setAttribute("aria-label", `packets in the queue of port ${hop.leaves}`);
  form.append("Queue of port ", String(hop.leaves), ": ", input, " packets ", made("button", "Set it, send again"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = await ask("api/p4/register", { switch: hop.node, name: "queue_depths", index: hop.leaves, value: Number(input.value) });
    if (told.error) say(told.error); else { const here = shown; await send(); show(here); }
  });
  return form;
}

function headers({ headers: before, after = {} }) {
  const table = made("table"), body = made("tbody"), both = Boolean(Object.keys(after).length);
  table.append(made2("thead", [made2("tr", ["field", "in", ...(both ? ["out"] : [])].map((text) => { const th = made("th", text); th.scope = "col"; return th; }))]), body);
  for (const [name, fields] of Object.entries(before)) {
    const group = made2("tr", [made("th", name)], "group");
    group.firstChild.colSpan = both ? 3 : 2;
    group.firstChild.scope = "rowgroup";
    body.append(group);
    for (const [field, value] of Object.entries(fields)) {
      const now = after[name]?.[field], cells = [made("td", field), made2("td", [made("code", value)])];
      if (both) cells.push(made2("td", [made("code", now ?? "gone")]));
      body.append(made2("tr", cells, both && now !== value ? "changed" : ""));
    }
  }
  return table;
}

// --- tables --------------------------------------------------------------------------------------------------------------

async function look(name) {
  looked = name;
  const tables = built.tables[name] ?? await ask("api/p4/tables", { switch: name });
  if (looked !== name || tables.error) return;
  const used = new Map((hops.find(({ node, tables: met }, n) => node === name && met && n <= shown)?.tables ?? []).filter(({ hit }) => hit).map(({ table, entry }) => [table, entry]));
  const said = made("p", "", "hint");
  said.setAttribute("role", "status");
  const again = button("All as it was", async () => { await ask("api/p4/reset"); await send(); });
  at("tables").replaceChildren(made("h2", `Tables of ${name}`), made("p", "Change an entry, and send the packet again.", "hint"), ...tables.map((table) => entries(name, table, used.get(table.table), said)), made2("p", [again], "deeds"), said);
}

function entries(name, table, used, said) {
  const box = made("details"), rows = made("table"), body = made("tbody");
  box.open = open.has(table.table);
  box.addEventListener("toggle", () => { if (box.open) open.add(table.table); else open.delete(table.table); });
  rows.append(made2("thead", [made2("tr", [...table.key.map((key) => `${key.name} (${key.kind})`).slice(0, 1), "action", "change"].map((text) => made("th", text)))]), body);
  for (const entry of table.entries) {
    const line = made2("tr", [made2("td", [made("code", entry.key)]), made2("td", [made("code", entry.action)]), made("td")], entry.key === used ? "used" : "");
    if (table.direct) line.lastChild.append(button("Edit", () => line.after(made2("tr", [cell(form(name, table, entry, said))])), "small"), " ", button("Delete", () => write(name, { kind: "delete", table: table.table, key: entry.key }, said), "small"));
    body.append(line);
  }
  box.append(made("summary", `${table.table}: ${table.entries.length || "no"} ${table.entries.length === 1 ? "entry" : "entries"}`), rows, made("p", `Without a match: ${table.default}`, "hint"));
  if (table.direct) { const add = button("Add an entry", () => add.replaceWith(form(name, table, null, said)), "small"); box.append(add); }
  return box;
}

function cell(node) { const td = made2("td", [node]); td.colSpan = 3; return td; }

function form(name, table, entry, said) {
  const node = made("form"), key = field(table.key.map((each) => each.name).join(", "), entry?.key ?? ""), action = document.createElement("select"), params = made2("span", [], "deeds");
  for (const each of Object.keys(table.actions)) action.add(new Option(each));
  if (entry) action.value = entry.action.split("(")[0];
  const fill = () => params.replaceChildren(...table.actions[action.value].map((param) => field(param, entry?.params[param] ?? "")));
  action.addEventListener("change", fill);
  action.setAttribute("aria-label", "action");
  fill();
  key.firstElementChild.disabled = Boolean(entry);
  node.append(key, action, params, made("button", entry ? "Modify" : "Insert", "mend"));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...params.querySelectorAll("input")].map((input) => [input.name, input.value]));
    write(name, { kind: entry ? "modify" : "insert", table: table.table, key: key.firstElementChild.value, action: action.value, params: values }, said);
  });
  return node;
}

function field(name, value) { const label = made("label", name); label.append(Object.assign(document.createElement("input"), { name, value, spellcheck: false })); return label; }

async function write(name, body, said) {
  const told = await ask("api/p4/write", { switch: name, ...body });
  if (told.error) { said.className = "mistake"; said.textContent = told.error; return; }
  const here = hops[shown]?.node;
  await send();
  show(Math.max(0, hops.findIndex(({ node }) => node === here)));
}

// --- lessons -------------------------------------------------------------------------------------------------------------

function deeds(lesson, row, text, say2) {
  row.append(lesson.number === 2
    ? button("Put it into all switches", async () => { const told = await ask("api/p4/program", { text: text() }); say2(told.error ?? `${told.message}.`, told.error ? "mistake" : "hint"); if (!told.error) send(); })
    : button(`Run it on ${OWN}`, async () => {
      const told = await ask("api/p4/controller", { switch: OWN, text: text() });
      say2(told.error ?? [told.printed, told.failure || `${OWN} has what your controller wrote.`].filter(Boolean).join("\n"), told.error || told.failure ? "mistake" : "hint");
      if (told.programmed) { await send(); show(Math.max(0, hops.findIndex(({ node }) => node === OWN))); }
    }));
}

async function start() {
  built = await (await fetch("p4.json")).json();
  const told = (await (await fetch("lessons.json")).json()).filter(({ here }) => here), number = Number(location.hash.slice(1));
  new Lessons(at("lesson"), told, { post: (path, body) => python.ask(path, body), note: NOTE, deeds, elsewhere: (lesson) => (HERE.has(lesson.number) ? null : `./#lesson-${lesson.number}`) }).begin(HERE.has(number) ? number : 2);
  // The first packet is sent here as well, once Python runs, so that counters go on from what is shown.
  const first = ask("api/p4/walk", built.packet).then(() => { built.tables = {}; });
  layout = built.layout;
  options();
  fabric = new FabricView(at("fabric"), layout, (target) => { if (target.kind === "switch") { const n = hops.findIndex(({ node }) => node === target.name); if (n >= 0) show(n); else { fabric.choose(target); look(target.name); } } });
  fabric.draw = (all) => {
    const ends = all.slice(1).map(({ node }, n) => [all[n].node, node]), first = [at("from").value, all[0].node];
    const busy = new Map(layout.links.flatMap((link, index) => ([first, ...ends].some(([a, b]) => link.ends.includes(a) && link.ends.includes(b)) ? [[index, [0.6, 0]]] : [])));
    fabric.update({ down: [], faulty: [], dead: [], ports: {} }, null, busy, null);
  };
  dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  dot.setAttribute("r", 9);
  dot.setAttribute("class", "dot");
  dot.style.fill = "var(--ink)";
  for (const id of ["from", "to", "plane", "uplink"]) at(id).addEventListener("change", send);
  at("send").addEventListener("click", send);
  at("back").addEventListener("click", () => show(shown - 1));
  at("on").addEventListener("click", () => show(shown + 1));
  document.addEventListener("keydown", ({ key, target }) => {
    if (/^(TEXTAREA|INPUT|SELECT)$/.test(target.tagName)) return;
    if (key === "ArrowRight") show(shown + 1); else if (key === "ArrowLeft") show(shown - 1);
  });
  draw(built.hops);
  await first;
  state.textContent = "";
  performance.mark("lab-ready");
}

start().catch((error) => { state.textContent = error.message; state.className = "over"; });

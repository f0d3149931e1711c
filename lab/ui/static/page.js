// The page: frames come from the server, live or of a finished run; a cursor walks over them, and everything shows that frame.

import { EvMap, Goodput, Transport } from "./charts.js";
import { FabricView } from "./fabric.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
const at = (id) => document.getElementById(id);
const WINDOW = 600; // frames that the charts show of a lab that goes on; of a finished run they show all
const frames = [];
const strikes = []; // times of faults
let layout, fabric, goodput, transport, evs;
let cursor = -1, following = true, playing = true, chosen = null, hosts = [], drawn = -1;

async function get(path) {
  const response = await fetch(path, { headers: { "X-Token": token } });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "X-Token": token }, body });
  return response.json();
}

async function operate(operation, args) {
  const told = await post("api/operation", JSON.stringify({ operation, arguments: args }));
  say(told.error ?? told.said ?? "done", Boolean(told.error));
}

function say(text, bad = false) {
  const line = document.createElement("p");
  line.className = bad ? "mistake" : "hint";
  line.textContent = text;
  at("selection").append(line);
}

function list(id, entries, none, shape = (entry) => entry) {
  const items = (entries.length ? entries : [none]).map((entry) => {
    const item = document.createElement("li");
    if (!entries.length) item.className = "hint";
    const shown = entries.length ? shape(entry) : entry;
    item.append(shown);
    return item;
  });
  at(id).replaceChildren(...items);
}

function button(text, action, kind = "") {
  const made = document.createElement("button");
  made.textContent = text;
  made.className = kind;
  made.addEventListener("click", action);
  return made;
}

// --- selection ---------------------------------------------------------------------------------------------------------

const BREAKS = {
  cable: [["Fail", "link_down", (it) => ({ link: it.name })], ["Lossy (5 %)", "loss", (it) => ({ link: it.name, rate: "5%" })], ["Flap", "flap", (it) => ({ link: it.name, period: "500ms" })]],
  switch: [["Crash", "switch_crash", (it) => ({ switch: it.name })], ["Freeze", "switch_freeze", (it) => ({ switch: it.name })]],
  plane: [["Fail", "plane_down", (it) => ({ plane: Number(it.name) })]],
};

function select(target) {
  chosen?.group.classList.remove("chosen");
  chosen = target;
  target.group.classList.add("chosen");
  if (target.kind === "host") hosts = [...hosts.filter((name) => name !== target.name), target.name].slice(-2);
  const head = document.createElement("h2");
  head.textContent = `${target.kind} ${target.name}`;
  at("selection").replaceChildren(head);
  if (layout.operable) {
    for (const [word, kind, fields] of BREAKS[target.kind] ?? []) {
      at("selection").append(button(word, () => operate("strike", { kind, fields: fields(target) }), "break"), " ");
    }
    at("selection").append(button("Heal all", () => operate("heal", {}), "mend"));
  }
  if (target.kind === "host" && hosts.length === 2) showPaths();
  show(true);
}

function showPaths() {
  const [from, to] = hosts;
  const qp = frames[cursor]?.qps.find((each) => each.host === from && each.peer === to);
  const head = document.createElement("h2");
  head.textContent = `${from} → ${to}`;
  at("selection").append(head);
  if (layout.operable) at("selection").append(button(`Send 64 MiB`, () => operate("traffic", { traffic: { kind: "write", from, to, size: "64 MiB" } })));
  if (!qp) return say("no QP between them sends now");
  const table = document.createElement("table");
  for (const [ev, plane, uplink, state] of qp.evs) {
    const row = table.insertRow();
    row.title = `EV ${ev.toString(16)}`;
    for (const text of [`plane ${plane}`, uplink ? `T1 ${uplink}` : "local", state]) row.insertCell().textContent = text;
  }
  at("selection").append(table);
}

// --- one frame -----------------------------------------------------------------------------------------------------------

function show(again = false) {
  if (cursor < 0 || (!again && drawn === cursor)) return;
  drawn = cursor;
  const frame = frames[cursor], from = layout.live ? Math.max(0, cursor - WINDOW + 1) : 0, shown = frames.slice(from, cursor + 1);
  fabric.update(frame);
  const times = shown.map((each) => each.t - frames[0].t);
  goodput.update(times, shown.map((each) => each.goodput));
  const mean = (each, field) => { const known = each.qps.map((qp) => qp[field]).filter(Boolean); return known.length ? known.reduce((a, b) => a + b) / known.length : null; };
  transport.update(times, shown.map((each) => mean(each, "rtt") && mean(each, "rtt") * 1e3), shown.map((each) => mean(each, "window") && mean(each, "window") / layout.payload));
  evs.update(frames, from, cursor + 1);
  list("faults", Object.entries(frame.faults), "none", ([name, text]) => `${name}: ${text}`);
  list("verdicts", Object.entries(frame.verdicts), "no verdict", ([element, state]) => `${element}: ${state}`);
  at("totals").replaceChildren(...Object.entries({ ...frame.totals, "goodput MB/s": (Object.values(frame.goodput).reduce((a, b) => a + b, 0) / 1e6).toFixed(2) }).flatMap(([name, value]) => {
    const term = document.createElement("dt"), said = document.createElement("dd");
    term.textContent = name; said.textContent = value;
    return [term, said];
  }));
  at("time").max = frames.length - 1;
  at("time").value = cursor;
  at("clock").textContent = clock(frame.t - frames[0].t);
  events();
}

function clock(since) {
  const seconds = Math.max(since, 0);
  return frames.length > 1 && frames[1].t - frames[0].t < 1e-3 ? `${(seconds * 1e6).toFixed(1)} µs` : `${seconds.toFixed(1)} s`;
}

let told = 0;
function events() {
  const log = at("events");
  if (cursor + 1 < told) { log.replaceChildren(); told = 0; }
  for (; told <= cursor; told++) {
    for (const event of frames[told].events) {
      const item = document.createElement("li"), time = document.createElement("time");
      item.className = event.kind.startsWith("fault") ? "fault" : "";
      time.textContent = clock(event.t - frames[0].t);
      item.append(time, ` ${event.node} `, event.text);
      log.prepend(item); // the newest on top
    }
  }
  while (log.childElementCount > 2000) log.lastChild.remove();
}

function add(frame) {
  frames.push(frame);
  for (const event of frame.events) if (event.kind === "fault.begin" || event.kind === "fault.end") strikes.push(event.t - frames[0].t);
}

function decided(outcome) {
  if (!outcome) return;
  at("state").textContent = layout.live ? "the lab has ended" : outcome.state;
  at("state").className = outcome.state === "held" ? "live" : "over";
  list("expectations", outcome.expectations, "no verdict: this was no run of a scenario", (each) => {
    const line = document.createElement("span");
    line.className = each.ok ? "held" : "failed";
    line.textContent = `${each.ok ? "✓ held" : "✗ failed"}  ${each.wanted} – ${each.saw} ${each.when}`;
    return line;
  });
}

// --- time ------------------------------------------------------------------------------------------------------------------

// Frames per second: as it was, but a run of microseconds takes ten seconds and one of hours a minute.
function pace() {
  const count = frames.length;
  if (count < 2) return 10;
  return Math.min(Math.max((count - 1) / (frames[count - 1].t - frames[0].t), count / 60), count / 10);
}

let before = performance.now(), owed = 0;
function tick(now) {
  const passed = ((now - before) / 1e3) * pace() * Number(at("speed").value);
  before = now;
  if (following) cursor = frames.length - 1;
  else if (playing && cursor < frames.length - 1) {
    owed += passed;
    const steps = Math.floor(owed);
    owed -= steps;
    cursor = Math.min(frames.length - 1, cursor + steps);
  }
  show();
  requestAnimationFrame(tick);
}

function pause(wanted) {
  playing = wanted;
  if (!wanted) following = false;
  else if (!layout.live && cursor >= frames.length - 1) { cursor = 0; }
  at("play").textContent = playing ? "Pause" : "Play";
}

function follow() { following = layout.live; pause(true); }

function wire() {
  at("play").addEventListener("click", () => pause(!playing));
  at("time").addEventListener("input", () => { following = false; cursor = Number(at("time").value); pause(false); });
  at("live").addEventListener("click", follow);
  at("projector").addEventListener("click", projector);
  at("keys").addEventListener("click", () => at("help").showModal());
  at("check").addEventListener("click", async () => {
    const said = await post("api/check", at("scenario").value);
    at("checked").textContent = said.ok ? `“${said.name}” is in order` : said.mistakes.join(" · ");
    at("checked").className = said.ok ? "held" : "mistake";
  });
  addEventListener("resize", () => { goodput.fit(); transport.fit(); show(true); });
  document.addEventListener("keydown", (event) => {
    if (/^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
    const keys = {
      " ": () => pause(!playing), p: projector, "?": () => at("help").showModal(), l: follow,
      h: () => layout.operable && operate("heal", {}),
      f: () => layout.operable && chosen && BREAKS[chosen.kind] && operate("strike", { kind: BREAKS[chosen.kind][0][1], fields: BREAKS[chosen.kind][0][2](chosen) }),
      ArrowLeft: () => { pause(false); cursor = Math.max(0, cursor - 1); },
      ArrowRight: () => { pause(false); cursor = Math.min(frames.length - 1, cursor + 1); },
    };
    const action = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (action && !(event.key === " " && event.target.tagName === "BUTTON")) { event.preventDefault(); action(); }
  });
}

function projector() {
  const large = document.documentElement.classList.toggle("projector");
  at("projector").setAttribute("aria-pressed", String(large));
  goodput.fit();
  transport.fit();
  show(true);
}

// --- start -----------------------------------------------------------------------------------------------------------------

async function start() {
  layout = await get("api/layout");
  at("title").textContent = `MRC Lab – ${layout.title}`;
  fabric = new FabricView(at("fabric"), layout, select);
  goodput = new Goodput(at("goodput"), layout.planes, () => strikes);
  transport = new Transport(at("transport"), () => strikes);
  evs = new EvMap(at("evs"));
  wire();
  (await get("api/frames")).forEach(add);
  following = layout.live;
  at("live").hidden = !layout.live;
  if (layout.live) {
    at("state").textContent = "live";
    at("state").className = "live";
    const stream = new EventSource(`api/live?since=${frames.length}&token=${encodeURIComponent(token)}`);
    stream.onmessage = (event) => add(JSON.parse(event.data));
    stream.addEventListener("outcome", (event) => { stream.close(); decided(JSON.parse(event.data)); });
  } else {
    cursor = frames.length - 1;
    pause(false);
    decided(layout.outcome);
  }
  requestAnimationFrame(tick);
}

start().catch((error) => { at("state").textContent = error.message; at("state").className = "over"; });

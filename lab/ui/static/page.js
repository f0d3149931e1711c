// The page: frames come from the server, live or of a finished run; a cursor walks over them, and everything shows that frame.

import { address } from "./address.js";
import { EvMap, Goodput, Losses, Transport } from "./charts.js";
import { Demo } from "./demo.js";
import { Editor } from "./editor.js";
import { FabricView, RECENT } from "./fabric.js";
import { Loads } from "./loads.js";
import { Report } from "./report.js";
import { Rival } from "./rival.js";
import { narrate } from "./narrator.js";
import { Selection, button } from "./selection.js";
import { Shelf } from "./shelf.js";
import { follow, get, merge, operate, post, share } from "./server.js";
import { Units } from "./units.js";
import { explain, explained } from "./words.js";

const at = (id) => document.getElementById(id);
const WINDOW = 600; // frames that the charts show of a lab that goes on; of a finished run they show all
const MOST = 20000, MOST_TEXT = 40e6; // frames kept of one that goes on, and characters in which they were told
const LONGEST_LOG = 2000;
const TYPED = "textarea, select, input:not([type=range], [type=checkbox])", SPACED = "button, summary, [type=checkbox]"; // keep keys, Space
const BREAK = "Click a cable, switch, NIC port or plane to break it; click two hosts to see their paths.";
const LOOK = "Click a cable, switch, NIC port or plane to see how it is; click two hosts to see their paths.";

let rival = null; // the lab beside
let layout, fabric, selection, goodput, transport, losses, evs, editor, shelf, stream;
let frames = [], loads = new Loads(), strikes = [], ended = null; // strikes: times of faults, for the charts
let cursor = -1, following = true, playing = true, drawn = -1, told = 0, unit = { name: "s", in: 1 };
const units = new Units();

// --- one frame -----------------------------------------------------------------------------------------------------------

function show(again = false) {
  if (cursor < 0 || (!again && drawn === cursor)) return;
  drawn = cursor;
  const frame = frames[cursor];
  const changed = loads.seek(cursor);
  selection.update(frame, loads.now);
  fabric.highlight([...selection.onPath, ...pointed]);
  fabric.update(frame, frames[Math.max(0, cursor - RECENT)], loads.now, changed);
  charts();
  rival?.show(frame.t, frames[layout.live ? Math.max(0, cursor - WINDOW + 1) : 0].t);
  list("faults", Object.entries(frame.faults), "none", ([name, text]) => fault(name, text));
  list("verdicts", Object.entries(frame.verdicts), "no verdict", ([element, state]) => `${element}: ${state}`);
  totals(frame);
  expectations(cursor === frames.length - 1 && ended ? ended.expectations : frame.expect);
  at("time").max = frames.length - 1;
  at("time").value = cursor;
  at("clock").textContent = `${clock(frame.t)} · ${units.trips(Math.max(frame.t - frames[0].t, 0))}`;
  at("time").setAttribute("aria-valuetext", at("clock").textContent);
  events();
  story();
  if (frame.run && layout.live) at("title").textContent = `MRC Lab – ${frame.run}`;
}

let told_by_demo = "", totalled = [], pointed = []; // pointed: cables of the path that is pointed at
function story() {
  const said = told_by_demo || (cursor >= 0 ? narrate(frames, cursor) : "");
  if (at("story").textContent !== said) at("story").textContent = said;
}

function charts() {
  const from = layout.live ? Math.max(0, cursor - WINDOW + 1) : 0, shown = frames.slice(from, cursor + 1);
  const times = shown.map((each) => since(each.t));
  goodput.update(times, shown.map((each) => each.goodput), units.rateScale, (value) => units.rate(value));
  const trips = shown.map(({ means }) => (means[0] === null ? null : means[0] * units.tripScale));
  transport.update(times, trips, shown.map((each) => each.means[1]), (value) => units.trip(value));
  losses.update(times, shown.map((each) => each.totals), layout.within * unit.in);
  evs.update(frames, from, cursor + 1);
}

function captions() {
  at("units").textContent = units.name;
  at("of-line").textContent = units.rateName;
  at("of-trip").textContent = units.tripName;
}

function list(id, entries, none, shape = (entry) => entry) {
  const key = JSON.stringify(entries);
  if (at(id).dataset.shown === key) return;
  at(id).dataset.shown = key;
  at(id).replaceChildren(...(entries.length ? entries : [none]).map((entry) => {
    const item = document.createElement("li");
    if (!entries.length) item.className = "hint";
    item.append(entries.length ? shape(entry) : entry);
    return item;
  }));
}

function fault(name, text) {
  const line = document.createElement("span");
  line.append(`${name}: ${text} `);
  if (layout.operable) line.append(button("Clear", () => selection.clear(name), "mend small"));
  return line;
}

function totals(frame) {
  const sum = Object.values(frame.goodput).reduce((a, b) => a + b, 0) * units.rateScale;
  const rows = [["goodput", units.rate(sum)], ...Object.entries(frame.totals)];
  if (totalled.length !== rows.length) {
    totalled = rows.map(() => document.createElement("dd"));
    at("totals").replaceChildren(...rows.flatMap(([name], n) => {
      const term = document.createElement("dt");
      term.append(n ? "packets " : "", explained(name));
      return [term, totalled[n]];
    }));
  }
  rows.forEach(([, value], n) => { if (totalled[n].textContent !== String(value)) totalled[n].textContent = value; });
}

const SAID = { open: "… open", good: "✓ so far", bad: "… not met yet", passed: "✓ passed", failed: "✗ failed" };
function expectations(interim_verdicts) {
  const none = layout.live && !ended || ended?.state === "not run" ? "No scenario running" : "no verdict: this was not the run of a scenario";
  list("expectations", interim_verdicts, none, (each) => {
    const line = document.createElement("span"), mark = document.createElement("b");
    line.className = `standing ${each.state}`;
    mark.textContent = SAID[each.state];
    line.append(mark, ` ${each.expected}`);
    if (each.observed) line.append(Object.assign(document.createElement("small"), { textContent: `${each.observed} ${each.when}`.trim() }));
    return line;
  });
}

function since(t) { return (t - frames[0].t) * unit.in; }
function clock(t) { return `${Math.max(since(t), 0).toFixed(1)} ${unit.name}`; }

function events() {
  const log = at("events");
  if (cursor + 1 < told) { log.replaceChildren(); told = 0; }
  for (; told <= cursor; told++) {
    for (const event of frames[told].events) {
      const item = document.createElement("li"), time = document.createElement("time");
      item.className = event.kind.startsWith("fault") ? "fault" : "";
      time.textContent = clock(event.t);
      item.append(time, ` ${event.node}: `, event.text);
      log.prepend(item); // the newest on top
    }
  }
  while (log.childElementCount > LONGEST_LOG) log.lastChild.remove();
}

// --- frames ----------------------------------------------------------------------------------------------------------------

let size = 0;
// One more frame: what changed since the last one, in so many characters. Loads are kept apart.
function add({ load, ...told }, characters) {
  const before = frames.at(-1) ?? {}, frame = merge(before, told);
  if (told.qps || !before.means) frame.means = [mean(frame.qps, 4, 1e3), mean(frame.qps, 5, 1 / layout.payload)];
  if (told.qps && units.count(new Set(frame.qps.map(([, , peer]) => peer).filter(Boolean)).size)) captions();
  frame.characters = characters;
  size += characters;
  frames.push(frame);
  loads.push(load);
  for (const event of frame.events) {
    if (event.kind === "fault.begin" || event.kind === "fault.end") strikes.push({ at: event.t, end: event.kind === "fault.end" });
  }
  fitUnit();
  if (frames.length > MOST || size > MOST_TEXT && frames.length > 1) {
    const gone = Math.ceil(frames.length / 10);
    for (const each of frames.splice(0, gone)) size -= each.characters;
    loads.drop(gone);
    first += gone;
    cursor = Math.max(0, cursor - gone);
    told = Math.max(0, told - gone);
  }
}

function mean(qps, field, scale) {
  let sum = 0, count = 0;
  for (const qp of qps) if (qp[field]) { sum += qp[field]; count++; }
  return count ? (sum / count) * scale : null;
}

function marks() { return strikes.map(({ at: t, end }) => ({ t: since(t), end })); }

// The unit of times: it grows with a run that is followed.
function fitUnit() {
  const span = Math.max(layout.within, (frames.at(-1)?.t ?? 0) - (frames[0]?.t ?? 0));
  const wanted = span < 2e-3 ? { name: "µs", in: 1e6 } : span < 0.5 ? { name: "ms", in: 1e3 } : { name: "s", in: 1 };
  if (wanted.name === unit.name) return;
  unit = wanted;
  at("within").textContent = `${Number((layout.within * unit.in).toPrecision(2))} ${unit.name}`;
}

function decided(outcome) {
  ended = outcome;
  at("report").hidden = !(layout.reports && outcome.state !== "aborted");
  layout.operable = false;
  endDemo();
  const state = at("state");
  state.textContent = outcome.state === "ended" ? "the lab has ended" : layout.live ? `the run has ended: ${outcome.state}` : outcome.state;
  state.className = outcome.state === "passed" ? "live" : outcome.state === "not run" ? "" : "over";
  state.title = outcome.history_sha256 ? `history: sha256 ${outcome.history_sha256}; the same scenario and seed give it again` : "";
  show(true);
  if (layout.at != null) { // a link named a time of view
    const found = frames.findIndex((frame) => frame.t >= layout.at);
    layout.at = null;
    seek(found < 0 ? frames.length - 1 : found);
  }
}

async function copyLink() {
  const link = await share(editor.text.value, following ? 0 : frames[cursor].t);
  history.replaceState(null, "", link);
  try { await navigator.clipboard.writeText(link); at("share").textContent = "Link copied"; } catch { at("share").textContent = "Link is in the address bar"; }
  setTimeout(() => { at("share").textContent = "Share"; }, 2000);
}

function listen() {
  stream = follow(layout.run, first + frames.length);
  stream.onopen = () => { if (!ended) live(); };
  stream.onmessage = (event) => {
    add(JSON.parse(event.data), event.data.length);
    if (following) { cursor = frames.length - 1; redraw(); }
    else at("time").max = frames.length - 1;
  };
  stream.onerror = () => {
    if (ended) stream.close();
    else lost();
  };
  stream.addEventListener("outcome", (event) => {
    if (!layout.runs && !layout.replays) stream.close(); // else word may come that another run is shown
    if (!ended) decided(JSON.parse(event.data));
  });
  stream.addEventListener("rival", (event) => rival?.add(JSON.parse(event.data)));
  stream.addEventListener("rivalpackets", (event) => { if (following) rival?.packets(JSON.parse(event.data)); });
  stream.addEventListener("packets", (event) => { if (following) fabric.packets.take(JSON.parse(event.data)); });
  stream.addEventListener("source", () => { stream.close(); open(); });
}

function live() {
  at("state").textContent = "live";
  at("state").className = "live";
}

function lost() {
  at("state").textContent = "the page's process does not answer";
  at("state").className = "over";
}

// --- time ------------------------------------------------------------------------------------------------------------------

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; show(); });
}

// Frames per second: as it was, but a run of microseconds takes ten seconds and one of hours a minute.
function frameRate() {
  const count = frames.length;
  if (count < 2) return 10;
  return Math.min(Math.max((count - 1) / (frames[count - 1].t - frames[0].t), count / 60), count / 10);
}

let before = 0, owed = 0;
function tick(now) {
  if (!playing || following) return;
  owed += ((now - before) / 1e3) * frameRate() * Number(at("speed").value);
  before = now;
  const steps = Math.floor(owed);
  owed -= steps;
  if (steps) { cursor = Math.min(frames.length - 1, cursor + steps); show(); }
  if (cursor >= frames.length - 1 && !(layout.live && !ended)) pause(false);
  else requestAnimationFrame(tick);
}

function pause(wanted) {
  playing = wanted;
  at("play").textContent = playing ? "Pause" : "Play";
  if (!playing) { following = false; return; }
  if (cursor >= frames.length - 1 && !following) cursor = 0;
  before = performance.now();
  owed = 0;
  requestAnimationFrame(tick);
}

function toLive() {
  if (!layout.live) return;
  following = true;
  pause(true);
  cursor = frames.length - 1;
  redraw();
}

function seek(wanted) {
  pause(false);
  cursor = Math.min(frames.length - 1, Math.max(0, wanted));
  show();
}

// --- the page's own buttons and keys ------------------------------------------------------------------------------------------

function refit() {
  if (!goodput) return;
  for (const each of [goodput, transport, losses, fabric, rival]) each?.fit();
  if (fabric.stale) drawFabric(fabric.only);
  show(true);
}

function projector() {
  const root = document.documentElement, stage = root.classList.toggle("projector");
  at("projector").setAttribute("aria-pressed", String(stage));
  if (stage) root.requestFullscreen?.().catch(() => {});
  else if (document.fullscreenElement) document.exitFullscreen();
  refit();
}

function play() {
  if (demo.runs) { demo.stop(); over(); return; }
  toLive();
  at("demo").textContent = "Stop the demo";
  demo.start(layout, rival);
}

// Ends a demo whose lab takes no more operations.
function endDemo() { if (demo.runs && !layout.operable) { demo.stop(); over(); } }

function over() { at("demo").textContent = "Start the demo"; }

function showSpeed() {
  const wanted = layout.speed ?? 1, choice = at("speed");
  if (![...choice.options].some((each) => Number(each.value) === wanted)) choice.add(new Option(`×${Number(wanted.toPrecision(2))}`, wanted));
  choice.value = String([...choice.options].find((each) => Number(each.value) === wanted).value);
}

// Of virtual time where a lab is followed; otherwise of the replay.
function setSpeed() { if (layout.speed && following) operate("speed", { value: Number(at("speed").value) }); }

function find() {
  const field = at("find"), word = field.value.trim(), named = (entries) => entries.some((each) => each.name === word);
  const plane = /^(?:plane )?(\d+)$/.exec(word);
  const cable = layout.links.find(({ name }) => [name, name.split("/").reverse().join("/"), name.split("/")[0]].includes(word));
  if (named(layout.switches)) selection.choose({ kind: "switch", name: word });
  else if (named(layout.hosts)) selection.choose({ kind: "host", name: word });
  else if (cable) selection.choose({ kind: "cable", name: cable.name });
  else if (plane && layout.planes.includes(Number(plane[1]))) selection.choose({ kind: "plane", name: plane[1] });
  else {
    field.setCustomValidity(word && `Nothing here is called ${word}.`);
    field.reportValidity();
    return;
  }
  at("selection").querySelector("button")?.focus();
}

// An EV that is pointed at shows its cables, a cable the EVs that use it.
function point(ev) {
  const cables = ev?.peer ? selection.path(ev.host, ev.peer, ev.plane, ev.uplink) : [];
  if (String(cables) === String(pointed)) return;
  pointed = cables;
  show(true);
}

function pointCable(name) {
  evs.only = name === null ? null : ({ host, peer, plane, uplink }) => Boolean(peer) && selection.path(host, peer, plane, uplink).includes(name);
  if (cursor >= 0) charts();
}

async function beside() {
  if (demo.runs) { demo.stop(); over(); }
  await post("api/beside", JSON.stringify({ on: !layout.beside }));
}

function change() { units.toggle(); captions(); show(true); }

function wire() {
  explain(document);
  at("units").addEventListener("click", change);
  at("beside").addEventListener("click", beside);
  evs.pointed = point;
  at("play").addEventListener("click", () => pause(!playing));
  at("time").addEventListener("input", () => seek(Number(at("time").value)));
  at("live").addEventListener("click", toLive);
  at("projector").addEventListener("click", projector);
  at("report").addEventListener("click", () => report.open(layout.planes));
  at("runs").addEventListener("click", () => shelf.open());
  at("keys").addEventListener("click", () => at("help").showModal());
  at("back").addEventListener("click", () => post("api/back", "{}"));
  at("share").addEventListener("click", copyLink);
  at("demo").addEventListener("click", play);
  at("speed").addEventListener("change", setSpeed);
  at("slowly").addEventListener("change", (event) => { selection.slowly = event.target.checked; });
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement && document.documentElement.classList.contains("projector")) projector();
  });
  at("find").addEventListener("change", find);
  at("find").addEventListener("input", () => at("find").setCustomValidity(""));
  addEventListener("resize", refit);
  const keys = {
    " ": () => pause(!playing), p: projector, u: change, b: () => layout.rivals && beside(), "?": () => at("help").showModal(), r: () => layout.replays && shelf.open(), l: toLive, h: () => layout.operable && selection.clear(),
    f: () => selection.fail(), "/": () => at("find").select(), e: () => editor.focus(), d: () => { if (!at("demo").hidden) play(); },
    Escape: () => document.documentElement.classList.contains("projector") && projector(),
    ArrowLeft: () => seek(cursor - 1), ArrowRight: () => seek(cursor + 1), Home: () => seek(0), End: () => seek(frames.length - 1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.matches(TYPED) || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (action && !(event.key === " " && event.target.matches(SPACED))) { event.preventDefault(); action(); }
  });
}

// --- start -----------------------------------------------------------------------------------------------------------------

let first = 0;
function drawFabric(only = null) {
  fabric?.packets.stop();
  fabric = new FabricView(at("fabric"), layout, (target) => selection.choose(target), only);
  fabric.pointed = pointCable;
  fabric.choose(selection.target);
  loads.rewind(); // this one has not seen any
  show(true);
}

function welcome() {
  const hint = document.createElement("p");
  hint.className = "hint welcome";
  hint.textContent = layout.operable ? BREAK : LOOK;
  at("selection").replaceChildren(hint);
}

// Show what the server shows now: at first, and again when a scenario is run from the page.
async function open() {
  layout = await get("api/layout");
  endDemo();
  units.fit(layout);
  captions();
  pointed = [];
  const whole = await get("api/frames");
  frames = []; loads = new Loads(); size = 0; strikes = []; ended = null; cursor = -1; drawn = -1; told = 0; first = whole.first;
  at("events").replaceChildren();
  at("title").textContent = `MRC Lab – ${layout.title}`;
  at("names").replaceChildren(...[...layout.switches, ...layout.hosts, ...layout.links].map((each) => new Option("", each.name)));
  welcome();
  const chosen = layout.own && selection?.layout.own ? selection.target : null;
  selection = new Selection(at("selection"), layout, () => { fabric.choose(selection.target); show(true); }, drawFabric);
  document.body.classList.toggle("beside", Boolean(layout.beside)); // before charts take their places
  for (const id of ["goodput", "transport", "losses"]) at(id).parentElement.querySelector(".legend")?.remove();
  goodput = new Goodput(at("goodput"), layout.planes, marks, () => unit.name);
  transport = new Transport(at("transport"), marks, () => unit.name);
  losses = new Losses(at("losses"), marks, () => unit.name);
  unit = {};
  fitUnit();
  for (const told of whole.frames) add(told, whole.size / whole.frames.length);
  rival = null;
  at("beside").hidden = !layout.rivals;
  at("beside").setAttribute("aria-pressed", String(Boolean(layout.beside)));
  if (layout.beside) rival = new Rival(layout, await get("api/rival"), { units, unit: () => unit.name, since, top: () => goodput.top ?? 0 });
  drawFabric();
  if (chosen) selection.choose(chosen);
  selection.slowly = at("slowly").querySelector("input").checked;
  at("slowly").hidden = !layout.speed;
  at("demo").hidden = !layout.operable;
  at("unseen").textContent = layout.packets ?? "";
  showSpeed();
  at("live").hidden = !layout.live;
  at("back").hidden = layout.own;
  at("report").hidden = !(layout.reports && layout.outcome);
  at("runs").hidden = !layout.replays;
  editor.offer(layout);
  if (layout.outcome?.state === "not run") editor.root.open = true;
  at("share").hidden = !layout.shareable;
  following = layout.live && !layout.outcome;
  if (layout.outcome) {
    cursor = frames.length - 1;
    pause(false);
    decided(layout.outcome);
  } else {
    if (!layout.starting) live();
    toLive();
  }
  if (!layout.outcome || layout.runs || layout.replays) listen();
}

const demo = new Demo((line) => { told_by_demo = line; story(); }, over);
evs = new EvMap(at("evs"), at("evkey"), at("evsaid"), ({ host, peer, plane, uplink }) => (peer ? [
  `${host} → ${peer}, plane ${plane}${uplink ? `, T1 ${uplink}` : ""}`, address(layout, host, peer, plane, uplink),
] : []));
editor = new Editor(at("editor"));
shelf = new Shelf(at("shelf"));
const report = new Report(at("reported"), units);
wire();
open().catch((error) => { at("state").textContent = error.message; at("state").className = "over"; });

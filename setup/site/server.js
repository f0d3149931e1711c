// What the page asks of the lab in this tab: the same as of a server, answered by a worker that runs Python.

const engine = new URL("../worker.mjs", import.meta.url).href;
const BOOT = { python: "starting Python", packages: "loading the lab", lab: "building the fabric" };

let worker, busy = false, number = 0, stream = null;
let source = null, known, wanted = null; // `wanted`: a time of view that a link named
let early = Promise.resolve(); // the fabric as it was built, until the worker has its own
const waiting = new Map();

export { merge } from "./merge.js";

export async function get(path) {
  if (path === "api/layout") { await early; if (!source) await known; return source.layout; }
  if (path === "api/frames") return taken();
  if (path === "api/schema") return (await fetch(new URL("../schema.json", import.meta.url))).json(); // as it was built
  if (path === "api/rival") return source.rival.splice(0);
  return ask(path, "");
}

export async function post(path, body) {
  if (path === "api/back" && busy) { start(); return { said: "the lab restarts" }; }
  return ask(path, body);
}

export function operate(operation, args) { return post("api/operation", JSON.stringify({ operation, arguments: args })); }

// What came of the source since its frames were taken; events as of an EventSource.
export function follow() {
  const own = stream = new EventTarget();
  own.close = () => { if (stream === own) stream = null; };
  queueMicrotask(() => {
    if (!source.layout.starting) own.onopen?.();
    deliver(taken().frames);
    if (source.outcome) say("outcome", JSON.stringify(source.outcome));
  });
  return own;
}

// A link to this page with a scenario and a time of view in its fragment, which no server sees.
export async function share(text, time) {
  const address = new URL(location.href);
  address.hash = new URLSearchParams({ s: await pack(text), ...(time > 0 ? { t: String(Number(time.toPrecision(6))) } : {}) });
  return address.href;
}

// --- the worker ------------------------------------------------------------------------------------------------------------

function start(scenario = null) {
  worker?.terminate();
  for (const answer of waiting.values()) answer({ error: "the lab was restarted" });
  waiting.clear();
  busy = false;
  // A worker of a blob has this page's policy; one of a file would have none where the host sends no headers.
  const blob = URL.createObjectURL(new Blob([`import ${JSON.stringify(engine)};`], { type: "text/javascript" }));
  worker = new Worker(blob, { type: "module", name: "lab" });
  known = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => take(typeof data === "string" ? JSON.parse(data) : data, resolve, reject);
    worker.onerror = (event) => reject(new Error(`the lab could not start: ${event.message || "its files are not there"}`));
  });
  known.catch(() => {});
  if (scenario) known.then(() => ask("api/run", JSON.stringify(scenario))).then((told) => { if (told.error) state(told.error); });
}

function take(told, resolve, reject) {
  if (told.kind === "lap") { performance.mark(`lab-${told.name}`, { detail: told.ms }); state(BOOT[told.name]); }
  else if (told.kind === "failed") reject(new Error(told.text));
  else if (told.kind === "answer") { waiting.get(told.number)?.(told.said); waiting.delete(told.number); }
  else if (told.kind === "busy") busy = told.now;
  else if (told.kind === "source") {
    source = { layout: { ...told.layout, shareable: true, at: told.layout.own ? null : wanted }, first: told.first, frames: told.frames, rival: told.rival, outcome: told.layout.outcome };
    performance.mark("lab-ready");
    if (resolve) resolve();
    say("source", "{}");
  } else if (told.kind === "outcome") {
    source.outcome = told.outcome;
    say("outcome", JSON.stringify(told.outcome));
  } else if (told.kind === "packets") say(told.rival ? "rivalpackets" : "packets", JSON.stringify(told));
  else if (told.kind === "rival") {
    if (stream) say("rival", JSON.stringify(told.changes));
    else source.rival?.push(...told.changes);
  }
  else if (stream) deliver(told.changes);
  else source.frames.push(...told.changes);
}

function taken() {
  const { first, frames } = source;
  source.frames = [];
  source.first += frames.length;
  return { first, frames, size: JSON.stringify(frames).length };
}

function deliver(frames) { for (const frame of frames) stream?.onmessage?.({ data: JSON.stringify(frame) }); }

function say(kind, data) { stream?.dispatchEvent(Object.assign(new Event(kind), { data })); }

async function ask(path, body) {
  await known;
  return new Promise((resolve) => {
    waiting.set(++number, resolve);
    worker.postMessage({ number, path, body });
  });
}

function state(text) {
  const at = document.getElementById("state");
  if (at && text) { at.textContent = text; at.className = ""; }
}

// --- links -----------------------------------------------------------------------------------------------------------------

async function through(bytes, transform) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}

async function pack(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpack(word) {
  const bytes = Uint8Array.from(atob(word.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
}

async function linked() {
  const said = new URLSearchParams(location.hash.slice(1));
  if (!said.has("s")) return null;
  wanted = said.has("t") ? Number(said.get("t")) : null;
  const seed = /^\d+$/.test(said.get("seed") ?? "") ? { seed: Number(said.get("seed")) } : {};
  return { text: await unpack(said.get("s")), ...seed };
}

addEventListener("hashchange", () => location.reload());
navigator.serviceWorker?.register("sw.js").catch(() => {}); // without it the page works, but not offline
if (!location.hash) {
  early = fetch(new URL("../first.json", import.meta.url)).then((answer) => answer.json()).then((told) => {
    source ??= { layout: { ...told.layout, shareable: true, starting: true }, first: told.first, frames: told.frames, outcome: null };
  }).catch(() => {});
}
known = linked().catch(() => { state("this link is damaged"); return null; }).then((scenario) => { start(scenario); return known; });

// Runs the lab: Python in WebAssembly, virtual time, no threads. The page speaks to it in messages.

import { loadPyodide } from "./engine/pyodide.mjs";
import "./engine/xz.mjs";

const REST = 50; // milliseconds between two steps
const began = performance.now();
const lap = (name) => postMessage({ kind: "lap", name, ms: Math.round(performance.now() - began) });
const VERSION = "@VERSION@", SQUEEZED = [/* @SQUEEZED@ */];
const engine = new URL("engine/", import.meta.url).href;
const queue = [];
let tab = null, ready = false;

onmessage = ({ data }) => { queue.push(data); if (ready) answer(); };

function answer() {
  for (const { number, path, body } of queue.splice(0)) postMessage({ kind: "answer", number, said: JSON.parse(tab.request(path, body)) });
}

function step() {
  const runs = tab.waits();
  if (runs) postMessage({ kind: "busy", now: true });
  tab.step();
  if (runs) postMessage({ kind: "busy", now: false });
  setTimeout(step, REST);
}

// The large parts come as xz; unpacked they are kept beside what the service worker keeps: later visits unpack nothing.
const kept = await globalThis.caches?.open(VERSION).catch(() => null);
const type = (name) => (name.endsWith(".wasm") ? "application/wasm" : "application/zip");

async function part(name) {
  const found = await kept?.match(engine + name);
  if (found) return found;
  const response = await fetched(`${engine}${name}.xz`);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  const { XzReadableStream } = globalThis["xz-decompress"];
  const whole = await new Response(new XzReadableStream(response.body)).arrayBuffer();
  const made = () => new Response(whole, { headers: { "Content-Type": type(name), "Content-Length": whole.byteLength } });
  await kept?.put(engine + name, made()).catch(() => {}); // no room: the next visit unpacks it again
  return made();
}

const fetched = globalThis.fetch, parts = new Map(SQUEEZED.map((name) => [engine + name, part(name)]));
for (const each of parts.values()) each.catch(() => {});
globalThis.fetch = (wanted, ...more) => parts.get(new URL(wanted.url ?? wanted, engine).href) ?? fetched(wanted, ...more);

// --- the interpreter -------------------------------------------------------------------------------------------------------

const SNAPSHOT = `${engine}snapshot`; // memory of the interpreter once it has imported the lab
const NATIVE = "import importlib.util\nif importlib.util.find_spec('mrclab_native'): import mrclab_native\n"; // compiled modules
const IMPORTS = NATIVE + "import mrclab.lab.ui.browser.tab, mrclab.lab.ui.browser.shortrun, gc, importlib\n"
  + "importlib.invalidate_caches()\ngc.collect()"; // closes the archives that importlib.metadata keeps open
const options = { indexURL: engine, stdLibURL: `${engine}std.zip`, env: { HOME: "/home/web_user", PYTHONDONTWRITEBYTECODE: "1" } };

async function unpack(python) {
  for (const name of ["core.zip", "lab.zip"]) python.unpackArchive(await (await fetch(engine + name)).arrayBuffer(), "zip");
  python.runPython("import importlib\nimportlib.invalidate_caches()");
}

// From the memory that an earlier visit left here; null without one. Files are unpacked later, by who gets it.
async function restored() {
  const found = await kept?.match(SNAPSHOT);
  if (!found) return null;
  try {
    const dylibs = JSON.parse(found.headers.get("X-Dylibs")), memory = new Uint8Array(await found.arrayBuffer());
    const make = (await import(`${engine}pyodide.asm.mjs`)).default;
    const createPyodideModule = async (settings) => {
      const module = await make(settings);
      module.growTo(memory.length);
      for (const [name, { file, ...at }] of Object.entries(dylibs)) module.loadKept(name, new Uint8Array(await (await kept.match(file)).arrayBuffer()), at);
      return module;
    };
    return await loadPyodide({ ...options, _loadSnapshot: memory, createPyodideModule });
  } catch (error) {
    console.warn(`the kept interpreter does not start: ${error.message}`);
    await kept.delete(SNAPSHOT);
    return null;
  }
}

// From nothing; the next visit will find its memory.
async function started() {
  const make = (await import(`${engine}pyodide.asm.mjs`)).default;
  let module;
  const createPyodideModule = async (settings) => (module = await make(settings));
  const python = await loadPyodide({ ...options, _makeSnapshot: Boolean(kept), createPyodideModule });
  lap("python");
  await unpack(python);
  lap("packages");
  python.runPython(IMPORTS);
  if (kept) keep(python, module).catch(() => {}); // no room: the next visit imports it again
  return python;
}

async function keep(python, module) {
  const memory = python.makeMemorySnapshot(), dylibs = {};
  for (const [name, at] of Object.entries(module.loadedDylibs ?? {})) {
    dylibs[name] = { ...at, file: `${SNAPSHOT}${Object.keys(dylibs).length}.so` };
    await kept.put(dylibs[name].file, new Response(python.FS.readFile(name)));
  }
  await kept.put(SNAPSHOT, new Response(memory, { headers: { "X-Dylibs": JSON.stringify(dylibs) } }));
  postMessage({ kind: "lap", name: "kept", ms: Math.round(performance.now() - began) });
}

try {
  const known = await restored(), python = known ?? await started(), later = known && self.name !== "p4"; // whose modules are not in it
  if (known && !later) await unpack(python);
  globalThis.publish = (text) => postMessage(text);
  if (self.name === "figures") tab = python.runPython("from mrclab.lab.ui.browser.shortrun import Figures\nFigures()");
  else if (self.name === "p4") tab = python.runPython("from mrclab.lab.ui.browser.p4tab import P4Tab\nP4Tab()");
  else tab = python.runPython("from js import publish\nfrom mrclab.lab.ui.browser.tab import Tab\nTab(publish)");
  lap("lab");
  tab.source?.();
  if (later) await unpack(python);
  ready = true;
  answer();
  if (tab.step) step();
} catch (error) {
  postMessage({ kind: "failed", text: `the lab could not start: ${error.message.trim().split("\n").at(-1)}` });
}

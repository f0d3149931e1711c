// Runs the lab: Python in WebAssembly, virtual time, no threads. The page speaks to it in messages.

import { loadPyodide } from "./engine/pyodide.mjs";
import "./engine/xz.mjs";

const REST = 50; // milliseconds between two steps
const began = performance.now();
const lap = (name) => postMessage({ kind: "lap", name, ms: Math.round(performance.now() - began) });
const VERSION = "@VERSION@", SQUEEZED = [/* @SQUEEZED@ */];
const engine = new URL("engine/", import.meta.url).href;
const queue = [];
let tab = null;

onmessage = ({ data }) => { queue.push(data); if (tab) answer(); };

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

try {
  const python = await loadPyodide({ indexURL: engine, stdLibURL: `${engine}std.zip`, env: { HOME: "/home/web_user", PYTHONDONTWRITEBYTECODE: "1" } });
  lap("python");
  for (const name of ["core.zip", "lab.zip"]) python.unpackArchive(await (await fetch(engine + name)).arrayBuffer(), "zip");
  lap("packages");
  globalThis.publish = (text) => postMessage(text);
  if (self.name === "figures") tab = python.runPython("from mrclab.lab.ui.shortrun import Figures\nFigures()");
  else tab = python.runPython("from js import publish\nfrom mrclab.lab.ui.tab import Tab\nTab(publish)");
  lap("lab");
  tab.source?.();
  answer();
  if (tab.step) step();
} catch (error) {
  postMessage({ kind: "failed", text: `the lab could not start: ${error.message.trim().split("\n").at(-1)}` });
}

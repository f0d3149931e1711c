// Runs the lab: Python in WebAssembly, virtual time, no threads. The page speaks to it in messages.

import { loadPyodide } from "./engine/pyodide.mjs";

const REST = 50; // milliseconds between two steps
const began = performance.now();
const lap = (name) => postMessage({ kind: "lap", name, ms: Math.round(performance.now() - began) });
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

async function bytes(name) {
  const response = await fetch(engine + name);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return response.arrayBuffer();
}

try {
  const archives = ["core.zip", "lab.zip"].map(bytes);
  const python = await loadPyodide({ indexURL: engine, stdLibURL: `${engine}std.zip`, env: { HOME: "/home/web_user", PYTHONDONTWRITEBYTECODE: "1" } });
  lap("python");
  for (const archive of archives) python.unpackArchive(await archive, "zip");
  lap("packages");
  globalThis.publish = (text) => postMessage(text);
  tab = python.runPython("from js import publish\nfrom mrclab.lab.ui.tab import Tab\nTab(publish)");
  lap("lab");
  tab.source();
  answer();
  step();
} catch (error) {
  postMessage({ kind: "failed", text: `the lab could not start: ${error.message.trim().split("\n").at(-1)}` });
}

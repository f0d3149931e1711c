// A Python in a worker of this page that answers requests; `name` says for which page (see worker.mjs).

export function interpreter(name, starting = () => {}) {
  // A worker of a blob has this page's policy; one of a file would have none where the host sends no headers.
  const blob = URL.createObjectURL(new Blob([`import ${JSON.stringify(new URL("worker.mjs", import.meta.url).href)};`], { type: "text/javascript" }));
  const worker = new Worker(blob, { type: "module", name }), waiting = new Map();
  let number = 0, started = false;
  const ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data: told }) => {
      if (told.kind === "lap" && told.name === "lab") { started = true; resolve(); }
      else if (told.kind === "lap" && !started) starting(told.name);
      else if (told.kind === "failed") reject(new Error(told.text));
      else if (told.kind === "answer") { waiting.get(told.number)?.(told.said); waiting.delete(told.number); }
    };
    worker.onerror = () => reject(new Error("Python could not start: its files are not there"));
  });
  ready.catch(() => {});
  return {
    ready,
    // Text of a request, as JSON; what came of it.
    ask(path, body) {
      return ready.then(() => new Promise((resolve) => { waiting.set(++number, resolve); worker.postMessage({ number, path, body }); }));
    },
    stop() { worker.terminate(); for (const answer of waiting.values()) answer({ error: "stopped" }); waiting.clear(); },
  };
}

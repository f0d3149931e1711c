// Runs pack.py on a folder with the interpreter of the page: node pack.mjs FOLDER
import { readFileSync } from "node:fs";
import path from "node:path";
import { loadPyodide } from "pyodide";

const python = await loadPyodide();
python.FS.mkdirTree("/stage");
python.FS.mount(python.FS.filesystems.NODEFS, { root: path.resolve(process.argv[2]) }, "/stage");
python.runPython(readFileSync(new URL("pack.py", import.meta.url), "utf8"));

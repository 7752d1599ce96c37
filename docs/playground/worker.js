// Runs Python: Pyodide, msgspec's own wheel, doyen as it is, and play.py.  It answers one question after the other.
import {loadPyodide} from "./pyodide/pyodide.mjs";

const here = name => new URL(name, import.meta.url).href;
async function bytes(name) {
  const reply = await fetch(here(name));
  if (!reply.ok) throw new Error(`${name} could not be loaded (HTTP ${reply.status})`);
  return reply.arrayBuffer();
}
async function started() {
  const parts = await (await fetch(here("parts.json"))).json();
  const [python, doyen, msgspec, play] = await Promise.all([
    loadPyodide({indexURL: here("pyodide/")}), bytes("doyen.zip"), bytes(parts.wheel), bytes("play.py"),
  ]);
  postMessage({state: "Starting doyen"});
  python.unpackArchive(msgspec, "wheel");
  python.unpackArchive(doyen, "zip", {extractDir: "/home/pyodide"});
  python.FS.writeFile("/home/pyodide/play.py", new Uint8Array(play));
  python.runPython("import sys; sys.path.insert(0, '/home/pyodide')");
  return python.pyimport("play");
}
const ready = started();
ready.then(() => postMessage({ready: true}), error => postMessage({failed: String(error.message ?? error)}));
onmessage = async ({data: {number, choices}}) => {
  const play = await ready;
  try {
    const text = play.answer(JSON.stringify(choices), share => postMessage({number, share}));
    postMessage({number, text});
  } catch (error) {
    postMessage({number, failed: String(error.message ?? error)});
  }
};

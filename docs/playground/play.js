// The playground: what is chosen, what is planned, and the run that follows from both.  The run is made by a worker.
// Every text of a run is set as text, never as markup.
import {showIncident} from "./picture.js";

const by = id => document.getElementById(id);
const make = (name, text = "", attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const DELAYS = ["0.1ms", "0.2ms", "0.5ms", "1ms", "2ms", "5ms", "20ms", "50ms", "150ms", "200ms", "500ms"];
const NODES_MAX = 16, SECONDS_MAX = 300, LOSS_MAX = 60, EVENTS_MAX = 50;
const DEEDS = { // What a button does, as a scenario file says it, and in words.
  kill: {do: "crash", button: "Kill", says: "is killed"},
  return: {do: "restart", button: "Return", says: "starts again", whose: "down"},
  pause: {do: "pause", button: "Pause", says: "is paused"},
  resume: {do: "resume", button: "Go on", says: "goes on", whose: "paused"},
  cut: {do: "partition", button: "Cut off", says: "is cut off from the others"},
  heal: {do: "heal", button: "Heal the network", says: "the network is whole again", nobody: true},
  resign: {do: "resign", button: "Resign", says: "resigns"},
};
const USUAL = {election: "quorum", membership: "auto", preset: "lan", nodes: 5, seed: 1, loss: 0, delay: "1ms", seconds: 60,
  events: [{deed: "kill", at: 10, who: ["leader"]}]};
const parts = await (await fetch(new URL("parts.json", import.meta.url))).json();
let state = structuredClone(USUAL), shown = null, at = null, worker = null, number = 0, busy = false, waits = false, playing = 0, began = 0;

// What is chosen, and the link that holds it.

const nameOf = (index, nodes = state.nodes) => "n" + String(index).padStart(String(nodes - 1).length, "0");
const inWords = (who, nodes) => who.map(one => one === "leader" ? "the leader" : nameOf(one, nodes)).join(", ");
function toLink(from) {
  const said = new URLSearchParams();
  for (const key of ["election", "membership", "preset", "nodes", "seed", "loss", "delay", "seconds"]) said.set(key, from[key]);
  if (from.events.length) said.set("do", from.events.map(event => `${event.deed}@${event.at}${event.who.length ? ":" + event.who.join("+") : ""}`).join(","));
  said.set("doyen", parts.doyen);
  return "#" + said;
}
class Refused extends Error {}
function whole(said, key, least, most) {
  const text = said.get(key), value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most) throw new Refused(`The link has ${key}=${text}: give a whole number from ${least} to ${most}.`);
  return value;
}
function oneOf(said, key, known) {
  const text = said.get(key);
  if (!known.includes(text)) throw new Refused(`The link has ${key}=${text}: give one of ${known.join(", ")}.`);
  return text;
}
function fromLink(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, "")), found = structuredClone(USUAL);
  if (![...said.keys()].length) return found;
  found.events = [];
  for (const key of said.keys()) {
    switch (key) {
      case "election": found.election = oneOf(said, key, parts.elections.map(kind => kind.name)); break;
      case "membership": found.membership = oneOf(said, key, ["auto", ...parts.memberships.map(kind => kind.name)]); break;
      case "preset": found.preset = oneOf(said, key, parts.presets); break;
      case "nodes": found.nodes = whole(said, key, 1, NODES_MAX); break;
      case "seed": found.seed = whole(said, key, 0, Number.MAX_SAFE_INTEGER); break;
      case "loss": found.loss = whole(said, key, 0, LOSS_MAX); break;
      case "delay": found.delay = oneOf(said, key, DELAYS); break;
      case "seconds": found.seconds = whole(said, key, 1, SECONDS_MAX); break;
      case "do": found.events = said.get(key).split(",").map(readEvent); break;
      case "doyen": break;
      default: throw new Refused(`The link has ${key}, which this page does not know: leave it out.`);
    }
  }
  if (found.events.length > EVENTS_MAX) throw new Refused(`The link plans ${found.events.length} events: give at most ${EVENTS_MAX}.`);
  for (const event of found.events) for (const one of event.who)
    if (one !== "leader" && one >= found.nodes) throw new Refused(`The link has an event of node ${one}: there are ${found.nodes}, counted from 0.`);
  const kind = parts.elections.find(one => one.name === found.election);
  if (!kind.memberships.includes(found.membership)) throw new Refused(`The link has membership=${found.membership}: ${found.election} takes ${kind.memberships.join(", ")}.`);
  if (said.get("doyen") && said.get("doyen") !== parts.doyen) complain(`The link was made with doyen ${said.get("doyen")}, and this is ${parts.doyen}: the run may differ.`);
  return found;
}
function readEvent(text) {
  const read = /^([a-z]+)@(\d+(?:\.\d{1,3})?)(?::((?:leader|\d+)(?:\+(?:leader|\d+))*))?$/.exec(text), deed = read && DEEDS[read[1]];
  if (!deed || !deed.nobody !== !!read[3]) throw new Refused(`The link has the event ${text}: write kill@12.5:leader, cut@20:0+1 or heal@30.`);
  return {deed: read[1], at: Number(read[2]), who: (read[3] ?? "").split("+").filter(Boolean).map(one => one === "leader" ? one : Number(one))};
}
const asked = from => ({...from, events: from.events.map(event => ({do: DEEDS[event.deed].do, at: `${event.at}s`, who: event.who}))});

// The form.

function options(select, list, chosen) {
  select.replaceChildren(...list.map(([value, text]) => { const made = make("option", text, {value}); made.selected = value === chosen; return made; }));
}
function showChoices() {
  const kind = parts.elections.find(one => one.name === state.election);
  options(by("election"), parts.elections.map(one => [one.name, one.title]), state.election);
  options(by("membership"), kind.memberships.map(name => [name, name === "auto" ? "what the election needs" : name]), state.membership);
  options(by("preset"), parts.presets.map(name => [name, name]), state.preset);
  for (const key of ["nodes", "seed", "loss", "seconds"]) by(key).value = state[key];
  by("delay").value = DELAYS.indexOf(state.delay);
  by("promise").textContent = `${kind.about} Promised: ${kind.promise}`;
  sayRanges();
  const ticked = new Set([...by("who").querySelectorAll("input:checked")].map(box => box.value));
  by("who").replaceChildren(by("who").querySelector("legend"), ...["leader", ...Array(state.nodes).keys()].map(one => {
    const label = make("label"), box = make("input", "", {type: "checkbox", value: one});
    box.checked = ticked.size ? ticked.has(String(one)) : one === "leader";
    label.append(box, one === "leader" ? "the leader" : nameOf(one));
    return label;
  }));
  showEvents();
}
function sayRanges() {
  by("loss-said").textContent = `${by("loss").value} %`;
  const delay = DELAYS[by("delay").value];
  by("delay-said").textContent = delay.replace("ms", " ms"); by("delay").setAttribute("aria-valuetext", delay);
  by("seconds-said").textContent = `${by("seconds").value} s`;
}
function showEvents() {
  by("events").replaceChildren(...state.events.map((event, index) => {
    const line = make("li"), off = make("button", "Take back", {type: "button", "aria-label": `Take back: ${event.deed} at ${event.at} s`});
    const says = DEEDS[event.deed].says;
    off.addEventListener("click", () => change({events: state.events.filter((_, other) => other !== index)}));
    line.append(make("time", `${event.at.toFixed(3)} s`), make("span", event.who.length ? `${inWords(event.who)} ${says}` : says), off);
    return line;
  }));
}
function change(by_) {
  const next = {...state, ...by_};
  const kind = parts.elections.find(one => one.name === next.election);
  if (!kind.memberships.includes(next.membership)) next.membership = "auto";
  const kept = next.events.map(event => ({...event, who: event.who.filter(one => one === "leader" || one < next.nodes)}))
    .filter(event => event.at <= next.seconds && (event.who.length || DEEDS[event.deed].nobody));
  const dropped = next.events.length - kept.length;
  complain(dropped ? `${dropped} planned ${dropped === 1 ? "event was" : "events were"} taken back: no such node or time is left.` : "");
  next.events = kept.sort((a, b) => a.at - b.at);
  state = next;
  showChoices();
  run();
}
function complain(text) { by("complaint").textContent = text; }

for (const key of ["loss", "delay", "seconds"]) by(key).addEventListener("input", sayRanges);
by("setup").addEventListener("submit", event => event.preventDefault());
by("setup").addEventListener("change", event => {
  const field = event.target, key = field.id;
  if (!field.checkValidity() || (field.type === "number" && !/^\d+$/.test(field.value))) {
    complain(`${key} ${field.value || "(empty)"}: give a whole number from ${field.min} to ${field.max}.`);
    field.value = state[key];
    return;
  }
  change({[key]: key === "delay" ? DELAYS[field.value] : field.type === "number" || field.type === "range" ? Number(field.value) : field.value,
    ...(key === "preset" ? {delay: parts.delays[field.value]} : {})});
});
by("another").addEventListener("click", () => change({seed: Math.floor(Math.random() * 1e6)}));

// What is done to the group.

const holds = (span, instant) => span.begin <= instant && (span.end == null || instant < span.end);
function chosen(deed) {
  const {nobody, whose} = DEEDS[deed];
  if (nobody) return [];
  const ticked = [...by("who").querySelectorAll("input:checked")].map(box => box.value === "leader" ? "leader" : Number(box.value));
  if (!whose) return ticked;
  const spans = shown.incident.lanes.spans.filter(span => span.kind === whose && holds(span, at)).map(span => span.lane);
  const able = [...Array(state.nodes).keys()].filter(index => spans.includes(nameOf(index)));
  const both = able.filter(index => ticked.includes(index));
  return both.length ? both : able; // Nobody else can return, or go on.
}
for (const [deed, {button}] of Object.entries(DEEDS)) {
  const made = make("button", button, {type: "button", id: `do-${deed}`});
  made.addEventListener("click", () => act(deed));
  by("deeds").append(made);
}
function act(deed) {
  if (!shown) return;
  const {button, nobody, whose} = DEEDS[deed], who = chosen(deed);
  if (!nobody && !who.length) return complain(whose ? `${button}: nobody is ${whose} at ${at.toFixed(3)} s.` : `${button}: choose at least one node.`);
  if (deed === "cut" && who.length === state.nodes) return complain("Cut off: leave at least one node on the other side.");
  if (at > state.seconds) return complain(`${button}: ${at.toFixed(3)} s is in the quiet time; choose an instant before ${state.seconds} s, or give more time for faults.`);
  if (state.events.length >= EVENTS_MAX) return complain(`${button}: there are ${EVENTS_MAX} events, which is the most; take one back.`);
  change({events: [...state.events, {deed, at: Math.round(at * 1000) / 1000, who}]});
}
by("at").addEventListener("change", () => {
  const wanted = Number(by("at").value);
  if (by("at").value === "" || !(wanted >= 0 && wanted <= (shown?.length ?? 0))) { complain(`At: give seconds from 0 to ${shown?.length ?? 0}.`); by("at").value = at?.toFixed(3) ?? ""; return; }
  complain("");
  show(wanted);
});

// The run.

function start() {
  worker?.terminate();
  const source = `import ${JSON.stringify(new URL("worker.js", import.meta.url).href)};`; // A worker made so obeys this page's policy.
  const url = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
  worker = new Worker(url, {type: "module"});
  worker.onmessage = ({data}) => heard(data);
  worker.onerror = () => say("The simulator could not be started: see the browser's console.", "bad");
  say(`Loading Python (${parts.megabytes} MB, once)`);
}
function say(text, tone = "") { by("state").textContent = text; by("state").className = tone; }
function run() {
  history.replaceState(null, "", toLink(state));
  if (busy) { waits = true; return; }
  busy = true; waits = false; number += 1;
  by("run").setAttribute("aria-busy", "true");
  by("progress").hidden = false; by("progress").removeAttribute("value");
  began = performance.now();
  worker.postMessage({number, choices: asked(state)});
}
function heard(told) {
  if (told.state) say(told.state);
  if (told.ready) { say("Simulating"); began = performance.now(); }
  if (told.share !== undefined) { by("progress").value = told.share; say(`Simulating: ${Math.round(100 * told.share)} %`); }
  if (told.failed !== undefined) { say(`It failed: ${told.failed}`, "bad"); ended(); }
  if (told.text !== undefined) { if (!waits) showRun(JSON.parse(told.text)); ended(); }
}
function ended() {
  busy = false;
  by("progress").hidden = true; by("run").removeAttribute("aria-busy");
  if (waits) run();
}
function show(instant) { shown.picture.pick(instant); }
function picked(instant) {
  at = Math.max(0, Math.min(instant, shown?.length ?? instant));
  if (document.activeElement !== by("at")) by("at").value = at.toFixed(3);
}
function showRun(found) {
  if (found.error) { say("These choices do not go together", "bad"); complain(found.error); return; }
  const before = shown;
  shown = found;
  const keeps = before && before.length === found.length && at !== null;
  shown.picture = showIncident(found.incident, {at: keeps ? at : undefined, onPick: picked});
  if (before && !keeps) shown.picture.show(-.02 * found.length, 1.02 * found.length);
  by("violations").replaceChildren(...found.violations.map(text => make("p", text, {class: "bad"})));
  const faults = Object.entries(found.faults).map(([name, count]) => `${name} ${count}`).join(" · ");
  const figures = [["began to lead", `${found.leader_changes} times`], ["somebody led", `${(100 * found.led).toFixed(2)} % of the time`],
    ["sent", `${found.messages.toLocaleString("en")} messages, ${found.bytes.toLocaleString("en")} B`],
    ["faults", faults || "none"], ["events", found.events.toLocaleString("en")], ["broken promises", found.violations.length ? String(found.violations.length) : "none"]];
  by("figures").replaceChildren(...figures.flatMap(([name, text]) => [make("dt", name), make("dd", text)]));
  by("link").value = location.href;
  by("scenario").textContent = found.scenario; by("replay").textContent = found.replay; by("hash").textContent = found.hash;
  by("hash").dataset.of = location.hash;
  say(`Done: ${found.events.toLocaleString("en")} events in ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

// Playing: the instant moves on by itself.

by("play").addEventListener("click", () => play(!playing));
function play(on) {
  cancelAnimationFrame(playing); playing = 0;
  by("play").setAttribute("aria-pressed", String(on)); by("play").textContent = on ? "Stop" : "Play";
  if (!on || !shown) return;
  if (at >= shown.length - .001) show(0);
  let before = performance.now();
  const step = now => {
    const next = Math.min(at + (now - before) / 1000 * Number(by("speed").value), shown.length);
    before = now;
    if (!busy) show(next);
    if (next >= shown.length) play(false); else playing = requestAnimationFrame(step);
  };
  playing = requestAnimationFrame(step);
}

// Keeping.

async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); by("copied").textContent = `${what} is copied.`; } catch { by("copied").textContent = `This browser does not let a page copy: select it, and copy by hand.`; }
}
by("copy-link").addEventListener("click", () => { by("link").select(); copy(by("link").value, "The link"); });
by("copy-replay").addEventListener("click", () => copy(by("replay").textContent, "The command"));
by("save").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob([shown?.scenario ?? ""], {type: "application/toml"}));
  make("a", "", {href: url, download: "scenario.toml"}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
});

function open() {
  complain("");
  try { state = fromLink(location.hash); } catch (error) { if (!(error instanceof Refused)) throw error; complain(error.message); }
  showChoices();
  run();
}
addEventListener("hashchange", open);
by("made-of").textContent = `doyen ${parts.doyen} on Pyodide ${parts.pyodide} (licence MPL-2.0; Python ${parts.python}, PSF-2.0) with msgspec ${parts.msgspec} (BSD-3-Clause), all from this site.`;
by("all").hidden = false;
start();
open();

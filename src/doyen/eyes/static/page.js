// The page of a node: Now, Time, and Who sees whom.  Live by /events; nothing is asked of anybody but this node.
import {drawLanes} from "/page/lanes.js";

const STALE_S = 2.5; // A view that is older than this is not what its member sees now.
const SLOW = 3; // A round trip this many times the median of all is called slow.
const id = name => document.getElementById(name);
let token = sessionStorage.getItem("doyen-token") ?? "", election = "", node = "", lanes = null, number = 0;
let waiting = [], stream = null, ticking = 0, leaseUntil = null, leaseWhole = null, since = null, told = null, rows = [];
let heardAt = 0, silent = false; // When this node answered last, and whether that is too long ago.

// Asking.

async function ask(path, options = {}) {
  const used = token, headers = {...options.headers ?? {}, ...(token ? {Authorization: `Bearer ${token}`} : {})};
  const reply = await fetch(path, {...options, headers, cache: "no-store", credentials: "omit"});
  if (reply.status === 401) { // Several questions may be refused at once: one of them asks for the token.
    if (used === token && id("asks-token").hidden) askToken(token ? "That was not the token." : "");
    throw new Error("token");
  }
  return reply;
}
const json = async path => { const reply = await ask(`${path}?election=${encodeURIComponent(election)}`); if (!reply.ok) throw new Error((await reply.json()).error); return reply.json(); };

function askToken(said) {
  token = ""; sessionStorage.removeItem("doyen-token");
  for (const part of ["now", "time", "views"]) id(part).hidden = true;
  id("asks-token").hidden = false; id("token-said").textContent = said; id("token").focus();
  say("a token is needed", "care");
}
id("asks-token").addEventListener("submit", event => {
  event.preventDefault();
  token = id("token").value.trim(); id("token").value = "";
  if (/[^!-~]/.test(token)) { askToken("That cannot be the token: it has other characters than a header may have."); return; }
  sessionStorage.setItem("doyen-token", token);
  id("asks-token").hidden = true;
  start();
});

function say(text, tone = "") { const at = id("state"); if (at.textContent !== text) at.textContent = text; at.className = tone; }
function put(at, text, tone) { if (at.textContent !== text) at.textContent = text; if (tone !== undefined) at.className = tone; }
function element(name, text = "", tone = "") { const made = document.createElement(name); made.textContent = text; if (tone) made.className = tone; return made; }
function ago(seconds) {
  if (seconds == null) return "–";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= size) return `${Math.round(seconds / size)} ${unit}`;
  return seconds >= 1 ? `${Math.round(seconds)} s` : `${Math.max(0, Math.round(seconds * 1000))} ms`;
}

// Now.

async function showNow() {
  const asked = performance.now() / 1000;
  const now = told = await json("/page/now");
  node = now.node; heardAt = performance.now() / 1000;
  if (silent) { silent = false; say("live", "good"); lanes?.knownUntil(null); soon(showViews, 0); }
  const skew = now.at - (asked + performance.now() / 1000) / 2;
  document.title = `${now.leader ?? "nobody"} leads ${now.group} · doyen`;
  put(id("group"), now.group + (now.election ? ` / ${now.election}` : ""));
  const choices = id("election");
  if (now.elections.length > 1 && choices.childElementCount !== now.elections.length) {
    choices.replaceChildren(...now.elections.map(name => { const made = element("option", name || "the group's own"); made.value = name; made.selected = name === election; return made; }));
    id("which").hidden = false;
  }
  since = now.since == null ? null : {at: now.since, skew};
  leaseWhole = now.lease_s;
  leaseUntil = now.lease_until == null ? null : now.lease_until - skew;
  put(id("promise"), now.promise ? `Promised: ${now.promise}` : "");
  fill(id("unseats"), now.unseats, text => element("li", text));
  fill(id("lines"), now.lines, ([name, text]) => [element("dt", name), element("dd", text)]);
  id("actions").hidden = !now.may_act; id("no-actions").hidden = now.may_act;
  id("resign").disabled = !now.mine || !now.resigns;
  id("now").hidden = id("time").hidden = id("views").hidden = false;
  tick();
}
function leaderActs(row) { // By the leader's own word, for which this node asks it; null: that has not come.
  if (told.leader === told.node) return !told.waits_for;
  return row && row.leader === row.name && !isStale(row) && !row.asking ? row.acts : null;
}
let unknownSince = null; // The leader's word takes a moment to come.
function warn(acts) {
  const now = told, here = performance.now() / 1000, warnings = [];
  unknownSince = now.leader != null && acts === null ? unknownSince ?? here : null;
  const unknown = unknownSince !== null && here - unknownSince > STALE_S;
  if (now.failure) warnings.push(`This node has failed: ${now.failure}`);
  else if (!now.running) warnings.push("This node has left its group.");
  if (now.waits_for) warnings.push(`${now.leader} is named leader, but does not act yet: ${now.waits_for}`);
  else if (now.leader != null && acts === false) warnings.push(`${now.leader} is named leader, but does not act yet, as it says itself: doyen leader says why where it runs.`);
  else if (unknown) warnings.push(`${now.leader} is named leader; it does not answer, so whether it acts is not known here.`);
  if (now.alone) warnings.push(`${now.leader} leads alone: ${now.alone}. Others that it does not hear may lead, too.`);
  if (!now.sealed) warnings.push("No key: packets are NOT authenticated.");
  if (now.membership === "none") warnings.push("No membership: this node hears of the leader alone. Start with --membership swim to see everybody.");
  fill(id("warnings"), warnings, text => element("p", text, "care"));
  put(id("sentence"), acts === false && !now.waits_for ? `${now.leader} is named leader, and does not act yet.` : unknown ? `${now.node} names ${now.leader}: ${now.sentence}` : now.sentence);
}
const filled = new Map();
function fill(at, list, make) { // Only what has changed is made anew, so that a reader does not lose its place.
  const text = JSON.stringify(list);
  if (filled.get(at) === text) return;
  filled.set(at, text);
  at.replaceChildren(...list.flatMap(make));
}
function tick() {
  if (!told) return;
  const here = performance.now() / 1000;
  if (here - heardAt > STALE_S) { // What it said last may be over: nothing is counted on.
    if (!silent) lastWord();
    silent = true; say(`no answer from this node for ${ago(here - heardAt)}`, "bad");
    put(id("who"), told.leader == null ? `Nobody led, as ${node} last said` : `${told.leader} led, as ${node} last said · term ${told.term}`, "care");
    id("lease").hidden = true;
    return;
  }
  const lasts = since ? ago(Math.max(0, here + since.skew - since.at)) : "";
  const row = rows.find(r => r.name === told.leader), acts = leaderActs(row);
  const who = told.leader == null ? "Nobody leads" : `${told.leader}${told.leader === node ? " (this node)" : ""} ${acts ? "has led" : "has been named leader"} for ${lasts} · term ${told.term}`;
  put(id("who"), who, told.leader == null ? "bad" : acts ? "good" : "care");
  warn(acts);
  const mine = leaseUntil !== null, left = mine ? leaseUntil - here : row?.lease_left_s ?? null;
  id("lease").hidden = left === null || leaseWhole == null;
  if (left !== null && leaseWhole != null) {
    const spoken = `${Math.max(0, left).toFixed(2)} s ${mine ? "left" : "were left"} of ${leaseWhole.toFixed(2)} s`;
    put(id("lease-text"), `Lease: ${spoken}${mine ? "" : ` when ${told.leader} answered, ${ago(here - row.heardAt)} ago`} `);
    id("lease-bar").value = Math.max(0, Math.min(1, left / leaseWhole));
    const until = left - (mine ? 0 : here - row.heardAt);
    lanes?.setLease(told.leader, until > 0 ? nowOnLanes() + until : null);
  }
}
function lastWord() { // Nothing here is of now any more: each part says of when it is.
  const at = nowOnLanes() - (performance.now() / 1000 - heardAt);
  const when = lanes ? lanes.clock(at) : new Date(at * 1000).toLocaleTimeString();
  document.title = `no answer from ${node} · doyen`;
  lanes?.knownUntil(at);
  fill(id("warnings"), [`All here is what ${node} said until ${when}. Nothing is known here of what happened since.`], text => element("p", text, "bad"));
  put(id("sentence"), `${node} last said: ${told.sentence}`);
  put(id("sides"), `${node} does not answer, so nothing is known here of who agrees. The views below are of ${when} and before.`, "bad");
  for (const line of id("matrix").querySelectorAll("tbody tr")) line.className = "stale";
}
const nowOnLanes = () => told ? performance.now() / 1000 + (since?.skew ?? told.at - performance.now() / 1000) : 0;

// Time.

async function showTime() {
  const found = await json("/page/lanes");
  number = found.number;
  if (lanes) lanes.update(found.lanes);
  else lanes = drawLanes(id("lanes"), found.lanes, {onPick: showChanges});
  window.doyenLanes = lanes; // For people with a console, and for tests.
  const early = waiting; waiting = null;
  for (const change of early ?? []) grow(change);
  showChanges();
}
function grow(told) {
  if (waiting) { waiting.push(told); return; }
  if (told.election !== election || told.number <= number) return;
  number = told.number;
  const more = {lanes: [], spans: [], ended: [], marks: []};
  for (const change of told.changes) {
    if (change.lane) more.lanes.push(change.lane);
    if (change.open) more.spans.push(change.open);
    if (change.close) more.ended.push(change.close);
    if (change.mark) more.marks.push(change.mark);
    if (change.lane || change.open || change.close) { lanes.add(more); for (const list of Object.values(more)) list.length = 0; } // Their order counts.
  }
  lanes.add(more);
  showChanges();
}
function showChanges(picked) {
  if (!lanes) return;
  const [from, to] = picked?.item ? [picked.at - 1e-6, picked.at + 1e-6] : lanes.following ? [-Infinity, Infinity] : lanes.shown;
  const marks = picked?.item?.at !== undefined ? lanes.marks(from, to) : lanes.marks(...(lanes.following ? [-Infinity, Infinity] : lanes.shown));
  fill(id("changes"), marks.slice(0, 100).map(mark => [mark.at, mark.kind, mark.label, mark.why ?? ""]), ([at, kind, label, why]) => {
    const item = element("li", "", kind), when = element("time", lanes.clock(at));
    when.dateTime = new Date(at * 1000).toISOString();
    item.append(when, element("span", why ? `${label}: ${why}` : label));
    return item;
  });
}

// Who sees whom.

async function showViews() {
  const found = await json("/page/views"), here = performance.now() / 1000;
  rows = found.rows.map(row => ({...row, heardAt: here - (row.age_s ?? 0)}));
  const names = [...new Set([...rows.map(row => row.name), ...rows.flatMap(row => row.seen.map(seen => seen.name))])].sort();
  const by = new Map(rows.map(row => [row.name, row])), trips = rows.flatMap(row => row.seen.map(seen => seen.rtt_s)).filter(t => t != null).sort((a, b) => a - b);
  const usual = trips[trips.length >> 1] ?? 0;
  const cells = names.map(name => {
    const row = by.get(name), seen = new Map((row?.seen ?? []).map(cell => [cell.name, cell]));
    const stale = !row || isStale(row) || row.asking;
    return {name, stale, names: row?.leader ?? null, heading: heading(name, row), cells: names.map(other => cell(name, other, row, seen.get(other), usual, stale))};
  });
  drawMatrix(names, cells);
  if (found.asked) soon(showViews, 200); // The answers come after the question.
  const sides = new Map();
  const asked = rows.filter(row => row.asking).map(row => row.name);
  for (const row of rows) if (!isStale(row) && !row.asking) sides.set(row.leader, [...(sides.get(row.leader) ?? []), row.name]);
  const words = [...sides].map(([leader, who]) => `${who.join(", ")} ${who.length === 1 ? "names" : "name"} ${leader ?? "nobody"}`);
  const unheard = rows.filter(row => isStale(row) && !row.asking), heard = unheard.filter(row => row.age_s != null), never = unheard.filter(row => row.age_s == null);
  const last = new Map(); // Whom those that cannot be asked named when they were last heard.
  for (const row of heard) last.set(row.leader, [...(last.get(row.leader) ?? []), `${row.name} (${ago(row.age_s)} ago)`]);
  const there = [...last].map(([leader, who]) => `${who.join(", ")} last named ${leader ?? "nobody"}`);
  if (never.length) there.push(`${never.map(row => row.name).join(", ")} never answered`);
  const maybe = told?.sort === "quorum" ? "; only a side with a majority of the voters has a leader" : "; members there may see another leader";
  const gone = (unheard.length ? ` Cannot be asked now: ${there.join("; ")}${maybe}.` : "") + (asked.length ? ` Asking ${asked.join(", ")} …` : "");
  put(id("sides"), sides.size > 1 ? `Views differ: ${words.join("; ")}.${gone}` : `All that answer agree${sides.size ? `: ${[...sides.keys()][0] ?? "nobody"} leads` : ""}.${gone}`, sides.size > 1 ? "bad" : unheard.length || asked.length ? "care" : "good");
}
const isStale = row => row.age_s == null || row.age_s > STALE_S || row.gone;
function heading(name, row) {
  if (row?.asking) return "asked";
  if (!row || row.age_s == null) return row?.silent ? "no answer" : "asked";
  return isStale(row) ? `${row.leader === name ? "itself" : row.leader ?? "nobody"}, ${ago(row.age_s)} ago` : row.leader === name ? "itself" : row.leader ?? "nobody";
}
function cell(name, other, row, seen, usual, stale) {
  const old = stale && row?.age_s != null ? `; so it said ${ago(row.age_s)} ago, and ${row.asking ? "is being asked again" : "cannot be asked now"}` : "";
  if (name === other) return ["·", "itself", `${name} names ${row?.age_s == null ? "a leader that it has not told here" : row.leader ?? "nobody"}${row?.term ? `, term ${row.term}` : ""}${old}.`];
  if (!row || row.age_s == null) return ["?", "none", `${name} has not answered: it may be gone, be cut off, or run an older version.`];
  if (!seen) return ["–", "none", `${name} does not know ${other}${old}.`];
  const trip = seen.rtt_s == null ? "" : `${(seen.rtt_s * 1000).toFixed(seen.rtt_s < .01 ? 1 : 0)} ms`;
  const slow = seen.rtt_s != null && usual > 0 && seen.rtt_s > SLOW * usual && seen.rtt_s > .002;
  const weak = seen.health < 1 ? `; its health is ${Math.round(seen.health * 100)} %, for it was suspected before` : "";
  const accusers = seen.by?.length ? `, accused by ${seen.by.join(", ")}` : "";
  const why = {
    alive: `${name} has held ${other} alive for ${ago(seen.since_s)}${trip ? `, round trip ${trip}${slow ? `: slow, the median is ${(usual * 1000).toFixed(1)} ms` : ""}` : ", and does not ping it itself"}${weak}`,
    suspected: `${name} has suspected ${other} for ${ago(seen.since_s)}${accusers}: it did not answer, and may still refute`,
    failed: `${name} holds ${other} to have failed, ${ago(seen.since_s)} ago: it did not answer, and did not refute`,
    left: `${name} knows that ${other} left on its own word, ${ago(seen.since_s)} ago`,
    unknown: `${name} knows ${other} by configuration alone: nothing tells whether it is up`,
  }[seen.state] ?? `${name} says of ${other}: ${seen.state}`;
  const text = seen.state === "alive" ? (slow ? `slow ${trip}` : trip || "ok") : seen.state;
  return [text, slow ? "slow" : seen.state in {alive: 1, suspected: 1, failed: 1, left: 1, unknown: 1} ? seen.state : "none", why + old + "."];
}
const SHORT = {alive: "✓", suspected: "?", failed: "✕", left: "○", unknown: "…", itself: "·", none: "–", slow: "~"};
let shape = "";
function drawMatrix(names, table) {
  const many = names.length > 16, wanted = JSON.stringify([names, many]);
  if (shape !== wanted) { // The cells stay, so that the focus does.
    shape = wanted;
    const made = element("table", "", many ? "many" : ""), head = document.createElement("thead"), body = document.createElement("tbody"), first = document.createElement("tr");
    const corner = element("th", "sees →"); corner.scope = "col";
    first.append(corner, ...["names", ...names].map(name => { const th = element("th", name); th.scope = "col"; th.title = name; return th; }));
    head.append(first);
    for (const name of names) {
      const line = document.createElement("tr"), th = element("th", name); th.scope = "row"; th.title = name;
      line.append(th, document.createElement("td"), ...names.map(() => { const td = document.createElement("td"); td.append(element("button")); td.firstChild.type = "button"; return td; }));
      body.append(line);
    }
    made.append(head, body);
    made.addEventListener("click", event => { const why = event.target.closest("button")?.dataset.why; if (why) put(id("cell"), why); });
    made.addEventListener("keydown", event => {
      const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key], td = event.target.closest("td");
      if (!by || !td) return;
      event.preventDefault();
      body.rows[td.parentElement.rowIndex - 1 + by[0]]?.cells[td.cellIndex + by[1]]?.querySelector("button")?.focus();
    });
    id("matrix").replaceChildren(made);
  }
  const body = id("matrix").querySelector("tbody");
  table.forEach((row, i) => {
    const line = body.rows[i];
    line.className = row.stale ? "stale" : "";
    put(line.cells[1], row.heading); line.cells[1].title = row.heading;
    row.cells.forEach(([text, tone, why], j) => {
      const button = line.cells[j + 2].firstChild;
      put(button, many ? SHORT[tone] : text, tone);
      if (button.dataset.why !== why) { button.dataset.why = why; button.title = why; button.setAttribute("aria-label", `${text}: ${why}`); }
      button.tabIndex = i === 0 && j === 0 ? 0 : -1;
    });
  });
}

// Actions.

for (const action of ["resign", "drain"]) id(action).addEventListener("click", () => confirmed(action));
function confirmed(action) {
  put(id("confirm-title"), action === "resign" ? `Shall ${node} resign?` : `Shall ${node} be drained?`);
  put(id("confirm-text"), action === "resign" ? `${node} stops its work as leader, hands over to the best of the others, and does not stand for 30 s.` : `${node} hands over if it leads, leaves the group in order, and its process ends its part. Only a new start brings it back.`);
  const dialog = id("confirm"), typed = id("confirm-name"), yes = id("confirm-yes");
  typed.value = ""; yes.disabled = true;
  typed.oninput = () => { yes.disabled = typed.value !== node; };
  yes.onclick = async () => {
    dialog.close();
    try {
      const reply = await ask(`/${action}?election=${encodeURIComponent(election)}`, {method: "POST", headers: {"doyen-confirm": node}});
      const answer = await reply.json();
      put(id("acted"), answer.done ?? answer.error, reply.ok ? "good" : "bad");
    } catch (error) { put(id("acted"), `It was not done: ${error.message}`, "bad"); }
  };
  id("confirm-no").onclick = () => dialog.close();
  dialog.showModal();
}

// Life.

const later = new Map();
function soon(what, wait = 100) { // At most once per `wait` ms, however many events come.
  if (!later.has(what)) later.set(what, setTimeout(() => { later.delete(what); what().catch(failed); }, wait));
}
function failed(error) { if (error.message !== "token") say(`no answer from this node: ${error.message}`, "bad"); }

async function listen(signal) {
  const reply = await ask("/events?lanes", {signal});
  if (!reply.ok) throw new Error((await reply.json()).error);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  say("live", "good");
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error("the stream has ended");
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1], data = /^data: (.*)$/m.exec(part)?.[1];
      if (name === "lanes") grow(JSON.parse(data));
      if (name) { soon(showNow, 20); soon(showViews, 150); }
    }
  }
}
async function live() {
  for (let wait = 250; ; wait = Math.min(wait * 2, 8000)) {
    stream?.abort(); const own = stream = new AbortController();
    waiting = [];
    try {
      const ends = listen(own.signal);
      ends.catch(() => {});
      await Promise.all([showNow(), showTime(), showViews()]);
      wait = 250;
      await ends;
    } catch (error) {
      if (error.message === "token" || own !== stream) return;
      failed(error);
    }
    await new Promise(go => setTimeout(go, wait));
    if (own !== stream) return;
  }
}
function start() {
  clearInterval(ticking);
  let ticks = 0;
  ticking = setInterval(() => {
    if (document.hidden || !told) return;
    tick();
    ticks += 1;
    if (ticks % 10 === 0) soon(showNow, 0);
    if (ticks % 10 === 5) soon(showViews, 0);
  }, 100);
  live();
}
id("election").addEventListener("change", event => { election = event.target.value; told = null; lanes?.destroy(); lanes = null; start(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && told) { heardAt = performance.now() / 1000; soon(showNow, 0); soon(showViews, 0); } });
start();

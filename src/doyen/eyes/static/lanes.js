// Draws lanes of time on a canvas: one lane per member, from data as doyen/eyes/lanes.py makes them.
// No imports, no globals, and every text of the data is drawn or set as text, never as markup.

const SPANS = ["leads", "named", "suspected", "paused", "down", "left"];
const MARKS = ["elected", "lost", "resigned", "joined", "alive", "suspected", "failed", "left", "started", "stopped", "note", "bad"];
const GRAVEST = ["note", "alive", "started", "joined", "stopped", "left", "suspected", "resigned", "lost", "elected", "failed", "bad"];
const GRAVITY = Object.fromEntries(GRAVEST.map((kind, weight) => [kind, weight]));
const DENSE = .5; // More marks than this to a pixel are drawn as lines.
const REIGNS = new Set(["leads", "named"]);
const KEPT_MAX = 150000; // Marks of one lane; spans of one lane a tenth of it.
const LANES_MAX = 1024;
const AXIS = 24, PAD = 6, FOLLOWED_S = 120;
const STEPS = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

export function drawLanes(element, data, options = {}) {
  const doc = element.ownerDocument, view = doc.defaultView;
  const make = (name, attributes = {}, text = "") => {
    const made = doc.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };
  element.classList.add("lanes");
  const status = make("p", {class: "lanes-said", "aria-live": "polite", id: "said" + Math.random().toString(36).slice(2)});
  const canvas = make("canvas", {tabindex: "0", role: "application", "aria-roledescription": "time line", "aria-describedby": status.id});
  const tools = make("div", {class: "lanes-tools", role: "group", "aria-label": "Time line"});
  const buttons = {};
  for (const [key, text, title, act] of [
    ["back", "◀", "Earlier", () => move(-.5)], ["forth", "▶", "Later", () => move(.5)],
    ["in", "+", "Zoom in", () => zoom(.5)], ["out", "−", "Zoom out", () => zoom(2)],
    ["all", "All", "Show all of it", () => all()], ["follow", "Follow", "Follow the present", () => follow(!following)],
  ]) {
    buttons[key] = make("button", {type: "button", title, "aria-label": title}, text);
    buttons[key].addEventListener("click", act);
    tools.append(buttons[key]);
  }
  element.replaceChildren(tools, canvas, status);

  const pen = canvas.getContext("2d");
  let colours = {}, lanes = [], rows = new Map(), windows = [], arrows = [], everybody;
  let epoch = null, live = false, whole = [0, 1], shown = [0, 1], following = false, offset = 0;
  let known = null; // Until when anything is known, while the node does not answer: a bar that goes on ends there.
  let cursor = null, untouched = true, picked = null, width = 0, height = 0, laneHeight = 28, gutter = 90;
  let frame = 0, timer = 0, dragged = null, gone = false, drawn = 0;

  // What is kept.

  function row(id) {
    if (id === "" || id == null) return everybody;
    let found = rows.get(id);
    if (!found) addLane({id}), found = rows.get(id);
    return found;
  }
  function emptyRow(lane) {
    return {...lane, label: lane.label || lane.id, spans: [], marks: [], unsorted: false};
  }
  function addLane(lane) {
    const known = rows.get(lane.id);
    if (known) { known.note = lane.note || known.note; return; }
    const made = emptyRow(lane);
    if (lanes.length >= LANES_MAX) { // As on the node itself: the lane where nothing happened for longest makes room.
      const latest = l => Math.max(l.marks.at(-1)?.at ?? -Infinity, l.spans.at(-1)?.begin ?? -Infinity);
      const over = lanes.reduce((a, b) => latest(a) <= latest(b) ? a : b);
      rows.delete(over.id); lanes.splice(lanes.indexOf(over), 1);
    }
    rows.set(lane.id, made);
    if (live) { lanes.push(made); lanes.sort((a, b) => a.id < b.id ? -1 : 1); } else lanes.push(made);
    layOut();
  }
  function addMark(mark) {
    const to = row(mark.lane), last = to.marks[to.marks.length - 1];
    if (last && last.at > mark.at) to.unsorted = true;
    to.marks.push(mark);
    if (to.marks.length > KEPT_MAX) to.marks.splice(0, KEPT_MAX / 50);
    if (mark.at > whole[1]) whole[1] = mark.at;
    if (mark.at < whole[0]) whole[0] = mark.at;
  }
  function addSpan(span) {
    const to = row(span.lane);
    to.spans.push({...span});
    if (to.spans.length > KEPT_MAX / 10) to.spans.splice(0, KEPT_MAX / 500);
    if (span.begin < whole[0]) whole[0] = span.begin;
    if ((span.end ?? span.begin) > whole[1]) whole[1] = span.end ?? span.begin;
  }
  function sort(kept) {
    if (kept.unsorted) kept.marks.sort((a, b) => a.at - b.at), kept.unsorted = false;
  }

  function update(next) {
    const had = lanes.length > 0;
    rows = new Map(); lanes = []; everybody = emptyRow({id: ""});
    epoch = next.epoch ?? null; live = !!next.live;
    whole = [next.begin ?? 0, Math.max(next.end ?? 0, (next.begin ?? 0) + 1e-6)];
    offset = whole[1] - view.performance.now() / 1000;
    for (const lane of next.lanes ?? []) addLane(lane);
    for (const span of next.spans ?? []) addSpan(span);
    for (const mark of next.marks ?? []) addMark(mark);
    known = null;
    windows = [...next.windows ?? []]; arrows = [...next.arrows ?? []].sort((a, b) => a.sent - b.sent);
    for (const kept of [everybody, ...lanes]) kept.marks.sort((a, b) => a.at - b.at), kept.spans.sort((a, b) => a.begin - b.begin);
    if (!had) {
      following = options.follow ?? live;
      shown = following ? [end() - usual(), end()] : around(whole);
    }
    canvas.setAttribute("aria-label", `${next.title ?? ""}: ${lanes.length} lanes. Left and right scroll, plus and minus zoom, up and down go from event to event, F follows.`);
    layOut();
  }
  function add(more) {
    for (const lane of more.lanes ?? []) addLane(lane);
    for (const span of more.spans ?? []) addSpan(span);
    for (const span of more.ended ?? []) {
      const open = row(span.lane).spans.findLast(s => s.end == null && REIGNS.has(s.kind) === REIGNS.has(span.kind));
      if (open) Object.assign(open, span); else addSpan(span);
    }
    for (const mark of more.marks ?? []) addMark(mark);
    for (const window of more.windows ?? []) windows.push(window);
    schedule();
  }
  function knownUntil(at) { if (known !== at) { known = at; schedule(); } }
  function setLease(id, at) { // When the lease of whoever reigns in that lane runs out.
    const open = rows.get(id)?.spans.findLast(s => s.end == null && REIGNS.has(s.kind));
    if (open) open.lease = at;
  }

  // Where things are.

  const end = () => live ? Math.max(whole[1], offset + view.performance.now() / 1000) : whole[1];
  const goesOn = () => known === null ? end() : Math.min(known, end()); // Where a bar ends that has no end yet.
  const usual = () => Math.max(30, Math.min(FOLLOWED_S, 1.1 * (end() - whole[0])));
  const around = ([a, b]) => [a - (b - a) * .02, b + (b - a) * .02];
  const x = at => gutter + (at - shown[0]) / (shown[1] - shown[0]) * (width - gutter - PAD);
  const instant = px => shown[0] + (px - gutter) / (width - gutter - PAD) * (shown[1] - shown[0]);
  const y = index => AXIS + (index + .5) * laneHeight;

  function layOut() {
    if (gone) return;
    const n = Math.max(1, lanes.length);
    laneHeight = n > 40 ? 14 : n > 16 ? 20 : n > 8 ? 26 : 34;
    const box = canvas.getBoundingClientRect();
    width = Math.max(200, box.width || element.clientWidth || 600);
    gutter = Math.min(width * .3, width < 500 ? 76 : 120);
    height = AXIS + n * laneHeight + PAD;
    const scale = view.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    }
    schedule();
  }
  function readColours() {
    const style = view.getComputedStyle(element);
    colours = {};
    for (const name of ["text", "faint", "line", "back", "cursor", ...SPANS.map(k => "span-" + k), ...MARKS.map(k => "mark-" + k), "cut", "simulated", "unsure"])
      colours[name] = style.getPropertyValue("--lanes-" + name).trim() || "#888";
    colours.font = style.fontFamily || "sans-serif";
  }

  // Drawing.

  function schedule() {
    if (!frame && !gone) frame = view.requestAnimationFrame(draw);
  }
  function draw() {
    frame = 0;
    if (gone) return;
    drawn += 1;
    if (following) { const span = untouched ? usual() : shown[1] - shown[0], to = end() + span * .03; shown = [to - span, to]; }
    const scale = view.devicePixelRatio || 1;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "middle";
    pen.font = `12px ${colours.font}`;
    drawAxis();
    pen.save();
    pen.beginPath(); pen.rect(gutter, 0, width - gutter, height); pen.clip();
    for (const window of windows) drawWindow(window);
    if (known !== null) drawWindow({begin: known, end: null, kind: "down", label: "no answer"});
    lanes.forEach(drawLane);
    drawArrows();
    drawMarks(everybody, AXIS - 6);
    if (live) line(x(end()), AXIS - 4, x(end()), height, colours.faint, [2, 3]);
    if (cursor !== null) line(x(cursor), 0, x(cursor), height, colours.cursor);
    pen.restore();
    lanes.forEach((lane, index) => {
      pen.fillStyle = colours.text;
      pen.font = `${laneHeight < 16 ? 10 : 13}px ${colours.font}`;
      pen.fillText(fitted(lane.label, gutter - 10), 4, y(index) - (lane.note && laneHeight > 30 ? 6 : 0));
      if (lane.note && laneHeight > 30) {
        pen.fillStyle = colours.faint; pen.font = `10px ${colours.font}`;
        pen.fillText(fitted(lane.note, gutter - 10), 4, y(index) + 8);
      }
    });
    view.clearTimeout(timer);
    if (live && following && !doc.hidden) // Again when the present has moved by a pixel.
      timer = view.setTimeout(schedule, Math.min(1000, Math.max(33, 1000 * (shown[1] - shown[0]) / (width - gutter))));
  }
  function drawAxis() {
    const wanted = (shown[1] - shown[0]) / Math.max(2, (width - gutter) / 90);
    const step = STEPS.find(s => s >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
    const shift = epoch === null || step < 60 ? 0 : new Date((epoch + shown[0]) * 1000).getTimezoneOffset() * 60 - epoch;
    pen.textAlign = "center";
    for (let at = Math.ceil((shown[0] - shift) / step) * step + shift; at <= shown[1]; at += step) {
      line(x(at), AXIS - 4, x(at), height, colours.line);
      pen.fillStyle = colours.faint;
      if (x(at) > gutter + 20 && x(at) < width - 30) pen.fillText(clock(at, step), x(at), 9);
    }
    pen.textAlign = "left";
  }
  function drawWindow(window) {
    const left = Math.max(x(window.begin), gutter), right = Math.min(x(window.end ?? end()), width);
    if (right < gutter || left > width) return;
    pen.globalAlpha = .22;
    pen.fillStyle = colours[window.kind] ?? colours["mark-" + window.kind] ?? colours.faint;
    pen.fillRect(left, AXIS - 6, Math.max(1, right - left), height);
    pen.globalAlpha = 1;
    pen.fillStyle = colours.text;
    if (right - left > 40) pen.fillText(fitted(window.label ?? window.kind, right - left - 6), left + 3, AXIS + 4);
  }
  function drawLane(lane, index) {
    const middle = y(index), tall = Math.min(16, laneHeight - 4);
    line(gutter, middle, width, middle, colours.line);
    for (const span of lane.spans) {
      const left = x(span.begin), right = x(span.end ?? Math.max(goesOn(), span.begin));
      if (right < gutter || left > width) continue;
      const wide = Math.max(1, right - left), colour = colours["span-" + span.kind] ?? colours.faint;
      if (REIGNS.has(span.kind)) {
        pen.fillStyle = colour;
        pen.fillRect(left, middle - tall / 2, wide, tall);
        if (span.end == null && known === null && span.lease != null && span.lease > end()) {
          pen.globalAlpha = .4; pen.fillRect(right, middle - tall / 2, x(span.lease) - right, tall); pen.globalAlpha = 1;
          line(x(span.lease), middle - tall / 2 - 2, x(span.lease), middle + tall / 2 + 2, colours.text);
        }
        if (wide > 60 && tall > 11) {
          pen.fillStyle = colours.back;
          pen.font = `11px ${colours.font}`;
          pen.fillText(fitted(span.label ?? "", wide - 8), Math.max(left, gutter) + 4, middle + .5);
        }
      } else if (span.kind === "suspected" || span.kind === "paused") { // Stripes: colour is never all that tells.
        pen.strokeStyle = colour; pen.lineWidth = 2; pen.beginPath();
        for (let at = Math.max(left, gutter - 6); at < Math.min(right, width); at += 6) { pen.moveTo(at, middle + 5); pen.lineTo(Math.min(at + 4, right), middle - 5); }
        pen.stroke(); pen.lineWidth = 1;
      } else { // Nobody is there.
        pen.fillStyle = colours.back; pen.fillRect(left, middle - 1, wide, 2);
        line(left, middle, right, middle, colour, span.kind === "left" ? [2, 5] : [5, 4]);
      }
    }
    drawMarks(lane, middle);
  }
  function drawMarks(kept, middle) {
    sort(kept);
    const marks = kept.marks, last = {}, from = lowest(marks, shown[0] - (shown[1] - shown[0]) * .01);
    const perPixel = (width - gutter - PAD) / (shown[1] - shown[0]), size = laneHeight < 16 ? 3.5 : 5;
    const until = lowest(marks, shown[1]);
    if (until - from > DENSE * (width - gutter)) { drawDense(marks, from, until, perPixel, middle, size); return; }
    for (let i = from; i < marks.length && marks[i].at <= shown[1]; i++) {
      const mark = marks[i], px = Math.round(gutter + (mark.at - shown[0]) * perPixel);
      if (last[mark.kind] === px) continue; // Drawn there already.
      last[mark.kind] = px;
      drawMark(mark.kind, px, middle, size, mark === picked);
    }
  }
  function drawDense(marks, from, until, perPixel, middle, size) { // A line for each pixel, in the colour of its gravest mark.
    const gravest = new Int8Array(Math.ceil(width) + 2).fill(-1);
    for (let i = from; i < until; i++) {
      const mark = marks[i], px = Math.round(gutter + (mark.at - shown[0]) * perPixel), weight = GRAVITY[mark.kind] ?? 0;
      if (weight > gravest[px]) gravest[px] = weight;
    }
    GRAVEST.forEach((kind, weight) => {
      pen.fillStyle = colours["mark-" + kind];
      pen.beginPath();
      for (let px = 0; px < gravest.length; px++) if (gravest[px] === weight) pen.rect(px, middle - size, 1, 2 * size);
      pen.fill();
    });
    const at = picked && marks.includes(picked) ? x(picked.at) : null;
    if (at !== null) drawMark(picked.kind, at, middle, size, true);
  }
  function drawMark(kind, px, middle, size, isPicked) {
    pen.fillStyle = pen.strokeStyle = colours["mark-" + kind] ?? colours["mark-note"];
    pen.lineWidth = 1.6;
    pen.beginPath();
    switch (kind) {
      case "elected": pen.moveTo(px - size, middle + size); pen.lineTo(px + size, middle + size); pen.lineTo(px, middle - size); pen.closePath(); pen.fill(); break;
      case "lost": pen.moveTo(px - size, middle - size); pen.lineTo(px + size, middle - size); pen.lineTo(px, middle + size); pen.closePath(); pen.fill(); break;
      case "resigned": pen.moveTo(px, middle - size); pen.lineTo(px + size, middle); pen.lineTo(px, middle + size); pen.lineTo(px - size, middle); pen.closePath(); pen.fill(); break;
      case "failed": case "bad": pen.moveTo(px - size, middle - size); pen.lineTo(px + size, middle + size); pen.moveTo(px + size, middle - size); pen.lineTo(px - size, middle + size); pen.stroke(); break;
      case "suspected": pen.moveTo(px, middle - size); pen.lineTo(px, middle + size * .4); pen.stroke(); pen.fillRect(px - 1, middle + size * .7, 2, 2); break;
      case "joined": case "alive": case "started": pen.arc(px, middle, size * .7, 0, 7); pen.fill(); break;
      case "left": case "stopped": pen.arc(px, middle, size * .7, 0, 7); pen.stroke(); break;
      default: pen.fillRect(px - 1, middle - size, 2, 2 * size);
    }
    pen.lineWidth = 1;
    if (isPicked) { pen.strokeStyle = colours.cursor; pen.strokeRect(px - size - 3, middle - size - 3, 2 * size + 6, 2 * size + 6); }
  }
  function drawArrows() {
    if (!arrows.length) return;
    const at = new Map(lanes.map((lane, index) => [lane.id, y(index)]));
    const visible = arrows.filter(a => a.sent <= shown[1] && (a.heard ?? a.sent) >= shown[0]);
    const every = Math.ceil(visible.length / 4000); // More lines than that are a wall, not a picture.
    visible.forEach((arrow, i) => {
      const from = at.get(arrow.sender), to = at.get(arrow.receiver);
      if (i % every || from === undefined || to === undefined) return;
      const lost = arrow.heard == null, colour = colours[lost ? "mark-failed" : "faint"];
      line(x(arrow.sent), from, x(arrow.heard ?? arrow.sent), lost ? (from + to) / 2 : to, colour, lost ? [3, 3] : []);
      if (!lost) { pen.fillStyle = colour; pen.beginPath(); pen.arc(x(arrow.heard), to, 2, 0, 7); pen.fill(); }
    });
  }
  function line(x1, y1, x2, y2, colour, dash = []) {
    pen.strokeStyle = colour; pen.setLineDash(dash);
    pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); pen.setLineDash([]);
  }
  function fitted(text, room) {
    if (pen.measureText(text).width <= room) return text;
    let n = Math.min(text.length, Math.ceil(room / 4));
    while (n > 1 && pen.measureText(text.slice(0, n) + "…").width > room) n -= 1;
    return n > 1 ? text.slice(0, n) + "…" : "";
  }

  // Time.

  function clock(at, step = .001) {
    if (epoch === null) return `${at.toFixed(step < .01 ? 3 : step < 1 ? 2 : step < 10 ? 1 : 0)} s`;
    const date = new Date((epoch + at) * 1000), two = n => String(n).padStart(2, "0");
    if (step >= 86400) return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
    return step >= 60 ? text : text + ":" + two(date.getSeconds()) + (step < 1 ? "." + String(date.getMilliseconds()).padStart(3, "0") : "");
  }
  function lowest(marks, at) { // The index of the first mark at or after that instant.
    let low = 0, high = marks.length;
    while (low < high) { const middle = (low + high) >> 1; if (marks[middle].at < at) low = middle + 1; else high = middle; }
    return low;
  }
  function show(from, to) { following = untouched = false; setShown(from, to); }
  function setShown(from, to) {
    const span = Math.min(Math.max(to - from, .001), 400 * 86400), middle = (from + to) / 2;
    shown = [middle - span / 2, middle + span / 2];
    buttons.follow.setAttribute("aria-pressed", String(following));
    schedule();
  }
  function move(share) { const by = (shown[1] - shown[0]) * share; show(shown[0] + by, shown[1] + by); }
  function zoom(factor, at = following ? shown[1] : (shown[0] + shown[1]) / 2) {
    untouched = false;
    setShown(at + (shown[0] - at) * factor, at + (shown[1] - at) * factor);
  }
  function all() { show(...around([whole[0], end()])); }
  function follow(on) {
    following = on && live;
    const span = shown[1] - shown[0];
    if (following) shown = [end() - (span > 3600 ? FOLLOWED_S : span), end()];
    setShown(...shown);
  }

  // Picking.

  function describe(item) {
    if (!item) return "";
    const at = item.at ?? item.begin ?? item.sent, until = item.end != null ? ` to ${clock(item.end)}` : item.begin !== undefined && item.end == null ? (known === null ? " until now" : ` to ${clock(goesOn())}, when this node answered last`) : "";
    return `${clock(at)}${until} · ${item.label || item.kind}${item.why ? ": " + item.why : ""}`;
  }
  function itemAt(px, py) {
    const index = Math.floor((py - AXIS) / laneHeight), kept = index < 0 ? everybody : lanes[index];
    if (!kept) return [null, null];
    sort(kept);
    const at = instant(px), slack = 7 / (width - gutter) * (shown[1] - shown[0]);
    let best = null;
    for (let i = lowest(kept.marks, at - slack); i < kept.marks.length && kept.marks[i].at <= at + slack; i++)
      if (!best || Math.abs(kept.marks[i].at - at) < Math.abs(best.at - at)) best = kept.marks[i];
    best ??= kept.spans.findLast(s => s.begin <= at && (s.end ?? goesOn()) >= at) ?? null;
    best ??= windows.findLast(w => w.begin <= at && (w.end ?? end()) >= at) ?? null;
    return [kept.id, best];
  }
  function pick(at, lane = "", item = null, tell = true) {
    cursor = at; picked = item;
    status.textContent = item ? describe(item) : at === null ? "" : clock(at);
    if (at !== null && (at < shown[0] || at > shown[1])) { const span = shown[1] - shown[0]; show(at - span / 2, at + span / 2); }
    schedule();
    if (tell && at !== null) options.onPick?.({at, lane, item});
  }
  function step(by) { // To the next or the previous mark of any lane.
    const from = cursor ?? (by > 0 ? shown[0] : shown[1]);
    let best = null;
    for (const kept of [everybody, ...lanes]) {
      sort(kept);
      let i = lowest(kept.marks, from);
      if (by > 0) while (i < kept.marks.length && kept.marks[i].at <= from) i++; else i -= 1;
      const mark = kept.marks[i];
      if (mark && (!best || (by > 0 ? mark.at < best.at : mark.at > best.at))) best = mark;
    }
    if (best) pick(best.at, best.lane ?? "", best);
  }

  // What a person does.

  const place = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const touching = new Map();
  const on = {
    keydown(event) {
      const keys = {ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), ArrowUp: () => step(-1), ArrowDown: () => step(1),
        "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), Home: () => all(), End: () => follow(true), f: () => follow(!following),
        Enter: () => cursor !== null && options.onPick?.({at: cursor, lane: picked?.lane ?? "", item: picked}), Escape: () => pick(null, "", null, false)};
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      keys[event.key](); event.preventDefault();
    },
    wheel(event) {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey) zoom(Math.exp(event.deltaY / 200), instant(place(event)[0]));
      else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) { const by = sideways / (width - gutter) * (shown[1] - shown[0]); show(shown[0] + by, shown[1] + by); }
      else return; // Up and down scroll the page.
      event.preventDefault();
    },
    pointerdown(event) {
      touching.set(event.pointerId, place(event));
      canvas.setPointerCapture?.(event.pointerId);
      dragged = {from: place(event), shown: [...shown], moved: false};
    },
    pointermove(event) {
      const [px, py] = place(event);
      if (touching.size === 2 && touching.has(event.pointerId)) {
        const apart = () => { const [a, b] = [...touching.values()]; return Math.max(20, Math.abs(a[0] - b[0])); };
        const before = apart();
        touching.set(event.pointerId, [px, py]);
        zoom(before / apart(), instant(px)); dragged = null;
      } else if (dragged && touching.has(event.pointerId)) {
        if (Math.abs(px - dragged.from[0]) > 4) dragged.moved = true;
        if (dragged.moved) { const by = (dragged.from[0] - px) / (width - gutter) * (dragged.shown[1] - dragged.shown[0]); show(dragged.shown[0] + by, dragged.shown[1] + by); }
      } else if (px > gutter) {
        const [, item] = itemAt(px, py);
        canvas.title = describe(item); canvas.style.cursor = item ? "pointer" : "";
      }
    },
    pointerup(event) {
      touching.delete(event.pointerId);
      const [px, py] = place(event);
      if (dragged && !dragged.moved && px > gutter) { const [lane, item] = itemAt(px, py); pick(item?.at ?? instant(px), lane ?? "", item); }
      dragged = null;
    },
    pointercancel(event) { touching.delete(event.pointerId); dragged = null; },
    dblclick(event) { zoom(.4, instant(place(event)[0])); },
  };
  for (const [name, act] of Object.entries(on)) canvas.addEventListener(name, act, name === "wheel" ? {passive: false} : undefined);
  const recolour = () => { readColours(); schedule(); };
  const dark = view.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", recolour);
  doc.addEventListener("visibilitychange", schedule);
  const resized = new view.ResizeObserver(layOut);
  resized.observe(element);

  readColours();
  update(data);
  buttons.follow.hidden = !live;
  follow(following);

  return {
    update(next) { update(next); buttons.follow.hidden = !live; }, add, setLease, knownUntil, show, follow, pick, clock, describe,
    get goesOn() { return goesOn(); }, get shown() { return [...shown]; }, get following() { return following; }, get drawn() { return drawn; },
    marks(from, to, most = 200) { // The latest marks of that time, the newest first.
      const found = [];
      for (const kept of [everybody, ...lanes]) {
        sort(kept);
        let i = lowest(kept.marks, to);
        while (kept.marks[i] && kept.marks[i].at <= to) i++;
        for (let n = 0; --i >= 0 && kept.marks[i].at >= from && n < most; n++) found.push(kept.marks[i]);
      }
      return found.sort((a, b) => b.at - a.at).slice(0, most);
    },
    destroy() {
      gone = true; view.clearTimeout(timer); view.cancelAnimationFrame(frame); resized.disconnect();
      dark.removeEventListener("change", recolour); doc.removeEventListener("visibilitychange", schedule);
      element.replaceChildren();
    },
  };
}

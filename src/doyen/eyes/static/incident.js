// Shows an incident: the verdict, the lanes, what each node would have explained at an instant, and clocks.
// A file that holds everything shows one; the playground one after the other.  Every text of the data is set as text,
// never as markup.

const put = (parent, name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
};
const by = id => document.getElementById(id);
const seconds = at => at.toFixed(3) + " s";
const holds = (span, at) => span.begin <= at && (span.end == null || at < span.end);
const last = (list, at) => {
  let low = 0, high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (list[middle].at <= at) low = middle + 1; else high = middle; }
  return low ? list[low - 1] : null;
};
let picture = null, onPick = null; // Another incident is drawn into the same picture, which keeps its zoom.

export function showIncident(incident, options = {}) {
  const clock = at => incident.lanes.epoch == null
    ? seconds(at)
    : new Date((incident.lanes.epoch + at) * 1000).toISOString().replace("T", " ").replace("Z", " UTC");

  document.title = "doyen: " + incident.title;
  for (const name of ["verdicts", "notes", "clocks"]) by(name).replaceChildren();
  by("title").textContent = incident.title;
  by("source").textContent = incident.about;
  for (const verdict of incident.verdicts) {
    const name = verdict.election ? verdict.election + ": " : "";
    put(by("verdicts"), "p", name + verdict.sentence, "verdict " + (verdict.together_s > 0 ? "bad" : "good"));
  }
  for (const note of incident.notes) put(by("notes"), "li", note);

  // Explain, as of an instant.

  const said = new Map(); // By lane, in the order of time.
  for (const found of incident.said) (said.get(found.lane) || said.set(found.lane, []).get(found.lane)).push(found);

  function explain(at) {
    const panel = by("explain");
    panel.replaceChildren();
    put(panel, "h2", "As of " + clock(at) + (incident.lanes.epoch == null ? "" : " (" + seconds(at) + ")"));
    for (const span of incident.lanes.windows || []) {
      if (holds(span, at) && span.label) put(panel, "p", span.label, span.kind === "bad" ? "bad" : "");
    }
    for (const lane of incident.lanes.lanes) {
      const card = put(panel, "section", undefined, "card");
      put(card, "h3", lane.label || lane.id);
      const now = incident.lanes.spans.filter(span => span.lane === lane.id && holds(span, at));
      for (const span of now) put(card, "p", span.label, "now " + span.kind);
      if (now.some(span => span.kind === "down")) continue; // Nobody is there to explain anything.
      const found = last(said.get(lane.id) || [], at);
      put(card, "p", found ? found.sentence : "Nothing is known of it at this instant.");
      if (!found) continue;
      put(card, "p", "since " + seconds(found.at), "quiet");
      const list = put(card, "dl");
      for (const [name, text] of found.lines || []) { put(list, "dt", name); put(list, "dd", text); }
    }
  }

  onPick = ({at, item}) => { explain(at); if (item) show(item); options.onPick?.(at); };
  if (picture) picture.update(incident.lanes);
  else picture = drawLanes(by("lanes"), incident.lanes, {onPick: picked => onPick(picked)});
  function show(item) {
    const shown = document.createElement("p");
    shown.className = "picked";
    shown.textContent = [item.label, item.why].filter(Boolean).join(" · ");
    by("explain").prepend(shown);
  }
  const first = incident.verdicts.flatMap(verdict => verdict.when)[0];
  const changes = incident.lanes.marks.filter(mark => mark.kind === "elected");
  const start = first ? first[0] : changes.reduce((latest, mark) => Math.max(latest, mark.at), incident.lanes.begin);
  picture.pick(options.at ?? start);

  // Clocks.

  for (const found of incident.clocks) {
    const row = put(by("clocks"), "tr");
    const error = found.error_s == null ? "not known" : "± " + (found.error_s * 1000).toFixed(3) + " ms";
    for (const text of [found.node, found.path, found.doyen, found.inputs.toLocaleString("en"), seconds(found.begin), seconds(found.end),
      error, (found.wall_off_s >= 0 ? "+" : "") + found.wall_off_s.toFixed(3) + " s"]) put(row, "td", text).title = text;
  }
  by("recordings").hidden = !incident.clocks.length;
  by("beside").hidden = !incident.notes.length;
  return picture;
}

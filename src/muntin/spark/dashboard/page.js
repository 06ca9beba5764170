// Draws /figures.json every two seconds. Everything from data becomes text or numbers, never markup.
"use strict";
const EVERY = 2000, MOST_LINES = 6, SHOWN = 20, LEFT = 72, WIDE = 390 - LEFT;
const SVG = "http://www.w3.org/2000/svg";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const find = (id) => document.getElementById(id);

function number(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 1000 || Number.isInteger(value) ? whole.format(value) : fine.format(value);
}
const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return fine.format(value / size) + " " + unit;
  return value + " bytes";
}
function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 172800) return fine.format(value / 86400) + " days";
  if (value >= 7200) return fine.format(value / 3600) + " h";
  return value >= 120 ? fine.format(value / 60) + " min" : fine.format(value) + " s";
}
const percent = (value) => fine.format(100 * value) + " %";

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}
function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// series: [{name, points: [{x, y, low, high}]}]; x is the place on the axis, from 0 to `last`.
function lineChart(title, series, last, from, until, shown, stacked) {
  const all = series.flatMap((one) => one.points.flatMap((p) => [p.y, p.high, p.low])).filter((y) => Number.isFinite(y));
  const most = Math.max(0, ...all), bottom = Math.min(0, ...all), top = most > 0 || bottom < 0 ? most * 1.05 : 1;
  const px = (x) => (LEFT + WIDE * (last ? x / last : 0.5)).toFixed(1);
  const py = (y) => (130 - 115 * (y - bottom) / (top - bottom)).toFixed(1);
  const ends = series.map((one) => {
    const p = one.points.filter((each) => Number.isFinite(each.y)).at(-1);
    return one.name + ": " + (p ? shown(p.y - (stacked ? p.from : 0)) : "nothing");
  });
  const svg = drawn("svg", { viewBox: "0 0 400 150", role: "img", "aria-label": title + ". Last: " + ends.join(", ") });
  svg.append(drawn("path", { class: "axis", d: "M" + LEFT + " 15V130H390" }));
  if (most > bottom) svg.append(drawn("text", { x: LEFT - 4, y: 20, "text-anchor": "end" }, shown(most)));
  svg.append(drawn("text", { x: LEFT - 4, y: 133, "text-anchor": "end" }, shown(bottom)));
  svg.append(drawn("text", { x: LEFT, y: 146 }, from), drawn("text", { x: 390, y: 146, "text-anchor": "end" }, until));
  series.forEach((one, i) => {
    const present = one.points.filter((p) => Number.isFinite(p.y));
    if (!present.length) return;
    if (stacked) {
      const width = Math.max(2, WIDE / (last + 1) - 1);
      for (const p of present) svg.append(drawn("rect", { class: "b" + i % 6, x: (LEFT + WIDE * p.x / (last + 1)).toFixed(1), width: width.toFixed(1), y: py(p.y), height: Math.max(0, py(p.from) - py(p.y)).toFixed(1) }));
      return;
    }
    const banded = present.filter((p) => Number.isFinite(p.low) && Number.isFinite(p.high));
    if (banded.length) {
      const corners = [...banded.map((p) => px(p.x) + " " + py(p.high)), ...banded.toReversed().map((p) => px(p.x) + " " + py(p.low))];
      svg.append(drawn("polygon", { class: "band b" + i % 6, points: corners.join(" ") }));
    }
    svg.append(drawn("path", { class: "s" + i % 6 + " dash" + i % 4, d: "M" + present.map((p) => px(p.x) + " " + py(p.y)).join("L") }));
    if (present.length === 1) svg.append(drawn("circle", { class: "b" + i % 6, cx: px(present[0].x), cy: py(present[0].y), r: 3 }));
  });
  const figure = document.createDocumentFragment();
  figure.append(svg);
  const legend = element("ul", undefined, { class: "legend" });
  series.forEach((one, i) => {
    const item = element("li"), key = drawn("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    key.append(stacked ? drawn("rect", { class: "b" + i % 6, width: 26, height: 10 }) : drawn("path", { class: "s" + i % 6 + " dash" + i % 4, d: "M0 5H26" }));
    item.append(key, ends[i]);
    legend.append(item);
  });
  figure.append(legend);
  return figure;
}

function table(target, caption, heads, rows) {
  const head = element("tr");
  for (const text of heads) head.append(element("th", text, { scope: "col" }));
  const thead = element("thead"), body = element("tbody");
  thead.append(head);
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((text, i) => row.append(element(i ? "td" : "th", text, i ? {} : { scope: "row" })));
    body.append(row);
  }
  target.replaceChildren(element("caption", caption), thead, body);
}

const CHARTS = [
  ["Rows per second", [["input", (b) => b.input_rows_per_s], ["processed", (b) => b.processed_rows_per_s]], number],
  ["Watermark behind the clock", [["lag", (b) => b.lag_seconds]], seconds],
  ["Rows that do not count, per batch", [["late", (b) => b.late_rows], ["invalid", (b) => b.invalid_rows]], number],
  ["State", [["hot", (b) => b.hot_bytes], ["in the store", (b) => b.state_bytes], ["compressed", (b) => b.compressed_bytes]], bytes],
  ["D: age of the youngest compressed chunk", [["D", (b) => b.compressed_after_seconds]], seconds, (b) => b.compressed_bytes],
  ["Shedding rate", [["shed", (b) => b.shed_rate]], percent, (b) => b.shed_rate || b.shed_rows],
];

function charts(batches) {
  const target = find("charts"), last = batches.length - 1;
  const edges = ["batch " + batches[0].batch, "batch " + batches[last].batch];
  const sections = CHARTS.filter(([, , , when]) => !when || batches.some(when)).map(([title, lines, shown]) => {
    const drawn = lines.filter(([, of]) => batches.some((b) => of(b) !== null));
    const series = drawn.map(([name, of]) => ({ name, points: batches.map((b, x) => ({ x, y: of(b) ?? NaN })) }));
    const section = element("section", undefined, { "aria-label": title });
    section.append(element("h2", title), lineChart(title, series, last, ...edges, shown));
    return section;
  });
  const parts = [...new Set(batches.flatMap((b) => Object.keys(b.parts)))].filter((part) => batches.some((b) => b.parts[part] > 0));
  const below = batches.map(() => 0);
  const stacked = parts.map((name) => ({ name, points: batches.map((b, x) => {
    const from = below[x];
    below[x] += b.parts[name] || 0;
    return { x, from, y: below[x] };
  }) }));
  const section = element("section", undefined, { "aria-label": "Time of a batch by part" });
  section.append(element("h2", "Time of a batch by part"), lineChart("Time of a batch by part, stacked", stacked, last, ...edges, seconds, true));
  target.replaceChildren(...sections, section);
}

function windows(found) {
  find("windows").hidden = !found;
  if (!found) return;
  find("windows-note").textContent = found.problem ? "The results cannot be read: " + found.problem : found.rows.length ? "" : "No window has closed yet.";
  if (!found.rows.length) return;
  const ends = [...new Set(found.rows.map((row) => row.end))];
  const keys = new Map();
  for (const row of found.rows) keys.set(row.key, [...(keys.get(row.key) || []), row]);
  const most = [...keys].sort((a, b) => b[1].length - a[1].length).slice(0, MOST_LINES);
  const series = most.map(([key, rows]) => ({ name: key || found.value, points: rows.map((row) => ({
    x: ends.indexOf(row.end), y: row.value ?? NaN, low: row.low ?? NaN, high: row.high ?? NaN })) }));
  const left = keys.size - most.length;
  find("windows-note").textContent = found.value + (left > 0 ? ": the " + most.length + " keys with the most windows, of " + keys.size : "");
  find("windows-chart").replaceChildren(lineChart(found.value, series, ends.length - 1, ends[0], ends.at(-1), number));
  table(find("windows-table"), "The latest first", ["end", "key", found.value, "low", "high"],
    found.rows.toReversed().slice(0, SHOWN).map((row) => [row.end, row.key, number(row.value), number(row.low), number(row.high)]));
}

// A checkpoint says when its last batch was committed, and not whether the query runs.
function standing(figures) {
  if (!figures.checkpoint) return figures.running ? "running" : "stopped";
  const { committed, begun } = figures.checkpoint;
  const last = committed ? "last commit " + new Date(committed * 1000).toISOString() : "nothing committed";
  return last + (begun ? ", batch " + begun.batch + " begun or interrupted" : "");
}

function show(figures) {
  find("name").textContent = figures.name;
  const batches = figures.batches, last = batches.at(-1);
  document.title = "Muntin: " + figures.name;
  const status = last ? standing(figures) + ", batch " + last.batch + (last.watermark ? ", watermark " + last.watermark : "") : standing(figures) + ", no batch yet";
  if (find("status").textContent !== status) find("status").textContent = status;
  find("stored").hidden = !figures.checkpoint;
  find("origin").hidden = Boolean(figures.checkpoint);
  find("problem").hidden = !figures.error;
  find("problem").textContent = figures.error || "";
  find("totals").replaceChildren(...Object.entries(figures.totals).map(([name, total]) => {
    const pair = element("div");
    pair.append(element("dt", name.replaceAll("_", " ")), element("dd", whole.format(total)));
    return pair;
  }));
  if (last) {
    charts(batches);
    table(find("batches"), "The latest first", ["batch", "started", "rows", "results", "late", "invalid", "shed", "time", "state"],
      batches.toReversed().slice(0, SHOWN).map((b) => [b.batch, b.time, count(b.rows), count(b.results), count(b.late_rows), count(b.invalid_rows), count(b.shed_rows), seconds(b.seconds), bytes(b.state_bytes)]));
  }
  windows(figures.windows);
}

let paused = false;
async function refresh() {
  if (!paused) {
    try {
      const answer = await fetch("/figures.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(await answer.text());
      show(await answer.json());
      document.documentElement.dataset.ready = "yes";
    } catch (error) {
      find("status").textContent = "The page is out of date: " + error.message;
    }
  }
  setTimeout(refresh, EVERY);
}
find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", String(paused));
});
refresh();

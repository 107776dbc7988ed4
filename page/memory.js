// The memory view: bytes over time by group, or the largest blocks as areas; and what was live, changed, came and went.
"use strict";

const GROUPS = {
  place: { of: (i) => stacks.stacks[stacks.ofWhere[data.blocks.where[i]]].frames[0], name: (k) => frameShort(data.frames[k] || "(not recorded)") },
  stack: { of: (i) => stacks.ofWhere[data.blocks.where[i]], name: stackShort },
  kind: { of: (i) => data.blocks.kind[i], name: (k) => data.kinds[k].name },
  size: { of: (i) => Math.floor(Math.log2(data.blocks.size[i] || 1)), name: (k) => `${bytesText(2 ** k)} to ${bytesText(2 ** (k + 1))}` },
  stream: { of: (i) => data.blocks.stream[i], name: (k) => (data.streams[k] ? data.streams[k].name : "stream " + k) },
  thread: { of: (i) => data.blocks.thread[i], name: (k) => "thread " + k },
  process: { of: (i) => data.blocks.process[i], name: (k) => "process " + (data.processes[k] ? data.processes[k].pid : k) },
  tag: { of: (i) => data.blocks.attr[i], name: (k) => "attribute or tag " + k },
  module: { of: (i) => moduleOf(data.blocks.where[i]), name: (k) => k || "(not Python)" },
};
const moduleOf = (w) => {
  for (const f of data.wheres[w].frames) { const module = pythonModule(data.frames[f]); if (module) return module; }
  return "";
};

const cache = { changes: new Map(), series: new Map(), layers: new Map() };
const cached = (map, key, compute) => {
  if (!map.has(key)) { if (map.size > 6) map.clear(); map.set(key, compute()); }
  return map.get(key);
};
const memoryTest = (device) => { const { kind, device: of } = data.blocks, memory = data.kinds.map((k) => k.memory); return (i) => memory[kind[i]] && of[i] === device; };
const changesFor = (device) => cached(cache.changes, device, () => changesOf(data.blocks, memoryTest(device)));
const seriesFor = (device, by) => cached(cache.series, device + " " + by, () => new Series(data.blocks, changesFor(device), GROUPS[by].of, 20));
const layersFor = (device) => cached(cache.layers, device, () => layersOf(data.blocks, changesFor(device), 800));

function areasDraw(context, series, w, Y) {
  const columns = w.sums.length, n = w.n, below = new Float64Array(columns);
  for (let g = 0; g < n; g++) {
    context.fillStyle = groupColour(series, g);
    context.globalAlpha = state.group >= 0 && state.group !== g ? 0.25 : 1;
    context.beginPath();
    context.moveTo(LEFT, Y(below[0]));
    for (let c = 0; c < columns; c++) { context.lineTo(LEFT + c, Y(below[c])); context.lineTo(LEFT + c + 1, Y(below[c])); }
    for (let c = columns - 1; c >= 0; c--) {
      below[c] += w.values[c * n + g];
      context.lineTo(LEFT + c + 1, Y(below[c]));
      context.lineTo(LEFT + c, Y(below[c]));
    }
    context.fill();
  }
  context.globalAlpha = 1;
}
const groupColour = (series, g) => (g < series.names.length ? colour(g) : cssColour("--other"));
const groupName = (series, g) => (g < series.names.length ? GROUPS[state.by].name(series.names[g]) : "other");

// Each of the largest blocks as an area in the colour of its group, in five shades; the band above is the smaller ones.
function blocksDraw(context, layers, series, w, width, Y, hits) {
  const right = width - RIGHT, place = new Map(series.names.map((key, g) => [key, g]));
  context.fillStyle = cssColour("--other");
  w.sums.forEach((sum, c) => context.fillRect(LEFT + c, Y(sum), 1, Y(0) - Y(sum)));
  for (const layer of layers) {
    if (layer.end < state.from || layer.times[0] > state.to) continue;
    const g = place.get(GROUPS[state.by].of(layer.i));
    context.fillStyle = layer.i === state.block ? cssColour("--mark") : colour(g === undefined ? 90 : g, 44 + (layer.i % 5) * 6);
    context.globalAlpha = state.group >= 0 && state.group !== g ? 0.25 : 1;
    for (let k = Math.max(0, lowerBound(layer.times, state.from) - 1); k < layer.times.length && layer.times[k] <= state.to; k++) {
      const x = Math.max(LEFT, timeX(layer.times[k], width)), end = k + 1 < layer.times.length ? layer.times[k + 1] : Math.min(layer.end, data.duration);
      const w = Math.max(0.5, Math.min(right, timeX(end, width)) - x), y = Y(layer.offsets[k] + data.blocks.size[layer.i]), h = Math.max(0.5, Y(layer.offsets[k]) - y);
      if (x > right || w <= 0) continue;
      context.fillRect(x, y, w, Math.max(0.5, h - 0.5));
      if (h > 1) hits.push({ x, y, w, h, i: layer.i });
    }
  }
  context.globalAlpha = 1;
}

function chartMake(parent, getSeries, panel) {
  let hits = [];
  const height = () => Math.max(160, parent.clientHeight);
  const top = 10;
  let Y = () => 0;
  const canvas = canvasOf(parent, height, (context, width, high) => {
    const series = getSeries(), bottom = high - 24, w = series.window(state.from, state.to, Math.max(1, Math.floor(width - LEFT - RIGHT)));
    const held = data.held.n && state.device >= 0 ? heldAt(data.held, state.device, Array.from({ length: w.sums.length }, (_, k) => state.from + ((k + 0.5) / w.sums.length) * (state.to - state.from))) : [];
    let largest = Math.max(1, ...w.sums);
    const heldMost = Math.max(0, ...held), showsHeld = heldMost > 0 && heldMost <= 3 * largest;
    if (showsHeld) largest = Math.max(largest, heldMost);
    Y = (bytes) => bottom - (bytes / (largest * 1.05)) * (bottom - top);
    const step = 2 ** Math.ceil(Math.log2((largest * 1.05) / Math.max(2, (bottom - top) / 40)));
    context.textAlign = "right";
    const ticks = Array.from({ length: Math.floor((largest * 1.05) / step) + 1 }, (_, k) => k * step), labels = axisBytes(ticks);
    ticks.forEach((bytes, k) => {
      context.fillStyle = cssColour("--soft");
      context.fillText(labels[k], LEFT - 6, Y(bytes) + 4);
      context.fillStyle = cssColour("--line");
      context.fillRect(LEFT, Math.round(Y(bytes)), width - LEFT - RIGHT, 1);
    });
    context.textAlign = "left";
    timeAxis(context, width, bottom, bottom - top); // below the areas
    hits = [];
    if (state.areas === "blocks") blocksDraw(context, layersFor(state.device), series, w, width, Y, hits);
    else areasDraw(context, series, w, Y);
    if (showsHeld) {
      context.strokeStyle = cssColour("--fore"); context.setLineDash([6, 3]); context.beginPath();
      held.forEach((bytes, k) => { if (k && bytes !== held[k - 1]) context.lineTo(LEFT + k, Y(held[k - 1])); context.lineTo(LEFT + k, Y(bytes)); });
      context.stroke(); context.setLineDash([]);
    }
    const mark = (t, style, text) => {
      if (t === undefined || t < state.from || t > state.to) return;
      const x = timeX(t, width);
      context.strokeStyle = context.fillStyle = style; context.beginPath(); context.moveTo(x, top); context.lineTo(x, bottom); context.stroke();
      context.fillText(text, Math.min(x + 4, width - 30), top + 10);
    };
    if (state.a !== undefined && state.b !== undefined) {
      context.fillStyle = cssColour("--shade");
      context.fillRect(timeX(Math.max(state.a, state.from), width), top, Math.max(1, timeX(Math.min(state.b, state.to), width) - timeX(Math.max(state.a, state.from), width)), bottom - top);
    }
    mark(state.a, cssColour("--soft"), "A");
    mark(state.b, cssColour("--soft"), "B");
    mark(state.t, cssColour("--mark"), "");
    parent.dataset.peak = series.peak;
    parent.dataset.held = showsHeld ? heldMost : 0;
    parent.dataset.shown = Math.max(0, ...w.sums);
  });
  const find = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return hits.find((h) => x >= h.x && x <= h.x + h.w && y >= h.y && y <= h.y + h.h);
  };
  timeMouse(canvas, {
    onrange: canvas.invalidate,
    onselect: (a, b) => { stateSet({ a, b, panel: state.panel === "difference" || state.panel === "temporaries" ? state.panel : "difference" }); canvas.invalidate(); panel(); },
    onclick: (event, t) => {
      const h = state.areas === "blocks" && find(event);
      if (h) stateSet({ block: h.i, panel: "block" });
      else stateSet({ t: Math.min(data.duration, Math.max(0, t)), panel: state.panel === "block" ? "live" : state.panel });
      canvas.invalidate();
      panel();
    },
    onhover: (event) => {
      const series = getSeries(), box = canvas.getBoundingClientRect(), t = xTime(event.clientX - box.left, canvas.clientWidth);
      if (t < 0 || t > data.duration || event.clientX - box.left < LEFT) { tipShow(event, ""); return; }
      const h = state.areas === "blocks" && find(event);
      if (h) { tipShow(event, lifeText(h.i)); return; }
      const now = series.at(t), order = [...now.keys()].sort((x, y) => now[y] - now[x]).filter((g) => now[g] > 0).slice(0, 8);
      tipShow(event, `${timeText(t)}: ${bytesText(now.reduce((x, y) => x + y, 0))}\n` +
        order.map((g) => `${bytesText(now[g])}  ${groupName(series, g)}`).join("\n"));
    },
  });
  return canvas;
}

// All that is known of a block: its life, both stacks, its handle, and where else it is shown.
function blockDetails(i) {
  const b = data.blocks, rows = [["kind", kindName(i)], ["address or handle", hex(b, i)], ["size", `${bytesText(b.size[i])} (${b.size[i].toLocaleString("en")} bytes)`],
    ["device", deviceName(b.device[i])], ["made", timeText(b.made[i])], ["freed", b.freed[i] ? timeText(b.freed[i]) : "never"],
    ["lived", b.freed[i] ? timeText(b.freed[i] - b.made[i]) : "to the end"], ["thread", String(b.thread[i])]];
  if (b.released[i]) rows.push(["handle freed", timeText(b.released[i])]);
  if (b.exported[i]) rows.push(["exported", timeText(b.exported[i])]);
  if (b.of[i] >= 0) rows.push(["memory of", hex(b, b.of[i])]);
  const mapped = [];
  for (let m = 0; m < b.n && mapped.length < 50; m++) if (b.of[m] === i) mapped.push(m);
  return make("div", { id: "block", "data-block": i },
    make("h2", {}, `${kindName(i)} ${hex(b, i)}, ${bytesText(b.size[i])}`),
    make("div", { className: "bar" }, button("moment", () => { stateSet({ t: b.made[i], panel: "live" }); show("memory"); }),
      button("address", () => { stateSet({ t: b.made[i], process: b.process[i] }); show("addresses"); }),
      button("life", () => { stateSet({ block: i, kinds: "" }); show("lives"); }),
      b.of[i] >= 0 ? button("its memory", () => { stateSet({ block: b.of[i] }); redraw(); }) : null,
      ...mapped.map((m) => button(`mapped at ${hex(b, m)}`, () => { stateSet({ block: m }); redraw(); }))),
    make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("h3", {}, "made by"), framesNode(b.where[i]), b.gone[i] ? make("h3", {}, "freed by") : null, b.gone[i] ? framesNode(b.gone[i]) : null);
}

function memoryPanel(panel) {
  const b = data.blocks, test = memoryTest(state.device), blocksColumn = number("blocks", (row) => row.n), open = (row) => { stateSet({ block: row.largest, panel: "block" }); redraw(); };
  const largest = { title: "largest block", value: (row) => b.size[row.largest], text: (row) => bytesText(b.size[row.largest]), isNumber: true };
  const parts = {
    live: () => {
      const live = liveAt(b, stacks.ofWhere, test, state.t);
      return [`Live at ${timeText(state.t)} on ${deviceName(state.device)}: ${bytesText(live.total)}`, live.total,
        table([bytesColumn("bytes", (row) => row.bytes), blocksColumn, largest, stackColumn], live.rows, { id: "live", sort: "bytes", onclick: open })];
    },
    difference: () => {
      const d = difference(b, stacks.ofWhere, test, state.a ?? state.from, state.b ?? state.to);
      return [`From ${timeText(state.a ?? state.from)} (A) to ${timeText(state.b ?? state.to)} (B): ${d.after >= d.before ? "+" : ""}${bytesText(d.after - d.before)}`, d.after - d.before,
        table([bytesColumn("change", (row) => row.after - row.before), bytesColumn("at A", (row) => row.before), bytesColumn("at B", (row) => row.after), stackColumn], d.rows, { id: "difference", onclick: open })];
    },
    temporaries: () => {
      const r = temporaries(b, stacks.ofWhere, test, state.a ?? state.from, state.b ?? state.to);
      return [`Made and freed between ${timeText(state.a ?? state.from)} and ${timeText(state.b ?? state.to)}: ${bytesText(r.total)}`, r.total,
        table([bytesColumn("bytes", (row) => row.bytes), blocksColumn, largest, stackColumn], r.rows, { id: "temporaries", sort: "bytes", onclick: open })];
    },
    leaks: () => {
      const r = leaks(b, stacks.ofWhere, test);
      return [`Never freed on ${deviceName(state.device)}: ${bytesText(r.total)}`, r.total,
        table([bytesColumn("bytes", (row) => row.bytes), blocksColumn, largest, stackColumn], r.rows, { id: "leaks", sort: "bytes", onclick: open })];
    },
    block: () => (state.block >= 0 && state.block < b.n ? ["", 0, blockDetails(state.block)] : ["No block is chosen.", 0, ""]),
  };
  const names = { live: "live at the moment", difference: "A to B", temporaries: "temporaries", leaks: "leaks", block: "block" };
  if (!parts[state.panel]) state.panel = "live";
  const [title, total, content] = parts[state.panel]();
  panel.replaceChildren(make("div", { className: "bar tabs" }, ...Object.entries(names).map(([key, text]) =>
    button(text, () => { stateSet({ panel: key }); memoryPanel(panel); }, { "data-panel": key, "aria-pressed": String(key === state.panel) }))),
  title ? make("h2", { id: "panel-title" }, title) : "", content || "");
  panel.dataset.total = total;
}

// The colours of the chart, with the bytes of each group at the moment; a click shows one group before the others.
function legendFill(legend, series, canvas) {
  const now = series.at(state.t), rows = [...now.keys()].map((g) => ({ g, bytes: now[g], name: groupName(series, g) })), total = now.reduce((x, y) => x + y, 0);
  legend.dataset.total = total;
  legend.replaceChildren(make("h3", {}, `by ${state.by} at ${timeText(state.t)}: ${bytesText(total)}`),
    table([{ title: state.by, value: (row) => row.name,
      node: (row) => make("span", { className: row.g === state.group ? "chosen" : "" }, make("span", { className: "swatch", style: "background:" + groupColour(series, row.g) }), row.name) },
    bytesColumn("bytes", (row) => row.bytes)], rows, { id: "groups", sort: "bytes",
      onclick: (row) => { stateSet({ group: state.group === row.g ? undefined : row.g }); canvas.invalidate(); legendFill(legend, series, canvas); } }));
}

// The first grouping that has more than one group: a trace without stacks has one place.
const groupingOf = (device) => {
  const test = memoryTest(device);
  return ["place", "stack", "size", "kind"].find((by) => {
    let first;
    for (let i = 0; i < data.blocks.n; i++) if (test(i)) { const key = GROUPS[by].of(i); if (first === undefined) first = key; else if (key !== first) return true; }
    return false;
  }) || "place";
};

function memoryView(main) {
  const devices = [...new Set(data.devices)].sort((x, y) => x - y);
  if (!devices.includes(state.device)) state.device = devices.includes(data.peakDevice) ? data.peakDevice : devices[0];
  if (!GROUPS[state.by]) state.by = groupingOf(state.device);
  const getSeries = () => seriesFor(state.device, state.by);
  const chart = make("div", { id: "chart" }), panel = make("div", { id: "panel", className: "panel" });
  const legend = make("div", { id: "legend" });
  const peak = button("", () => { stateSet({ t: getSeries().peakAt, panel: "live" }); again(); }, { id: "peak" });
  const again = () => {
    const series = getSeries();
    peak.hidden = !series.changes.n;
    peak.textContent = `peak ${bytesText(series.peak)} at ${timeText(series.peakAt)}`;
    canvas.invalidate();
    panels();
  };
  const panels = () => { memoryPanel(panel); legendFill(legend, getSeries(), canvas); };
  main.append(make("div", { className: "bar" },
    choose("of", devices.map((d) => [d, deviceName(d)]), state.device, (v) => { stateSet({ device: Number(v), t: undefined }); state.t = getSeries().peakAt; again(); }, "device"),
    choose("by", Object.keys(GROUPS).map((g) => [g, g]), state.by, (v) => { stateSet({ by: v, group: undefined }); again(); }, "by"),
    choose("as", [["groups", "groups"], ["blocks", "largest blocks"]], state.areas || "groups", (v) => { stateSet({ areas: v }); again(); }, "areas"),
    peak, button("whole time", () => { stateSet(wholeRange()); canvas.invalidate(); }),
    button("A = moment", () => { stateSet({ a: state.t, b: Math.max(state.b ?? data.duration, state.t), panel: "difference" }); again(); }),
    button("B = moment", () => { stateSet({ b: state.t, a: Math.min(state.a ?? 0, state.t), panel: "difference" }); again(); }),
    data.held.n ? make("span", { className: "hint", id: "held-note" }, "dashed: held of the device") : null,
    make("span", { className: "hint" }, "shift + drag selects A to B")),
  make("div", { className: "beside grow" }, chart, legend), panel);
  if (state.t === undefined) state.t = getSeries().peakAt;
  const canvas = chartMake(chart, getSeries, panels);
  redraw = () => { canvas.paint(); again(); };
  canvas.paint();
  again();
}

// The views.  Everything that comes from the trace is set as text, never as HTML.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && key !== "list") node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};
const hex = (blocks, i) =>
  "0x" + (blocks.high[i] ? blocks.high[i].toString(16) + blocks.low[i].toString(16).padStart(8, "0") : blocks.low[i].toString(16));
const colour = (k) => `hsl(${(k * 137.508) % 360} 62% 55%)`;
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let data;
const state = { view: "memory", time: 0 };
let redraw = () => {};

const kindName = (i) => data.kinds[data.blocks.kind[i]].name;
const isMemory = (i) => data.kinds[data.blocks.kind[i]].memory;
const deviceName = (d) => (d < 0 ? "host" : "device " + d);
const whereText = (w) => data.wheres[w].frames.map((f) => data.frames[f]).join("\n");
// The innermost frame and the function that called it, which tells wrappers of an allocator apart.
const whereShort = (w) => {
  const [first, second] = data.wheres[w].frames.map((f) => data.frames[f]);
  return (first || "(not recorded)").replace(/\([^)]*\//, "(") + (second ? " ← " + second.replace(/ \(.*/, "") : "");
};
const lifeText = (i) => {
  const b = data.blocks;
  return `${kindName(i)} ${hex(b, i)}, ${bytesText(b.size[i])}\nmade at ${timeText(b.made[i])}, ` +
    (b.freed[i] ? `lived ${timeText(b.freed[i] - b.made[i])}` : "never freed") + `\n${whereShort(b.where[i])}`;
};

// ---- a tip beside the pointer ----
const tip = make("div", { className: "tip", hidden: true });
function tipShow(event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

// ---- canvases no larger than what is seen ----
function rowsCanvas(parent, rowHeight, count, draw, hover, click) {
  const holder = make("div", { className: "scroll", tabIndex: 0 });
  const spacer = make("div");
  const canvas = make("canvas", { style: "position:sticky;top:0" });
  spacer.append(canvas);
  holder.append(spacer);
  parent.append(holder);
  let hits = [];
  const paint = () => {
    const n = count(), width = holder.clientWidth, height = Math.min(n * rowHeight + 4, Math.round(innerHeight * 0.6));
    spacer.style.height = n * rowHeight + 4 + "px";
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    context.scale(devicePixelRatio, devicePixelRatio);
    context.font = "12px system-ui, sans-serif";
    hits = [];
    const first = Math.floor(holder.scrollTop / rowHeight);
    for (let r = first; r < n && (r - first) * rowHeight < height; r++)
      draw(context, r, r * rowHeight - holder.scrollTop, width, hits);
  };
  const find = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    for (let k = hits.length - 1; k >= 0; k--) {
      const h = hits[k];
      if (x >= h.x && x <= h.x + Math.max(h.w, 2) && y >= h.y && y <= h.y + h.h) return h;
    }
    return null;
  };
  holder.addEventListener("scroll", paint);
  canvas.addEventListener("mousemove", (event) => { const h = find(event); tipShow(event, h && hover(h)); });
  canvas.addEventListener("mouseleave", (event) => tipShow(event, ""));
  if (click) canvas.addEventListener("click", (event) => { const h = find(event); if (h) click(h); });
  paint();
  return paint;
}

function choose(label, values, value, onchange) {
  const select = make("select", { onchange: (event) => onchange(event.target.value) },
    ...values.map(([key, text]) => make("option", { value: key, selected: String(key) === String(value) }, text)));
  return make("label", {}, label + " ", select);
}

const slider = (onchange) => {
  const label = make("span", {}, timeText(state.time));
  const input = make("input", { type: "range", min: 0, max: 10000, value: (state.time / data.duration) * 10000, id: "time",
    "aria-label": "time",
    oninput: () => { state.time = (input.value / 10000) * data.duration; label.textContent = timeText(state.time); onchange(); } });
  return make("div", { className: "bar" }, make("label", {}, "time "), input, label,
    make("button", { onclick: () => { state.time = data.peakAt; input.value = (state.time / data.duration) * 10000;
      label.textContent = timeText(state.time); onchange(); } }, "peak"));
};

// ---- memory over time ----
const groups = {
  stack: (i) => data.blocks.where[i],
  kind: (i) => data.blocks.kind[i],
  attribute: (i) => data.blocks.attr[i],
  process: (i) => data.blocks.process[i],
};
const groupName = (by, key) =>
  by === "stack" ? whereShort(key) : by === "kind" ? data.kinds[key].name
    : by === "process" ? "process " + (data.processes[key] ? data.processes[key].pid : key) : "attribute " + key;

function memoryView(main) {
  const devices = [...new Set(data.devices)].sort((a, b) => a - b);
  state.device ??= devices.includes(data.peakDevice) ? data.peakDevice : devices[0];
  state.by ??= "stack";
  const chart = make("div", { id: "chart" });
  const list = make("div", { id: "live" });
  let range = [0, data.duration];
  const test = (i) => isMemory(i) && data.blocks.device[i] === Number(state.device);
  const showLive = (t) => {
    state.time = t;
    const live = liveAt(data.blocks, test, t);
    list.replaceChildren(
      make("h2", { id: "live-title" }, `Live at ${timeText(t)} on ${deviceName(state.device)}: ${bytesText(live.total)}`),
      make("table", {},
        make("tr", {}, make("th", { className: "number" }, "bytes"), make("th", { className: "number" }, "blocks"), make("th", {}, "where")),
        ...live.rows.slice(0, 200).map((row) => make("tr", {},
          make("td", { className: "number", title: String(row.bytes) }, bytesText(row.bytes)),
          make("td", { className: "number" }, String(row.n)),
          make("td", { className: "frames" }, whereText(row.where))))),
      live.rows.length > 200 ? make("p", {}, `and ${live.rows.length - 200} more places`) : "");
    list.dataset.total = live.total;
  };
  const draw = () => {
    chart.replaceChildren();
    const width = Math.max(260, main.clientWidth - 28);
    const s = stacked(data.blocks, test, groups[state.by], range[0], range[1], Math.max(50, Math.min(2000, width * 2)), 20);
    const n = s.names.length + (s.values[s.names.length].some((v) => v > 0) ? 1 : 0);
    const sums = [], series = [{ label: "time", value: (u, v) => (v === null ? "" : timeText(v)) }], bands = [];
    let below = new Float64Array(s.times.length);
    for (let k = 0; k < n; k++) {
      below = below.map((v, i) => v + s.values[k][i]);
      sums.push(Array.from(below));
      series.push({ label: k < s.names.length ? groupName(state.by, s.names[k]) : "other", stroke: colour(k), width: 1,
        fill: colour(k) + "", points: { show: false }, paths: vendor.uPlot.paths.stepped({ align: 1 }),
        value: (u, v, si, i) => (i === null ? "" : bytesText(s.values[si - 1][i])) });
      if (k > 0) bands.push({ series: [k + 1, k], fill: colour(k) });
    }
    peak.hidden = !n;
    if (!n) { chart.append(make("p", {}, "No memory was allocated here.")); return; }
    if (data.held.n && state.device >= 0) {
      const held = heldAt(data.held, Number(state.device), s.times);
      sums.push(held); // far above the rest it would flatten it: then the legend shows it on a click
      series.push({ label: "held of the device", show: Math.max(...held) <= 3 * s.peak, stroke: cssColour("--fore"), width: 1.5, dash: [6, 3], points: { show: false },
        paths: vendor.uPlot.paths.stepped({ align: 1 }), value: (u, v) => (v === null ? "" : bytesText(v)) });
    }
    const axis = { stroke: cssColour("--soft"), grid: { stroke: cssColour("--line") }, ticks: { stroke: cssColour("--line") } };
    const plot = new vendor.uPlot({
      width, height: 340, series, bands, legend: { live: true },
      scales: { x: { time: false, range: () => range } , y: { range: (u, low, high) => [0, high * 1.05 || 1] } },
      axes: [{ ...axis, values: (u, values) => values.map(timeText) }, { ...axis, size: 80, incrs: Array.from({ length: 52 }, (_, k) => 2 ** k), values: (u, values) => values.map(bytesText) }],
      cursor: { drag: { x: true, y: false } },
      hooks: {
        setSelect: [(u) => { if (u.select.width > 8) { range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]; draw(); } }],
        draw: [(u) => {
          const x = u.valToPos(s.peakAt, "x", true);
          u.ctx.strokeStyle = cssColour("--mark"); u.ctx.setLineDash([4, 4]);
          u.ctx.beginPath(); u.ctx.moveTo(x, u.bbox.top); u.ctx.lineTo(x, u.bbox.top + u.bbox.height); u.ctx.stroke();
          u.ctx.setLineDash([]);
        }],
      },
    }, [s.times, ...sums], chart);
    plot.over.addEventListener("click", (event) => {
      const t = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
      showLive(Math.max(0, t));
    });
    chart.dataset.peak = s.peak;
    peak.textContent = `peak ${bytesText(s.peak)} at ${timeText(s.peakAt)}`;
    state.peakHere = s.peakAt;
  };
  const peak = make("button", { id: "peak", onclick: () => showLive(state.peakHere) }, "");
  main.append(make("div", { className: "bar" },
    choose("of", devices.map((d) => [d, deviceName(d)]), state.device, (v) => { state.device = Number(v); range = [0, data.duration]; draw(); showLive(state.peakHere); }),
    choose("by", Object.keys(groups).map((g) => [g, g]), state.by, (v) => { state.by = v; draw(); }),
    peak, make("button", { onclick: () => { range = [0, data.duration]; draw(); } }, "whole time")), chart, list);
  draw();
  showLive(state.time || state.peakHere || 0);
  redraw = draw;
}

// ---- address space ----
function spaceView(main) {
  const withAddress = new Set(["block", "pool", "pinned", "managed", "reserved", "mapped", "registered"]);
  state.process ??= data.blocks.n ? data.blocks.process[0] : 0;
  const test = (i) => withAddress.has(kindName(i)) && data.blocks.process[i] === Number(state.process);
  let rows = [];
  const figures = make("p", { id: "space-figures" });
  const update = () => {
    rows = spaceAt(data.blocks, test, state.time, 64 * 1048576);
    let reserved = 0, mapped = 0, other = 0;
    for (const row of rows) for (const i of row.items) {
      if (kindName(i) === "reserved") reserved += data.blocks.size[i];
      else if (kindName(i) === "mapped") mapped += data.blocks.size[i];
      else other += data.blocks.size[i];
    }
    figures.textContent = `reserved ${bytesText(reserved)}, mapped ${bytesText(mapped)}, holes ${bytesText(Math.max(0, reserved - mapped))}, blocks ${bytesText(other)}`;
    Object.assign(figures.dataset, { reserved, mapped, other });
    paint();
  };
  main.append(slider(() => update()),
    make("div", { className: "bar" }, choose("process", data.processes.map((p, k) => [k, p.pid]), state.process, (v) => { state.process = Number(v); update(); })),
    figures);
  const draw = (context, r, y, width, hits) => {
    const row = rows[r], left = 130, scale = (width - left - 10) / (row.end - row.start || 1);
    context.fillStyle = cssColour("--soft");
    context.fillText("0x" + row.start.toString(16), 4, y + 17);
    for (const i of row.items) {
      const b = data.blocks, address = b.high[i] * 4294967296 + b.low[i];
      const x = left + (address - row.start) * scale, w = Math.max(1, b.size[i] * scale), isReserved = kindName(i) === "reserved";
      context.fillStyle = isReserved ? cssColour("--panel") : kindName(i) === "mapped" ? colour(b.of[i] < 0 ? 0 : b.of[i]) : colour(b.where[i]);
      context.fillRect(x, isReserved ? y + 2 : y + 5, w, isReserved ? 22 : 16);
      if (isReserved) { context.strokeStyle = cssColour("--line"); context.strokeRect(x, y + 2, w, 22); }
      hits.push({ x, y, w, h: 26, i });
    }
  };
  let paint = () => {};
  paint = rowsCanvas(main, 28, () => rows.length, draw, (h) => lifeText(h.i) + (data.blocks.of[h.i] >= 0 ? "\nof " + hex(data.blocks, data.blocks.of[h.i]) : ""));
  update();
  redraw = update;
}

// ---- life lines ----
function livesView(main) {
  const kinds = new Set(["block", "pool", "pinned", "managed", "registered", "physical", "imported", "reserved", "stream", "event"]);
  const list = [], mappings = new Map(), b = data.blocks;
  for (let i = 0; i < b.n; i++) {
    if (kinds.has(kindName(i))) list.push(i);
    if (kindName(i) === "mapped" && b.of[i] >= 0) mappings.set(b.of[i], [...(mappings.get(b.of[i]) || []), i]);
  }
  const outlived = list.filter((i) => b.released[i] && b.freed[i] !== b.released[i]);
  main.append(make("p", { id: "lives-figures" },
    `${list.length} objects; ${list.filter((i) => !b.freed[i]).length} never freed; ${outlived.length} whose memory outlived its handle`));
  const left = 230;
  const draw = (context, r, y, width, hits) => {
    const i = list[r], scale = (width - left - 10) / (data.duration || 1), end = b.freed[i] || data.duration;
    context.fillStyle = cssColour("--soft");
    context.fillText(`${kindName(i)} ${hex(b, i)}`, 4, y + 15);
    context.fillStyle = b.freed[i] ? cssColour("--accent") : cssColour("--mark");
    context.fillRect(left + b.made[i] * scale, y + 9, Math.max(1, ((b.released[i] || end) - b.made[i]) * scale), 3);
    if (b.released[i] && end > b.released[i]) {
      context.fillStyle = cssColour("--mark");
      for (let x = left + b.released[i] * scale; x < left + end * scale; x += 6) context.fillRect(x, y + 9, 3, 3);
    }
    for (const m of mappings.get(i) || []) {
      context.fillStyle = colour(i);
      const x = left + b.made[m] * scale, w = Math.max(1, ((b.freed[m] || data.duration) - b.made[m]) * scale);
      context.fillRect(x, y + 5, w, 11);
      hits.push({ x, y: y + 3, w, h: 15, i: m });
    }
    if (b.exported[i]) { context.fillStyle = cssColour("--fore"); context.fillText("⇗", left + b.exported[i] * scale - 4, y + 14); }
    hits.unshift({ x: 0, y, w: width, h: 20, i });
  };
  redraw = rowsCanvas(main, 20, () => list.length, draw,
    (h) => lifeText(h.i) + (b.exported[h.i] ? `\nexported at ${timeText(b.exported[h.i])}` : "") +
      (b.released[h.i] ? `\nits handle was freed at ${timeText(b.released[h.i])}` : ""));
}

// ---- streams ----
function streamsView(main) {
  const c = data.copies, m = data.marks;
  const streams = data.streams;
  let from = 0, to = data.duration;
  const left = 120;
  const byStream = streams.map(() => []);
  for (let i = 0; i < c.n; i++) if (byStream[c.stream[i]]) byStream[c.stream[i]].push(i);
  const kinds = ["host to host", "host to device", "device to host", "device to device"];
  main.append(make("p", { id: "streams-note" }, data.hasTasks ? "Copies as they ran: those that a call did itself, at the time of the call. Waits for events are arrows. Drag to move, scroll to zoom." : "Calls that queued work; waits for events are arrows. Drag to move, scroll to zoom."));
  const draw = (context, r, y, width, hits) => {
    const scale = (width - left - 10) / (to - from || 1), X = (t) => left + (t - from) * scale;
    context.fillStyle = cssColour("--soft");
    context.fillText(streams[r].name, 4, y + 20);
    for (const i of byStream[r]) {
      const x = X(c.begin[i]), w = Math.max(1, (c.end[i] - c.begin[i]) * scale);
      if (x + w < left || x > width) continue;
      context.fillStyle = colour(c.kind[i] + 1);
      context.fillRect(Math.max(left, x), y + 8, w, 16);
      hits.push({ x, y, w, h: 30, i });
    }
    for (let k = 0; k < m.n; k++) {
      if (m.to[k] !== r || m.from[k] < 0) continue;
      const y0 = y + (m.from[k] - r) * 32 + 16, x0 = X(m.recorded[k]), x1 = X(m.waited[k]);
      context.strokeStyle = cssColour("--fore");
      context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y + 16); context.stroke();
      context.beginPath(); context.arc(x1, y + 16, 3, 0, 7); context.stroke();
    }
  };
  const paint = rowsCanvas(main, 32, () => streams.length, draw,
    (h) => `${kinds[c.kind[h.i]] || "copy"} of ${bytesText(c.bytes[h.i])}\n${timeText(c.end[h.i] - c.begin[h.i])}, at ${timeText(c.begin[h.i])}` +
      (c.end[h.i] > c.begin[h.i] ? `\n${bytesText((c.bytes[h.i] / (c.end[h.i] - c.begin[h.i])) * 1e9)}/s` : ""));
  const canvas = main.querySelector("canvas");
  vendor.select(canvas).call(vendor.zoom().scaleExtent([1, 1e6]).on("zoom", (event) => {
    const width = canvas.clientWidth - left, t = event.transform;
    from = Math.max(0, (-t.x / t.k / width) * data.duration);
    to = from + data.duration / t.k;
    paint();
  }));
  const rows = streams.map((s, r) => {
    const list = byStream[r], busy = list.reduce((sum, i) => sum + c.end[i] - c.begin[i], 0);
    return make("tr", {}, make("td", {}, s.name), make("td", { className: "number" }, String(list.length)),
      make("td", { className: "number" }, bytesText(list.reduce((sum, i) => sum + c.bytes[i], 0))),
      make("td", { className: "number" }, timeText(busy)), make("td", { className: "number" }, timeText(Math.max(0, data.duration - busy))));
  });
  main.append(make("table", { id: "streams" }, make("tr", {}, make("th", {}, "stream"), ...["copies", "bytes", "in copies", "idle"].map((t) => make("th", { className: "number" }, t))), ...rows));
  redraw = paint;
}

// ---- flame graph ----
function flameView(main) {
  const keys = { peak: "bytes at the peak", allocated: "bytes allocated", calls: "calls", ns: "time in calls" };
  state.flame ??= "peak";
  const holder = make("div", { id: "flame" });
  const details = make("p", { id: "flame-details" });
  let graph = null;
  const text = (n) => (state.flame === "calls" ? String(n) : state.flame === "ns" ? timeText(n) : bytesText(n));
  const draw = () => {
    holder.replaceChildren();
    const tree = flameTree(data.wheres, data.frames, state.flame);
    holder.dataset.total = tree.value;
    details.textContent = "all: " + text(tree.value);
    if (!tree.value) { graph = null; return; }
    graph = vendor.flamegraph().width(Math.max(260, main.clientWidth - 28)).cellHeight(18).minFrameSize(2).transitionDuration(0).inverted(true).sort(true)
      .label((d) => `${d.data.name}: ${text(d.data.value)}`)
      .onHover((d) => { details.textContent = `${d.data.name}: ${text(d.data.value)}`; });
    vendor.select(holder).datum(tree).call(graph);
  };
  main.append(make("div", { className: "bar" }, choose("of", Object.entries(keys), state.flame, (v) => { state.flame = v; draw(); }),
    make("input", { type: "search", placeholder: "search", id: "search", oninput: (event) => graph && (event.target.value ? graph.search(event.target.value) : graph.clear()) }),
    make("button", { onclick: () => graph && graph.resetZoom() }, "whole")), details, holder);
  draw();
  redraw = draw;
}

// ---- findings and totals ----
function findingsView(main) {
  if (!data.findings.length) main.append(make("p", {}, data.isChecked ? "No findings." : "The program was not checked; aclmem run --trace FILE --report PAGE checks it."));
  for (const f of data.findings)
    main.append(make("div", { className: "finding" }, make("b", {}, f.kind), make("div", {}, f.message),
      f.advice ? make("div", {}, "What to do: " + f.advice) : null,
      f.at !== undefined ? make("button", { "data-at": f.at, onclick: () => { state.time = f.at; show("memory"); } }, "at " + timeText(f.at)) : null,
      ...f.calls.map((call) => make("div", { className: "frames" }, `${call.what}: ${call.function}\n` +
        call.stack.map((s) => `    ${s.function}${s.file ? ` (${s.file}:${s.line})` : ""}`).join("\n")))));
}

function totalsView(main) {
  const t = data.totals;
  const card = (name, value, id) => make("div", { className: "card" }, make("b", { id: "total-" + id }, value), make("span", {}, name));
  main.append(make("div", { className: "cards" },
    card("peak", bytesText(t.peak), "peak"), card("live at the end", bytesText(t.live), "live"),
    card("allocated in all", bytesText(t.allocated), "allocated"), card("allocations", t.allocations.toLocaleString("en"), "allocations"),
    card("live of held at the peak", t.held ? ((100 * t.heldLive) / t.held).toFixed(1) + " %" : "not recorded", "fragmentation"),
    card("calls", t.calls.toLocaleString("en"), "calls"), card("calls that failed", t.errors.toLocaleString("en"), "errors"),
    card("time", timeText(data.duration), "time")));
  main.append(make("h2", {}, "Copies"), make("table", {}, make("tr", {}, make("th", {}, "direction"), ...["copies", "bytes", "time in calls", "bandwidth"].map((x) => make("th", { className: "number" }, x))),
    ...data.directions.map((d) => make("tr", {}, make("td", {}, d.name), make("td", { className: "number" }, String(d.n)),
      make("td", { className: "number" }, bytesText(d.bytes)), make("td", { className: "number" }, timeText(d.ns)),
      make("td", { className: "number" }, d.ns ? bytesText((d.bytes / d.ns) * 1e9) + "/s" : "")))));
  main.append(make("h2", {}, "Calls"), make("table", { id: "functions" }, make("tr", {}, make("th", {}, "function"), ...["calls", "failed", "time", "mean", "longest"].map((x) => make("th", { className: "number" }, x))),
    ...data.functions.map((f) => make("tr", {}, make("td", {}, f.name), make("td", { className: "number" }, f.calls.toLocaleString("en")),
      make("td", { className: "number" }, String(f.errors)), make("td", { className: "number" }, timeText(f.ns)),
      make("td", { className: "number" }, timeText(f.ns / f.calls)), make("td", { className: "number" }, timeText(f.longest))))));
  redraw = () => {};
}

// ---- a pool's snapshot ----
const poolKey = (by, key) => (by === "stream" ? (key === "0x0" ? "default stream" : "stream " + key) : by === "tag" ? "tag " + key : key);

function poolView(main) {
  const pool = data.pool, s = pool.stats;
  state.poolBy ??= "tag";
  const card = (name, value, id) => make("div", { className: "card" }, make("b", { id: "pool-" + id }, value), make("span", {}, name));
  main.append(make("p", {}, `A pool of device ${pool.device} at the moment of its snapshot. Pages have ${bytesText(pool.page)}.`),
    make("div", { className: "cards" }, card("live", bytesText(s.live), "live"), card("held", bytesText(s.held), "held"),
      card("live of held", s.held ? ((100 * s.live) / s.held).toFixed(1) + " %" : "", "share"),
      card("live of held, at their peaks", s.peak_held ? ((100 * s.peak_live) / s.peak_held).toFixed(1) + " %" : "", "peak"),
      card("idle", bytesText(s.idle), "idle"), card("lost at borders", bytesText(s.lost), "lost"), card("cached", bytesText(s.cached), "cached"),
      card("asleep", bytesText(s.asleep), "asleep"), card("exportable", bytesText(s.exportable), "exportable"),
      card("runs of blocks", String(s.runs), "runs"), card("pages created", String(s.creates), "creates"), card("pages moved", String(s.remaps), "remaps")));
  const table = make("table", { id: "pool-groups" });
  let places = new Map();
  const rows = poolRows(pool, 4 * pool.page);
  const fill = () => {
    const list = poolGroups(pool, state.poolBy), total = list.reduce((sum, g) => sum + g.bytes, 0);
    places = new Map(list.map((g, k) => [g.key, k]));
    table.replaceChildren(make("tr", {}, make("th", {}, state.poolBy), ...["blocks", "bytes", "share", "largest"].map((x) => make("th", { className: "number" }, x))),
      ...list.slice(0, 1000).map((g, k) => make("tr", {}, make("td", {}, make("span", { className: "swatch", style: "background:" + colour(k) }), poolKey(state.poolBy, g.key)),
        make("td", { className: "number" }, g.n.toLocaleString("en")), make("td", { className: "number" }, bytesText(g.bytes)),
        make("td", { className: "number" }, ((100 * g.bytes) / total).toFixed(1) + " %"), make("td", { className: "number" }, bytesText(g.largest)))));
    table.dataset.total = total;
  };
  fill();
  const bar = make("div", { className: "bar" }, choose("by", [["tag", "tag"], ["stream", "stream"], ["state", "state"]], state.poolBy, (v) => { state.poolBy = v; fill(); paint(); }));
  const strips = make("div", { id: "pool-rows" });
  main.append(make("h2", {}, "Blocks"), bar, strips, table);
  const draw = (context, r, y, width, hits) => {
    const row = rows[r], left = 130, scale = (width - left - 10) / (row.end - row.start || 1);
    context.fillStyle = cssColour("--soft");
    context.fillText("0x" + row.start.toString(16), 4, y + 17);
    for (const block of row.items) {
      const x = left + (block.address - row.start) * scale, w = Math.max(1, block.size * scale);
      context.fillStyle = block.state === "live" || block.state === "exportable" ? colour(places.get(block[state.poolBy])) : cssColour("--line");
      context.fillRect(x, y + 4, w, 18);
      hits.push({ x, y: y + 4, w, h: 18, block });
    }
  };
  const paint = rowsCanvas(strips, 26, () => rows.length, draw, (h) =>
    `0x${h.block.address.toString(16)}, ${bytesText(h.block.size)}\n${h.block.state}, ${poolKey("tag", h.block.tag)}, ${poolKey("stream", h.block.stream)}`);
  redraw = paint;
}

// ---- the frame around them ----
const views = { memory: memoryView, addresses: spaceView, lives: livesView, streams: streamsView, flame: flameView, findings: findingsView, totals: totalsView, pool: poolView };
function show(name) {
  state.view = name;
  const main = document.getElementById("main");
  main.replaceChildren();
  redraw = () => {};
  for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  views[name](main);
}

async function start() {
  const text = document.getElementById("data").textContent.trim();
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = decode(new Uint8Array(await new Response(stream).arrayBuffer()));
  document.getElementById("program").textContent = data.program;
  if (data.notice) { const notice = document.getElementById("notice"); notice.hidden = false; notice.textContent = data.notice; }
  for (const name of Object.keys(views).filter((view) => view !== "pool" || data.pool))
    document.getElementById("views").append(make("button", { "data-view": name, onclick: () => show(name) },
      name === "findings" && data.findings.length ? `findings (${data.findings.length})` : name));
  document.body.append(tip);
  state.time = data.peakAt;
  show(data.pool && data.totals.calls === 0 ? "pool" : "memory");
  document.documentElement.dataset.ready = "yes";
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("aclmem-theme", root.dataset.theme); } catch (error) {}
  redraw();
});
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => redraw(), 100); });
start().catch((error) => { document.getElementById("main").textContent = "The page cannot be shown: " + error.message; throw error; });

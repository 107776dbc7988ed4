// The other views: addresses, lives, streams, flame graph, findings, totals, two runs, a pool.
"use strict";

// ---- addresses ----
const slider = (onchange) => {
  const label = make("span", {}, timeText(state.t));
  const input = make("input", { type: "range", min: 0, max: 10000, id: "time", "aria-label": "time" });
  const set = (t) => { stateSet({ t }); input.value = (t / (data.duration || 1)) * 10000; label.textContent = timeText(t); onchange(); };
  input.addEventListener("input", () => { stateSet({ t: (input.value / 10000) * data.duration }); label.textContent = timeText(state.t); onchange(); });
  let playing = null;
  const play = button("▶ play", () => {
    if (playing) { cancelAnimationFrame(playing); playing = null; play.textContent = "▶ play"; return; }
    play.textContent = "❚❚ stop";
    let last = null;
    const from = state.t >= data.duration ? 0 : state.t;
    state.t = from;
    const step = (now) => { // the whole trace in ten seconds
      if (!input.isConnected) return;
      const t = Math.min(data.duration, state.t + (last === null ? 0 : ((now - last) / 10000) * data.duration));
      last = now;
      set(t);
      if (t < data.duration) playing = requestAnimationFrame(step);
      else { playing = null; play.textContent = "▶ play"; }
    };
    playing = requestAnimationFrame(step);
  }, { id: "play" });
  input.value = (state.t / (data.duration || 1)) * 10000;
  return make("div", { className: "bar" }, make("label", {}, "time "), input, label, play, button("peak", () => set(data.peakAt)));
};

function detailsPanel(main) {
  const panel = make("div", { className: "panel", id: "details" });
  const fill = () => panel.replaceChildren(state.block >= 0 && state.block < data.blocks.n ? blockDetails(state.block) : make("p", {}, "A click on a bar shows its life and its stacks."));
  main.append(panel);
  fill();
  return fill;
}

function spaceView(main) {
  const withAddress = new Set(["block", "pool", "pinned", "managed", "reserved", "mapped", "registered"]), b = data.blocks;
  state.process ??= b.n ? b.process[0] : 0;
  const test = (i) => withAddress.has(kindName(i)) && b.process[i] === state.process;
  let rows = [];
  const figures = make("p", { id: "space-figures" });
  const update = () => {
    rows = spaceAt(b, test, state.t, 64 * 1048576);
    for (const row of rows) { // memory in a large reservation: the part that has some
      const used = row.items.filter((i) => kindName(i) !== "reserved");
      [row.from, row.to] = [row.start, row.end];
      if (state.fit === "no" || !used.length) continue;
      const low = Math.min(...used.map(addressOf)), high = Math.max(...used.map((i) => addressOf(i) + b.size[i])), margin = (high - low) * 0.02;
      if ((row.end - row.start) > 2 * (high - low)) [row.from, row.to] = [Math.max(row.start, low - margin), Math.min(row.end, high + margin)];
    }
    let reserved = 0, mapped = 0, other = 0;
    const memory = new Map();
    for (const row of rows) for (const i of row.items) {
      if (kindName(i) === "reserved") reserved += b.size[i];
      else if (kindName(i) === "mapped") { mapped += b.size[i]; memory.set(b.of[i], (memory.get(b.of[i]) || 0) + 1); } else other += b.size[i];
    }
    const aliases = [...memory.values()].filter((n) => n > 1).length;
    figures.textContent = `reserved ${bytesText(reserved)}, mapped ${bytesText(mapped)}, holes ${bytesText(Math.max(0, reserved - mapped))}, blocks ${bytesText(other)}, ${aliases} mapped more than once`;
    Object.assign(figures.dataset, { reserved, mapped, other, aliases });
    canvas.invalidate();
  };
  main.append(slider(() => update()),
    make("div", { className: "bar" }, choose("process", data.processes.map((p, k) => [k, p.pid]).filter(([k, pid]) => pid || k === state.process), state.process, (v) => { stateSet({ process: Number(v) }); update(); }),
      choose("show", [["", "the parts with memory"], ["no", "whole reservations"]], state.fit || "", (v) => { stateSet({ fit: v }); update(); }),
      make("span", { className: "hint" }, "memory that is mapped at several addresses has one colour; hatched: reserved and not mapped")), figures);
  const draw = (context, r, y, width, hits) => {
    const row = rows[r], left = 150, scale = (width - left - 10) / (row.to - row.from || 1);
    context.fillStyle = cssColour("--soft");
    const round = 2 ** Math.floor(Math.log2((row.to - row.from) / 100 || 1)); // of a label: a hundredth of the strip
    context.fillText("0x" + (Math.floor(row.from / round) * round).toString(16), 4, y + 17);
    if (row.to - row.from < row.end - row.start) context.fillText(`of ${bytesText(row.end - row.start)}`, 4, y + 31);
    for (const i of row.items) {
      const begin = left + (addressOf(i) - row.from) * scale, x = Math.max(left, begin), w = Math.max(1, Math.min(width - 10, begin + b.size[i] * scale) - x), isReserved = kindName(i) === "reserved";
      if (isReserved) {
        context.fillStyle = cssColour("--panel");
        context.fillRect(x, y + 2, w, stripHeight - 6);
        context.strokeStyle = cssColour("--line");
        context.save();
        context.beginPath(); context.rect(x, y + 2, w, stripHeight - 6); context.clip();
        context.beginPath();
        for (let h = x - stripHeight; h < x + w; h += 8) { context.moveTo(h, y + stripHeight); context.lineTo(h + stripHeight, y); }
        context.stroke();
        context.restore();
        context.strokeRect(x, y + 2, w, stripHeight - 6);
      } else {
        context.fillStyle = i === state.block ? cssColour("--mark") : kindName(i) === "mapped" ? colour(b.of[i] < 0 ? 0 : b.of[i]) : colour(b.where[i]);
        context.fillRect(x, y + 6, w, stripHeight - 14);
      }
      hits.push({ x, y, w, h: stripHeight - 2, i });
    }
  };
  let stripHeight = 52; // of a strip: few of them use the room
  const canvas = rowsCanvas(main, (room) => (stripHeight = Math.max(52, Math.min(150, Math.floor((room - 8) / Math.max(1, rows.length))))), () => rows.length, draw, {
    hover: (h) => lifeText(h.i) + (b.of[h.i] >= 0 ? "\nof " + hex(b, b.of[h.i]) : ""),
    click: (h) => { stateSet({ block: h.i }); canvas.invalidate(); details(); },
  });
  canvas.addEventListener("pointermove", canvas.hover);
  canvas.addEventListener("pointerleave", (event) => tipShow(event, ""));
  canvas.addEventListener("click", canvas.pick);
  const details = detailsPanel(main);
  update();
  redraw = () => { update(); canvas.paint(); details(); };
}

// ---- lives ----
function livesView(main) {
  const b = data.blocks, all = [], mappings = new Map(), left = LEFT + 150;
  for (let i = 0; i < b.n; i++) {
    if (kindName(i) !== "mapped") { all.push(i); continue; }
    if (b.of[i] < 0) continue;
    if (!mappings.has(b.of[i])) mappings.set(b.of[i], []);
    mappings.get(b.of[i]).push(i);
  }
  const kinds = [...new Set(all.map(kindName))];
  const orders = { made: (x, y) => b.made[x] - b.made[y], size: (x, y) => b.size[y] - b.size[x], "life": (x, y) => life(y) - life(x) };
  const life = (i) => (b.freed[i] || Infinity) - b.made[i];
  let list = [];
  const figures = make("p", { id: "lives-figures" });
  const choose_ = () => {
    list = all.filter((i) => !state.kinds || (state.kinds === "never freed" ? !b.freed[i] : kindName(i) === state.kinds));
    if (state.order && state.order !== "made") list.sort(orders[state.order]);
    const outlived = list.filter((i) => b.released[i] && b.freed[i] !== b.released[i]);
    figures.textContent = `${list.length} objects; ${list.filter((i) => !b.freed[i]).length} never freed; ${outlived.length} whose memory outlived its handle`;
  };
  main.append(make("div", { className: "bar" },
    choose("show", [["", "all kinds"], ["never freed", "never freed"], ...kinds.map((k) => [k, k])], state.kinds || "", (v) => { stateSet({ kinds: v }); choose_(); canvas.invalidate(); }, "kinds"),
    choose("by", Object.keys(orders).map((k) => [k, k]), state.order || "made", (v) => { stateSet({ order: v }); choose_(); canvas.invalidate(); }),
    button("whole time", () => { stateSet(wholeRange()); canvas.invalidate(); }), figures));
  choose_();
  const X = (t, width) => left + Math.max(0, Math.min(1, (t - state.from) / (state.to - state.from || 1))) * (width - left - RIGHT);
  const draw = (context, r, y, width, hits) => {
    const i = list[r], end = b.freed[i] || data.duration, from = X(b.made[i], width);
    context.fillStyle = i === state.block ? cssColour("--mark") : cssColour("--soft");
    const name = hex(b, i);
    context.fillText(`${kindName(i)} ${name.length > 14 ? "…" + name.slice(-8) : name}`, 4, y + 15);
    context.textAlign = "right";
    context.fillText(b.size[i] ? bytesText(b.size[i]) : "", left - 8, y + 15);
    context.textAlign = "left";
    hits.push({ x: 0, y, w: width, h: 20, i });
    if (b.made[i] > state.to || end < state.from) return;
    context.fillStyle = b.freed[i] ? cssColour("--accent") : cssColour("--mark");
    context.fillRect(from, y + 8, Math.max(2, X(b.released[i] || end, width) - from), 5);
    if (b.released[i] && end > b.released[i]) {
      context.fillStyle = cssColour("--mark");
      for (let x = X(b.released[i], width); x < X(end, width); x += 6) context.fillRect(x, y + 9, 3, 3);
    }
    for (const m of mappings.get(i) || []) {
      const x = X(b.made[m], width), w = Math.max(1, X(b.freed[m] || data.duration, width) - x);
      context.fillStyle = colour(i);
      context.fillRect(x, y + 4, w, 13);
      hits.push({ x, y: y + 3, w, h: 15, i: m });
    }
    context.fillStyle = cssColour("--fore");
    if (b.exported[i]) context.fillText("⇗", X(b.exported[i], width) - 4, y + 14);
    if (kindName(i) === "imported") context.fillText("⇙", from - 4, y + 14);
  };
  const canvas = rowsCanvas(main, 20, () => list.length, draw, {
    hover: (h) => lifeText(h.i) + (b.exported[h.i] ? `\nexported at ${timeText(b.exported[h.i])}` : "") +
      (b.released[h.i] ? `\nits handle was freed at ${timeText(b.released[h.i])}` : ""),
    click: (h) => { stateSet({ block: h.i }); canvas.invalidate(); details(); },
    head: 22,
    drawHead: (context, width) => timeAxis(context, width, 4, 0, left),
  });
  timeMouse(canvas, { onrange: canvas.invalidate, onhover: canvas.hover, onclick: canvas.pick, left });
  const details = detailsPanel(main);
  redraw = () => { canvas.paint(); details(); };
}

// ---- streams ----
const hasWork = () => data.copies.n + data.tasks.n > 0;
const COPY_KINDS = ["host to host", "host to device", "device to host", "device to device"];

function streamsView(main) {
  const c = data.copies, m = data.marks, k = data.tasks, runs = data.runs, streams = data.streams;
  // Work of each stream in the order of its begin: copies by index, other tasks behind them.
  const rows = cached(cache.layers, "streams", () => {
    const lists = streams.map(() => []);
    for (let i = 0; i < c.n; i++) if (lists[c.stream[i]]) lists[c.stream[i]].push(i);
    for (let i = 0; i < k.n; i++) if (lists[k.stream[i]]) lists[k.stream[i]].push(c.n + i);
    const begin = (i) => (i < c.n ? c.begin[i] : k.begin[i - c.n]), end = (i) => (i < c.n ? c.end[i] : k.end[i - c.n]);
    // Tasks of replays, in the streams that were captured: a narrow line below the work.
    const inside = streams.map(() => []);
    for (let i = 0; i < runs.n; i++) inside[data.nodes.stream[runs.node[i]]].push(i);
    return lists.map((list, r) => {
      list.sort((x, y) => begin(x) - begin(y));
      let busy = 0, until = 0;
      for (const i of list) { busy += Math.max(0, end(i) - Math.max(begin(i), until)); until = Math.max(until, end(i)); }
      inside[r].sort((x, y) => runs.begin[x] - runs.begin[y]);
      return { list, inside: { list: inside[r], begins: Float64Array.from(inside[r], (i) => runs.begin[i]), longest: inside[r].reduce((most, i) => Math.max(most, runTime(i)), 0) }, begins: Float64Array.from(list, begin), ends: Float64Array.from(list, end), busy,
        longest: list.reduce((most, i) => Math.max(most, end(i) - begin(i)), 0), bytes: list.reduce((sum, i) => sum + (i < c.n ? c.bytes[i] : 0), 0) };
    });
  });
  const nameOf = (i) => (i >= c.n ? data.names[k.name[i - c.n]] : c.model[i] >= 0 ? modelName(c.model[i]) : copyName(c.kind[i], data.names[c.name[i]]));
  const colourOf = (i) => (i >= c.n ? colour(40 + k.name[i - c.n]) : c.model[i] >= 0 ? colour(60 + c.model[i]) : colour(c.kind[i] + 1));
  const HEIGHT = 34;
  main.append(make("p", { id: "streams-note", className: "hint" }, (data.hasTasks ? "Work as it ran; copies that a call did itself, at the time of the call." : "Calls that queued work.") +
    (runs.n ? " The narrow boxes are tasks of replays." : "") + " Arrows are waits for events. Drag moves, ctrl + wheel zooms, the wheel scrolls, a click shows the call."));
  const draw = (context, r, y, width, hits) => {
    const row = rows[r];
    context.fillStyle = cssColour("--soft");
    context.fillText(r ? "stream " + r : "no stream", 4, y + 20);
    let drawn = -1;
    for (let j = lowerBound(row.begins, state.from - row.longest); j < row.list.length && row.begins[j] <= state.to; j++) {
      if (row.ends[j] < state.from) continue;
      const x = Math.max(LEFT, timeX(row.begins[j], width)), end = Math.min(width - RIGHT, timeX(row.ends[j], width)), w = Math.max(1, end - x), i = row.list[j];
      if (x + w <= drawn) continue; // another one has this pixel
      drawn = w <= 1 ? x + 1 : drawn;
      context.fillStyle = colourOf(i);
      context.fillRect(x, y + 6, w, 22);
      if (w > 46) textClip(context, nameOf(i) + (i < c.n ? " " + bytesText(c.bytes[i]) : ""), x + 3, y + 21, w - 3);
      hits.push({ x, y, w, h: HEIGHT, i, begin: row.begins[j], end: row.ends[j] });
    }
    const { list, begins, longest } = row.inside;
    drawn = -1;
    for (let j = lowerBound(begins, state.from - longest); j < list.length && begins[j] <= state.to; j++) {
      const run = list[j], end = runs.end[run], node = runs.node[run];
      if (end < state.from) continue;
      const x = Math.max(LEFT, timeX(begins[j], width)), w = Math.max(1, Math.min(width - RIGHT, timeX(end, width)) - x);
      if (x + w <= drawn) continue;
      drawn = w <= 1 ? x + 1 : drawn;
      context.fillStyle = isMark(data.names[data.nodes.name[node]]) ? cssColour("--soft") : data.nodes.kind[node] === 255 ? colour(40 + data.nodes.name[node]) : colour(data.nodes.kind[node] + 1);
      context.fillRect(x, y + 24, w, 8);
      if (w > 3) hits.push({ x, y: y + 24, w, h: 8, run, begin: begins[j], end });
    }
  };
  const arrows = (context, width, first) => {
    context.strokeStyle = context.fillStyle = cssColour("--fore");
    for (let i = 0; i < m.n; i++) {
      if (m.waited[i] < state.from || m.recorded[i] > state.to || m.from[i] < 0) continue;
      const y0 = first + m.from[i] * HEIGHT + 17, y1 = first + m.to[i] * HEIGHT + 17, x0 = timeX(m.recorded[i], width), x1 = timeX(m.waited[i], width);
      context.beginPath(); context.moveTo(x0, y0); context.lineTo(x1, y1); context.stroke();
      const angle = Math.atan2(y1 - y0, x1 - x0);
      context.beginPath(); context.moveTo(x1, y1);
      context.lineTo(x1 - 7 * Math.cos(angle - 0.4), y1 - 7 * Math.sin(angle - 0.4));
      context.lineTo(x1 - 7 * Math.cos(angle + 0.4), y1 - 7 * Math.sin(angle + 0.4)); context.fill();
    }
  };
  const call = make("div", { id: "call" });
  let firstY = 22; // of the first row, which may be scrolled away
  const canvas = rowsCanvas(main, HEIGHT, () => streams.length, (context, r, y, width, hits) => {
    firstY = y - r * HEIGHT;
    draw(context, r, y, width, hits);
  }, {
    head: 22,
    drawHead: (context, width) => { arrows(context, width, firstY); timeAxis(context, width, 4, 0); },
    hover: (h) => h.run !== undefined ? `${nodeName(runs.node[h.run])}, a task of ${modelName(data.nodes.model[runs.node[h.run]])}\n${timeText(h.end - h.begin)}, at ${timeText(h.begin)}` : `${nameOf(h.i)}${h.i < c.n ? " of " + bytesText(c.bytes[h.i]) : ""}\n${timeText(h.end - h.begin)}, at ${timeText(h.begin)}` +
      (h.i < c.n && h.end > h.begin ? `\n${bytesText((c.bytes[h.i] / (h.end - h.begin)) * 1e9)}/s` : ""),
    click: (h) => {
      stateSet({ t: h.begin });
      if (h.run !== undefined) { call.replaceChildren(nodeDetails(runs.node[h.run])); return; }
      call.replaceChildren(make("h2", {}, `${nameOf(h.i)} at ${timeText(h.begin)}, ${timeText(h.end - h.begin)}`),
        button("memory at that moment", () => { stateSet({ panel: "live" }); show("memory"); }),
        h.i < c.n && c.model[h.i] >= 0 ? button(`tasks of ${modelName(c.model[h.i])}`, () => { stateSet({ model: c.model[h.i], node: -1 }); show("models"); }) : "",
        ...(h.i < c.n ? [make("h3", {}, `called by (${data.names[c.name[h.i]]})`), framesNode(c.where[h.i])] : []), ...(h.i < c.n && c.model[h.i] >= 0 ? replayTable(h.i) : []));
    },
  });
  timeMouse(canvas, { onrange: canvas.invalidate, onhover: canvas.hover, onclick: canvas.pick });
  const panel = make("div", { className: "panel" }, call,
    table([{ title: "stream", value: (r) => (r ? `stream ${r}, ${streams[r].name}` : streams[r].name) }, number("work", (r) => rows[r].list.length), number("replays", (r) => rows[r].list.filter((i) => i < c.n && c.model[i] >= 0).length), bytesColumn("bytes copied", (r) => rows[r].bytes),
      timeColumn("busy", (r) => rows[r].busy), timeColumn("idle", (r) => Math.max(0, data.duration - data.first - rows[r].busy))], streams.map((_, r) => r), { id: "streams" }));
  main.append(panel);
  redraw = canvas.paint;
}

// ---- flame graph ----
const FLAMES = { live: "bytes live at the moment", peak: "bytes at the peak", leaked: "bytes never freed", allocated: "bytes allocated", calls: "calls", ns: "time in calls" };

function flameView(main) {
  if (!FLAMES[state.flame]) state.flame = "peak";
  const holder = make("div", { id: "flame", className: "grow scroll" }), details = make("p", { id: "flame-details" });
  const threads = [...new Set(data.wheres.map((w) => w.thread))].filter((t) => t).sort((x, y) => x - y);
  let graph = null;
  const text = (n) => (state.flame === "calls" ? n.toLocaleString("en") : state.flame === "ns" ? timeText(n) : bytesText(n));
  const draw = () => {
    holder.replaceChildren();
    let value = (w) => data.wheres[w][state.flame];
    if (state.flame === "live") {
      const bytes = new Float64Array(data.wheres.length);
      for (let i = 0; i < data.blocks.n; i++) if (isMemory(i) && isLive(data.blocks, i, state.t)) bytes[data.blocks.where[i]] += data.blocks.size[i];
      value = (w) => bytes[w];
    }
    const chosen = Number(state.thread) || 0, hides = (f) => data.owners[f] !== OWNER.program && (state.folded !== "no" || data.owners[f] === OWNER.start);
    const tree = flameTree(data.wheres, data.frames, (w) => (!chosen || data.wheres[w].thread === chosen ? value(w) : 0), hides, (where) => data.names[where.name]);
    holder.dataset.total = tree.value;
    details.textContent = `${FLAMES[state.flame]}${state.flame === "live" ? " (" + timeText(state.t) + ")" : ""}: ${text(tree.value)}`;
    if (!tree.value) { graph = null; return; }
    graph = vendor.flamegraph().width(Math.max(260, holder.clientWidth - 4)).cellHeight(20).minFrameSize(2).transitionDuration(0).inverted(state.icicle !== "no").sort(true)
      .label((d) => `${d.data.name}: ${text(d.data.value)}`)
      .onHover((d) => { details.textContent = `${d.data.full}: ${text(d.data.value)}, ${((100 * d.data.value) / tree.value).toFixed(1)} %`; });
    vendor.select(holder).datum(tree).call(graph);
    graph.update(); // the library lets new frames grow for a quarter of a second
    if (state.search) graph.search(state.search);
  };
  main.append(make("div", { className: "bar" }, choose("of", Object.entries(FLAMES), state.flame, (v) => { stateSet({ flame: v }); draw(); }, "flame-of"),
    choose("thread", [["", "all"], ...threads.map((t) => [t, t])], state.thread || "", (v) => { stateSet({ thread: v }); draw(); }, "flame-thread"),
    choose("frames", [["", "of the program"], ["no", "of libraries too"]], state.folded || "", (v) => { stateSet({ folded: v }); draw(); }, "flame-frames"),
    choose("grows", [["", "down"], ["no", "up"]], state.icicle || "", (v) => { stateSet({ icicle: v }); draw(); }),
    button("whole", () => graph && graph.resetZoom())), details, holder);
  draw();
  redraw = draw;
  flameSearch = () => { if (graph && state.search) graph.search(state.search); else if (graph) graph.clear(); };
}
let flameSearch = () => {};

// ---- findings and totals ----
// The block that a finding names by an address, at the time of its call: the last one that was made, memory before handles.
function findingBlock(f) {
  const b = data.blocks, addresses = (f.message.match(/0x[0-9a-f]{4,}/g) || []).map((text) => parseInt(text, 16));
  let best = -1;
  if (!addresses.length) { // a leak: the first block that its call made
    for (let i = 0; f.at !== undefined && i < b.n && best < 0; i++) if (b.made[i] >= f.at && !b.freed[i]) best = i;
    return best;
  }
  const rank = (i) => (isMemory(i) ? 1e18 : b.size[i] ? 5e17 : 0) + b.made[i];
  for (let i = 0; i < b.n; i++) {
    const start = addressOf(i), end = start + Math.max(1, b.size[i]);
    if ((f.at === undefined || b.made[i] <= f.at + 1e6) && addresses.some((a) => a >= start && a < end) && (best < 0 || rank(i) > rank(best))) best = i;
  }
  return best;
}

const START = /^(libc\.so|_start|__libc_start_|clone|__clone|start_thread|call_init)/; // frames below main()

function findingsView(main) {
  const list = make("div", { className: "grow panel" });
  main.append(list);
  if (!data.findings.length) list.append(make("p", {}, data.isChecked ? "No findings." : "The program was not checked; aclmem run --trace FILE --report PAGE checks it."));
  data.findings.forEach((f, number_) => {
    const block = findingBlock(f);
    list.append(make("div", { className: "finding", id: "finding-" + number_ }, make("b", {}, f.kind), f.count > 1 ? ` reported ${f.count} times` : "", make("div", {}, f.message),
      f.advice ? make("div", {}, "What to do: " + f.advice) : null,
      make("div", { className: "bar" },
        f.at !== undefined ? button("at " + timeText(f.at), () => { stateSet({ t: f.at, panel: "live" }); show("memory"); }, { "data-at": f.at }) : null,
        f.at !== undefined && hasWork() ? button("streams", () => { rangeSet(f.at - data.duration * 0.02, data.duration * 0.04); show("streams"); }) : null,
        block >= 0 ? button("block", () => { stateSet({ block, panel: "block", device: data.blocks.device[block] }); show("memory"); }, { "data-block": block }) : null,
        block >= 0 ? button("address", () => { stateSet({ block, t: f.at ?? data.blocks.made[block], process: data.blocks.process[block] }); show("addresses"); }) : null),
      ...f.calls.map((call) => make("div", { className: "frames" }, `${call.what}: ${call.function}\n` +
        call.stack.filter((s) => !START.test(s.function)).map((s) => `    ${s.function}${s.file ? ` (${s.file}:${s.line})` : ""}`).join("\n")))));
  });
}

const cards = (prefix, list) => make("div", { className: "cards" }, ...list.map(([name, value, id]) =>
  make("div", { className: "card" }, make("b", { id: prefix + id }, value), make("span", {}, name))));
const count = (n) => n.toLocaleString("en");

function totalsView(main) {
  const t = data.totals, panel = make("div", { className: "grow panel" });
  main.append(panel);
  panel.append(cards("total-", [["peak", bytesText(t.peak), "peak"], ["live at the end", bytesText(t.live), "live"], ["allocated in all", bytesText(t.allocated), "allocated"],
    ["allocations", count(t.allocations), "allocations"], ["live of held at the peak", t.held ? ((100 * t.heldLive) / t.held).toFixed(1) + " %" : "not recorded", "fragmentation"],
    ["calls", count(t.calls), "calls"], ["calls that failed", count(t.errors), "errors"], ["time", timeText(data.duration), "time"]]));
  panel.append(make("h2", {}, "Copies"), table([{ title: "direction", value: (d) => d.name }, number("copies", (d) => d.n, (d) => count(d.n)), bytesColumn("bytes", (d) => d.bytes),
    timeColumn("time", (d) => d.ns), number("bandwidth", (d) => (d.ns ? d.bytes / d.ns : 0), (d) => (d.ns ? bytesText((d.bytes / d.ns) * 1e9) + "/s" : ""))], data.directions, { id: "directions" }));
  panel.append(make("h2", {}, "Calls"), table([{ title: "function", value: (f) => f.name }, number("calls", (f) => f.calls, (f) => count(f.calls)), number("failed", (f) => f.errors),
    timeColumn("time", (f) => f.ns), timeColumn("mean", (f) => f.ns / f.calls), timeColumn("longest", (f) => f.longest)], data.functions, { id: "functions", sort: "time" }));
}

// ---- two runs ----
function compareView(main) {
  const before = data.other, panel = make("div", { className: "grow panel" }), t = [before.totals, data.totals];
  const sign = (n, text) => (n > 0 ? "+" : n < 0 ? "−" : "±") + text(Math.abs(n));
  main.append(panel);
  panel.append(make("p", {}, `Before: ${before.program}. After: ${data.program}.`), cards("compare-", [["peak", "peak", bytesText], ["live at the end", "live", bytesText], ["allocated in all", "allocated", bytesText],
    ["allocations", "allocations", count], ["calls", "calls", count]].map(([name, key, text]) => [`${name}: ${text(t[0][key])} → ${text(t[1][key])}`, sign(t[1][key] - t[0][key], text), key])
    .concat([[`time: ${timeText(before.duration)} → ${timeText(data.duration)}`, sign(data.duration - before.duration, timeText), "time"]])));
  const pair = (key, title, text) => [number(title, (row) => row[key][1] - row[key][0], (row) => sign(row[key][1] - row[key][0], text)),
    number("before", (row) => row[key][0], (row) => text(row[key][0])), number("after", (row) => row[key][1], (row) => text(row[key][1]))];
  const keys = { peak: ["bytes at the peak", bytesText], leaked: ["bytes never freed", bytesText], allocated: ["bytes allocated", bytesText], calls: ["calls", count], ns: ["time in calls", timeText] };
  if (!keys[state.compare]) state.compare = "peak";
  const rows = compareStacks(before, data), holder = make("div");
  const fill = () => {
    const [title, text] = keys[state.compare];
    const list = rows.filter((row) => row[state.compare][0] !== row[state.compare][1]).sort((x, y) => Math.abs(y[state.compare][1] - y[state.compare][0]) - Math.abs(x[state.compare][1] - x[state.compare][0]));
    holder.replaceChildren(table([...pair(state.compare, title, text), { title: "stack", value: (row) => row.text, node: (row) => make("div", { className: "frames" }, row.text) }], list, { id: "compare" }));
  };
  panel.append(make("h2", {}, "By stack"), make("div", { className: "bar" }, choose("of", Object.entries(keys).map(([k, [n]]) => [k, n]), state.compare, (v) => { stateSet({ compare: v }); fill(); }, "compare-of")), holder);
  fill();
  const functions = new Map();
  for (const [side, run] of [[0, before], [1, data]]) for (const f of run.functions) {
    if (!functions.has(f.name)) functions.set(f.name, { name: f.name, calls: [0, 0], ns: [0, 0], errors: [0, 0] });
    for (const key of ["calls", "ns", "errors"]) functions.get(f.name)[key][side] = f[key];
  }
  panel.append(make("h2", {}, "By function"), table([{ title: "function", value: (f) => f.name }, ...pair("calls", "calls", count), ...pair("ns", "time", timeText)], [...functions.values()], { id: "compare-functions", sort: "time" }));
}

// ---- a pool's snapshot ----
const poolKey = (by, key) => (by === "stream" ? (key === "0x0" ? "default stream" : "stream " + key) : by === "tag" ? "tag " + key : key);

function poolView(main) {
  const pool = data.pool, s = pool.stats;
  state.poolBy ??= "tag";
  main.append(make("p", {}, `A pool of device ${pool.device} at the moment of its snapshot. Pages have ${bytesText(pool.page)}.`),
    cards("pool-", [["live", bytesText(s.live), "live"], ["held", bytesText(s.held), "held"], ["live of held", s.held ? ((100 * s.live) / s.held).toFixed(1) + " %" : "", "share"],
      ["live of held, at their peaks", s.peak_held ? ((100 * s.peak_live) / s.peak_held).toFixed(1) + " %" : "", "peak"], ["idle", bytesText(s.idle), "idle"],
      ["lost at borders", bytesText(s.lost), "lost"], ["cached", bytesText(s.cached), "cached"], ["asleep", bytesText(s.asleep), "asleep"], ["exportable", bytesText(s.exportable), "exportable"],
      ["runs of blocks", String(s.runs), "runs"], ["pages created", String(s.creates), "creates"], ["pages moved", String(s.remaps), "remaps"]]));
  let places = new Map();
  const rows = poolRows(pool, 4 * pool.page), holder = make("div", { className: "panel" });
  const fill = () => {
    const list = poolGroups(pool, state.poolBy), total = list.reduce((sum, g) => sum + g.bytes, 0);
    places = new Map(list.map((g, k) => [g.key, k]));
    holder.replaceChildren(table([{ title: state.poolBy, value: (g) => poolKey(state.poolBy, g.key),
      node: (g) => make("span", {}, make("span", { className: "swatch", style: "background:" + colour(places.get(g.key)) }), poolKey(state.poolBy, g.key)) },
    number("blocks", (g) => g.n, (g) => count(g.n)), bytesColumn("bytes", (g) => g.bytes), number("share", (g) => g.bytes / total, (g) => ((100 * g.bytes) / total).toFixed(1) + " %"),
    bytesColumn("largest", (g) => g.largest)], list, { id: "pool-groups" }));
    holder.querySelector("#pool-groups").dataset.total = total;
  };
  main.append(make("div", { className: "bar" }, choose("by", [["tag", "tag"], ["stream", "stream"], ["state", "state"]], state.poolBy, (v) => { stateSet({ poolBy: v }); fill(); canvas.invalidate(); }, "pool-by")));
  fill();
  const canvas = rowsCanvas(main, 26, () => rows.length, (context, r, y, width, hits) => {
    const row = rows[r], left = 130, scale = (width - left - 10) / (row.end - row.start || 1);
    context.fillStyle = cssColour("--soft");
    context.fillText("0x" + row.start.toString(16), 4, y + 17);
    for (const block of row.items) {
      const x = left + (block.address - row.start) * scale, w = Math.max(1, block.size * scale);
      context.fillStyle = block.state === "live" || block.state === "exportable" ? colour(places.get(block[state.poolBy])) : cssColour("--line");
      context.fillRect(x, y + 4, w, 18);
      hits.push({ x, y: y + 4, w, h: 18, block });
    }
  }, { hover: (h) => `0x${h.block.address.toString(16)}, ${bytesText(h.block.size)}\n${h.block.state}, ${poolKey("tag", h.block.tag)}, ${poolKey("stream", h.block.stream)}` });
  canvas.addEventListener("pointermove", canvas.hover);
  main.append(holder);
  redraw = canvas.paint;
}

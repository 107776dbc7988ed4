// Captured models: the tasks of a model as a graph, a row for each stream, and its replays.
"use strict";

const NODE = { WIDTH: 132, MARK: 44, HEIGHT: 44, INDENT: 60 }; // of a task, of a record or wait, of a row, before a branch

const isMark = (name) => /^aclrt(RecordEvent|StreamWaitEvent|ResetEvent)/.test(name);
const copyName = (kind, name) => COPY_KINDS[kind] || name.replace(/^aclrt/, "");
const CONDITIONS = ["if", "while", "switch"];
const branchName = (model) => (model.condition === 0 ? ["then", "else"][model.branch] : model.condition === 1 ? "body" : `case ${model.branch}`);
// The branches of conditional tasks: models by the task.
const branchesOf = (i) => cached(cache.layers, "branches", () => {
  const lists = new Map();
  data.models.forEach((model, m) => { if (model.parent >= 0) lists.set(model.parent, [...(lists.get(model.parent) || []), m]); });
  return lists;
}).get(i) || [];
const nodeName = (i) => (branchesOf(i).length ? CONDITIONS[data.models[branchesOf(i)[0]].condition] || "condition" : copyName(data.nodes.kind[i], data.names[data.nodes.name[i]]));
const tasksOf = (m) => cached(cache.layers, "counts", () => {
  const counts = new Float64Array(data.models.length);
  for (let i = 0; i < data.nodes.n; i++) counts[data.nodes.model[i]]++;
  return counts;
})[m];
const modelName = (m) => `model ${m + 1}`;
const graphOf = (m) => cached(cache.layers, "model " + m, () => modelGraph(data.nodes, m, (i) => (isMark(data.names[data.nodes.name[i]]) ? NODE.MARK : NODE.WIDTH), branchesOf, NODE.INDENT));

// Replays of each model: indices of copies.
const replaysOf = (m) => cached(cache.layers, "replays", () => {
  const lists = data.models.map(() => []);
  for (let i = 0; i < data.copies.n; i++) if (data.copies.model[i] >= 0) lists[data.copies.model[i]].push(i);
  return lists;
})[m];

// The times that the trace has of tasks in replays: indices of runs, by the task or by the replay.
const runsBy = (column) => cached(cache.layers, "runs " + column, () => {
  const lists = new Map(), keys = data.runs[column];
  for (let i = 0; i < data.runs.n; i++) if (keys[i] >= 0) { if (!lists.has(keys[i])) lists.set(keys[i], []); lists.get(keys[i]).push(i); }
  return lists;
});
const runTime = (i) => data.runs.end[i] - data.runs.begin[i];
function nodeTimes(i) {
  const times = (runsBy("node").get(i) || []).map(runTime).sort((x, y) => x - y);
  return times.length ? `${timeText(times[times.length >> 1])} (median of ${count(times.length)}), ${timeText(times[times.length - 1])} at most` : "";
}
// The tasks of a replay in the order of time, in those of its branches too.
function replayTable(replay) {
  const r = data.runs, n = data.nodes, list = [...(runsBy("replay").get(replay) || [])].sort((x, y) => r.begin[x] - r.begin[y]);
  return list.length ? [make("h3", {}, "its tasks"), table([{ title: "task", value: (i) => nodeName(r.node[i]) }, timeColumn("after the begin", (i) => r.begin[i] - data.copies.begin[replay]),
    timeColumn("time", runTime), { title: "stream", value: (i) => "stream " + n.stream[r.node[i]] }, { title: "captured by", value: (i) => whereShort(n.where[r.node[i]]) }],
  list, { id: "replay-tasks", onclick: (i) => { stateSet({ model: n.model[r.node[i]], node: r.node[i] }); show("models"); } })] : [];
}

function nodeDetails(i) {
  const n = data.nodes, name = data.names[n.name[i]], times = nodeTimes(i);
  return make("div", { id: "node", "data-node": i }, make("h2", {}, `${name}${n.bytes[i] ? ", " + bytesText(n.bytes[i]) : ""}`),
    make("dl", {}, make("dt", {}, "stream"), make("dd", {}, "stream " + n.stream[i]), make("dt", {}, "captured"), make("dd", {}, timeText(n.time[i])),
      ...(times ? [make("dt", {}, "in replays"), make("dd", { id: "node-times" }, times)] : [])),
    n.from[i] >= 0 ? button("the record that it waits for", () => { stateSet({ node: n.from[i] }); redraw(); }) : null,
    branchesOf(i).length ? make("p", {}, `${nodeName(i)}: ` + branchesOf(i).map((m) => `${branchName(data.models[m])} with ${tasksOf(m)} tasks`).join(", ")) : null,
    make("h3", {}, "captured by"), framesNode(n.where[i]));
}

function modelsView(main) {
  const c = data.copies, n = data.nodes;
  if (!(state.model >= 0 && state.model < data.models.length)) state.model = 0;
  const m = state.model, model = data.models[m], graph = graphOf(m), replays = replaysOf(m), total = replays.reduce((sum, i) => sum + c.end[i] - c.begin[i], 0);
  const own = graph.nodes.filter((i) => n.model[i] === m), inBranches = graph.nodes.length - own.length;
  const copied = own.reduce((sum, i) => sum + (n.kind[i] !== 255 ? n.bytes[i] : 0), 0), edges = graph.nodes.filter((i) => n.from[i] >= 0).length;
  main.append(make("div", { className: "bar" },
    choose("model", data.models.map((other, k) => [k, `${k + 1}: ${other.failed ? "failed" : other.handle}`]).filter(([k]) => data.models[k].parent < 0 || k === m), m, (v) => { stateSet({ model: Number(v), node: -1 }); show("models"); }, "model"),
    button("its capture in the streams", () => { rangeSet(model.began, Math.max(1000, (model.captured || data.duration) - model.began)); show("streams"); }),
    make("span", { className: "hint" }, "a row for each stream; circles are records of events (filled) and waits for them" + (inBranches ? "; branches of conditional tasks are below" : ""))),
  cards("model-", [["tasks", count(own.length), "tasks"], ...(own.length < graph.nodes.length || graph.lanes.some((lane) => lane.model !== m) ? [["tasks in branches", count(inBranches), "branches"]] : []), ["streams", count(graph.lanes.filter((lane) => lane.nodes.length).length), "streams"], ["waits for events", count(edges), "edges"], [graph.lanes.some((lane) => lane.model !== m) ? "copied by a replay, without branches" : "copied by a replay", bytesText(copied), "bytes"],
    ["replays", count(replays.length), "replays"], ["mean time of a replay", replays.length ? timeText(total / replays.length) : "", "mean"],
    ["captured", model.failed ? "failed" : model.captured ? timeText(model.captured) : "not ended", "captured"], ["destroyed", model.destroyed ? timeText(model.destroyed) : "never", "destroyed"]]));
  const left = 86, X = (i, scroll) => left + graph.x[graph.place.get(i)] - scroll, wide = (i) => (isMark(data.names[n.name[i]]) ? NODE.MARK : NODE.WIDTH);
  const boxes = (context, r, y, width, hits, scroll) => {
    const lane = graph.lanes[r], middle = y + NODE.HEIGHT / 2;
    context.strokeStyle = cssColour("--line");
    context.beginPath(); context.moveTo(Math.max(left, left + lane.begin - scroll), middle);
    context.lineTo(Math.min(width, left + (lane.model === m ? graph.width : lane.end) - scroll), middle); context.stroke();
    if (lane.by !== undefined) { // the first row of a branch: its name, and a line from the conditional task
      const x = X(lane.by, scroll) + 8;
      context.beginPath(); context.moveTo(x, y - (r - graph.row.get(lane.by)) * NODE.HEIGHT + NODE.HEIGHT - 6); context.lineTo(x, middle); context.lineTo(left + lane.begin - scroll, middle); context.stroke();
      context.fillStyle = cssColour("--fore");
      context.fillText(branchName(data.models[lane.model]), x + 4, middle - 5);
    }
    // x grows along a lane, so the first box on the screen is found by halving.
    for (let k = lowerBound(lane.x, scroll - NODE.WIDTH); k < lane.nodes.length && left + lane.x[k] - scroll < width; k++) {
      const i = lane.nodes[k], x = X(i, scroll), w = wide(i) - 8, name = data.names[n.name[i]];
      if (isMark(name)) {
        context.strokeStyle = context.fillStyle = i === state.node ? cssColour("--mark") : cssColour("--fore");
        context.beginPath(); context.arc(x + w / 2, middle, 6, 0, 7); name.startsWith("aclrtRecord") ? context.fill() : context.stroke();
      } else {
        context.fillStyle = i === state.node ? cssColour("--mark") : n.kind[i] === 255 ? colour(40 + n.name[i]) : colour(n.kind[i] + 1);
        context.fillRect(x, y + 6, w, NODE.HEIGHT - 12);
        textClip(context, nodeName(i), x + 5, y + 20, w - 8);
        textClip(context, n.bytes[i] ? bytesText(n.bytes[i]) : "", x + 5, y + 33, w - 8);
      }
      hits.push({ x, y: y + 4, w, h: NODE.HEIGHT - 8, i });
    }
    context.fillStyle = cssColour("--back"); context.fillRect(0, y, left - 4, NODE.HEIGHT);
    context.fillStyle = cssColour("--soft");
    context.fillText(lane.nodes.length ? "stream " + lane.stream : "empty", 4, middle + 4);
  };
  const edgesDraw = (context, width, top, scroll) => {
    context.strokeStyle = cssColour("--soft");
    context.save(); context.beginPath(); context.rect(left - 4, 0, width, 1e5); context.clip();
    for (const i of graph.waits) {
      const x0 = X(n.from[i], scroll) + NODE.MARK / 2 - 4, x1 = X(i, scroll) + NODE.MARK / 2 - 4;
      if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > width) continue;
      const [y0, y1] = [n.from[i], i].map((k) => top + (graph.row.get(k) + 0.5) * NODE.HEIGHT);
      context.beginPath(); context.moveTo(x0, y0); context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1 + (y1 > y0 ? -7 : 7)); context.stroke();
    }
    context.restore();
  };
  const panel = make("div", { className: "panel" });
  const canvas = rowsCanvas(main, NODE.HEIGHT, () => graph.lanes.length, boxes, {
    wide: () => left + graph.width + 8,
    after: edgesDraw,
    hover: (h) => [data.names[n.name[h.i]], n.bytes[h.i] ? bytesText(n.bytes[h.i]) : "", nodeTimes(h.i), whereShort(n.where[h.i])].filter(Boolean).join("\n"),
    click: (h) => { stateSet({ node: h.i }); redraw(); },
  });
  canvas.addEventListener("pointermove", canvas.hover);
  canvas.addEventListener("pointerleave", (event) => tipShow(event, ""));
  canvas.addEventListener("click", canvas.pick);
  const fill = () => panel.replaceChildren(graph.place.has(state.node) ? nodeDetails(state.node) : "",
    make("h2", {}, "Replays"), table([timeColumn("begin", (i) => c.begin[i]), timeColumn("time", (i) => c.end[i] - c.begin[i]), bytesColumn("copied", (i) => c.bytes[i]),
      { title: "stream", value: (i) => (c.stream[i] ? "stream " + c.stream[i] : "no stream") }, { title: "called by", value: (i) => whereShort(c.where[i]) }],
    replays, { id: "replays", onclick: (i) => { const span = c.end[i] - c.begin[i]; stateSet({ t: c.begin[i] }); rangeSet(c.begin[i] - span, 3 * span); show("streams"); } }));
  main.append(panel);
  fill();
  redraw = () => { fill(); canvas.paint(); };
}

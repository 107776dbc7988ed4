// Data of the page: decoding, and questions about blocks.  Nothing here touches the document, so node can test it.
"use strict";

// Columns are zigzag varints of differences, or [name, number] for the same number in all rows; the container is a length, JSON, and
// the bytes of the columns.
function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let at = 4 + length;
  for (const table of ["blocks", "copies", "marks", "held", "tasks", "nodes", "runs"]) {
    const made = { n: data[table].n };
    for (const name of data[table].columns) {
      const column = new Float64Array(made.n);
      if (Array.isArray(name)) { made[name[0]] = name[1] ? column.fill(name[1]) : column; continue; }
      let last = 0;
      for (let i = 0; i < made.n; i++) {
        let byte = bytes[at++], value = byte & 127;
        if (byte < 128) { // most are small
          last += value & 1 ? -((value + 1) >> 1) : value >> 1;
        } else {
          for (let scale = 128; byte > 127; scale *= 128) {
            byte = bytes[at++];
            value += (byte & 127) * scale;
          }
          last += value % 2 ? -(value + 1) / 2 : value / 2;
        }
        column[i] = last;
      }
      made[name] = column;
    }
    data[table] = made;
  }
  return data;
}

const isLive = (blocks, i, t) => blocks.made[i] <= t && (blocks.freed[i] === 0 || blocks.freed[i] > t);

// ---- stacks ----
const OWNER = { program: 0, library: 1, interpreter: 2, start: 3 };

// For each where: the frames of the program, and the number of that stack; wheres with the same ones are one stack.
function stacksOf(wheres, owners) {
  const known = new Map(), stacks = [], ofWhere = new Int32Array(wheres.length);
  wheres.forEach((where, w) => {
    let frames = where.frames.filter((f) => owners[f] === OWNER.program);
    if (!frames.length) frames = where.frames.slice(0, 1);
    const key = frames.join();
    if (!known.has(key)) {
      known.set(key, stacks.length);
      stacks.push({ frames, where: w });
    }
    ofWhere[w] = known.get(key);
  });
  return { stacks, ofWhere };
}

// The name of a frame without folders: "evict (cache.c:31)".
const frameShort = (text) => text.replace(/\((?:[^()]*\/)?([^()/]*)\)$/, "($1)");
// A file's module as Python names it; "" for other frames.
const pythonModule = (text) => { const m = /\(([^()]*?)([^()/]*)\.py:\d+\)$/.exec(text); return m ? m[2] : ""; };

// ---- changes in the order of time ----
// Indices of `list` sorted by value: whole numbers from 0.  A radix sort, since a million blocks are sorted at once.
function sortedBy(list, value) {
  let from = list, to = new Uint32Array(list.length), largest = 0, isSorted = true;
  for (let k = 0; k < list.length; k++) {
    const v = value[list[k]];
    if (v < largest) isSorted = false; else largest = v;
  }
  if (isSorted) return list;
  for (let scale = 1; scale <= largest; scale *= 65536) {
    const count = new Uint32Array(65537);
    for (let k = 0; k < from.length; k++) count[Math.floor(value[from[k]] / scale) % 65536 + 1]++;
    for (let d = 0; d < 65536; d++) count[d + 1] += count[d];
    for (let k = 0; k < from.length; k++) to[count[Math.floor(value[from[k]] / scale) % 65536]++] = from[k];
    [from, to] = [to, from === list ? new Uint32Array(list.length) : from];
  }
  return from;
}

// Made and freed of blocks that pass the test, in the order of time; frees first at the same time.
function changesOf(blocks, test) {
  const made = new Uint32Array(blocks.n), freed = new Uint32Array(blocks.n);
  let nMade = 0, nFreed = 0;
  for (let i = 0; i < blocks.n; i++) {
    if (!test(i)) continue;
    made[nMade++] = i;
    if (blocks.freed[i] !== 0) freed[nFreed++] = i;
  }
  const byMade = sortedBy(made.subarray(0, nMade), blocks.made), byFreed = sortedBy(freed.subarray(0, nFreed), blocks.freed);
  const n = byMade.length + byFreed.length, block = new Uint32Array(n), isFree = new Uint8Array(n), time = new Float64Array(n);
  for (let k = 0, m = 0, f = 0; k < n; k++) {
    const free = f < byFreed.length && (m === byMade.length || blocks.freed[byFreed[f]] <= blocks.made[byMade[m]]);
    block[k] = free ? byFreed[f++] : byMade[m++];
    isFree[k] = free ? 1 : 0;
    time[k] = free ? blocks.freed[block[k]] : blocks.made[block[k]];
  }
  return { n, block, isFree, time };
}

// The first index whose value is not below `wanted`.
function lowerBound(values, wanted, n = values.length) {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

// Bytes of groups over time.  Every STEP changes it keeps the bytes before them and at their highest moment, so that a
// window of a million changes is drawn from a few thousand of these.
class Series {
  static STEP = 256;
  static EXACT = 40000; // a window of fewer changes is drawn change by change
  constructor(blocks, changes, groupOf, most) {
    this.changes = changes;
    const id = new Map(), ofBlock = new Int32Array(blocks.n);
    const keys = [];
    for (let k = 0; k < changes.n; k++) {
      const i = changes.block[k];
      if (changes.isFree[k]) continue;
      const key = groupOf(i);
      let number = id.get(key);
      if (number === undefined) { number = keys.length; id.set(key, number); keys.push(key); }
      ofBlock[i] = number;
    }
    const total = new Float64Array(keys.length), best = new Float64Array(keys.length);
    for (let k = 0; k < changes.n; k++) {
      const i = changes.block[k], g = ofBlock[i];
      total[g] += changes.isFree[k] ? -blocks.size[i] : blocks.size[i];
      if (total[g] > best[g]) best[g] = total[g];
    }
    const order = keys.map((_, g) => g).sort((a, b) => best[b] - best[a]);
    this.names = order.slice(0, most).map((g) => keys[g]);
    this.hasOther = order.length > most;
    this.n = this.names.length + (this.hasOther ? 1 : 0);
    const place = new Int32Array(keys.length).fill(most);
    order.slice(0, most).forEach((g, k) => { place[g] = k; });
    this.group = new Uint8Array(changes.n); // of each change
    this.size = new Float64Array(changes.n);
    for (let k = 0; k < changes.n; k++) {
      const i = changes.block[k];
      this.group[k] = place[ofBlock[i]];
      this.size[k] = changes.isFree[k] ? -blocks.size[i] : blocks.size[i];
    }
    this.pyramid();
  }

  pyramid() {
    const { changes, n } = this, steps = Math.ceil(changes.n / Series.STEP);
    this.before = new Float64Array(steps * n); // bytes before the changes of a step
    this.high = new Float64Array(steps * n); // at its highest moment
    this.highSum = new Float64Array(steps);
    this.highAt = new Float64Array(steps);
    const now = new Float64Array(n);
    let sum = 0;
    this.peak = 0;
    this.peakAt = 0;
    for (let s = 0; s < steps; s++) {
      this.before.set(now, s * n);
      this.highSum[s] = -1;
      for (let k = s * Series.STEP; k < Math.min(changes.n, (s + 1) * Series.STEP); k++) {
        now[this.group[k]] += this.size[k];
        sum += this.size[k];
        if (sum > this.highSum[s]) {
          this.highSum[s] = sum;
          this.highAt[s] = changes.time[k];
          this.high.set(now, s * n);
        }
        if (sum > this.peak) { this.peak = sum; this.peakAt = changes.time[k]; }
      }
    }
  }

  // The bytes of each group after the changes up to a time.
  at(t) {
    const { changes, n } = this, end = lowerBound(changes.time, t + 0.5), s = Math.min(Math.floor(end / Series.STEP), this.highAt.length - 1);
    const now = s >= 0 ? this.before.slice(s * n, (s + 1) * n) : new Float64Array(n);
    for (let k = Math.max(0, s) * Series.STEP; k < end; k++) now[this.group[k]] += this.size[k];
    return now;
  }

  // For each of `columns` parts of a window the bytes of each group at its highest moment, and the highest sum.
  window(from, to, columns) {
    const { changes, n } = this, width = (to - from) / columns || 1;
    const values = new Float64Array(columns * n), sums = new Float64Array(columns).fill(-1);
    const first = lowerBound(changes.time, from), last = lowerBound(changes.time, to);
    let now = this.at(from - 1), column = 0;
    const fill = (until) => { // no change in these columns: as before
      for (; column < until && column < columns; column++) {
        if (sums[column] < 0) { values.set(now, column * n); sums[column] = now.reduce((a, b) => a + b, 0); }
      }
    };
    const offer = (time, sum, source, at) => {
      const c = Math.min(columns - 1, Math.max(0, Math.floor((time - from) / width)));
      fill(c);
      column = c;
      if (sum > sums[c]) { sums[c] = sum; for (let g = 0; g < n; g++) values[c * n + g] = source[at + g]; }
    };
    this.examined = last - first > Series.EXACT ? Math.ceil((last - first) / Series.STEP) : last - first; // for tests: the work of a frame
    if (last - first > Series.EXACT) {
      for (let s = Math.floor(first / Series.STEP); s * Series.STEP < last; s++) {
        if (this.highAt[s] >= from && this.highAt[s] <= to) offer(this.highAt[s], this.highSum[s], this.high, s * n);
        if (s + 1 < this.highAt.length) now = this.before.subarray((s + 1) * n, (s + 2) * n);
      }
      now = this.at(to);
    } else {
      let sum = now.reduce((x, y) => x + y, 0);
      for (let k = first; k < last; k++) {
        const c = Math.min(columns - 1, Math.floor((changes.time[k] - from) / width));
        if (c > column || sums[column] < 0) { fill(c); column = c; if (sums[c] < 0) { values.set(now, c * n); sums[c] = sum; } }
        now[this.group[k]] += this.size[k];
        sum += this.size[k];
        if (sum > sums[c]) { sums[c] = sum; values.set(now, c * n); }
      }
    }
    fill(columns);
    return { values, sums, n };
  }
}

// Bytes that are held of a device at each of the times, which grow.
function heldAt(held, device, times) {
  const values = [];
  let now = 0, at = 0;
  for (const t of times) {
    for (; at < held.n && held.time[at] <= t; at++) if (held.device[at] === device) now = held.bytes[at];
    values.push(now);
  }
  return values;
}

// ---- questions ----
// Blocks that pass the test by stack, largest first; `size` is 0 for one that does not count.
function byStack(blocks, ofWhere, size) {
  const rows = new Map();
  let total = 0;
  for (let i = 0; i < blocks.n; i++) {
    const bytes = size(i);
    if (!bytes) continue;
    const key = ofWhere[blocks.where[i]];
    let row = rows.get(key);
    if (!row) rows.set(key, (row = { stack: key, where: blocks.where[i], bytes: 0, n: 0, largest: i }));
    row.bytes += bytes;
    row.n++;
    if (blocks.size[i] > blocks.size[row.largest]) row.largest = i;
    total += bytes;
  }
  return { total, rows: [...rows.values()].sort((a, b) => b.bytes - a.bytes) };
}
const liveAt = (blocks, ofWhere, test, t) => byStack(blocks, ofWhere, (i) => (isLive(blocks, i, t) && test(i) ? blocks.size[i] : 0));
const leaks = (blocks, ofWhere, test) => byStack(blocks, ofWhere, (i) => (blocks.freed[i] === 0 && test(i) ? blocks.size[i] : 0));
// Made and freed again between two times.
const temporaries = (blocks, ofWhere, test, a, b) =>
  byStack(blocks, ofWhere, (i) => (blocks.made[i] >= a && blocks.freed[i] !== 0 && blocks.freed[i] <= b && test(i) ? blocks.size[i] : 0));
// By stack: bytes at two times.
function difference(blocks, ofWhere, test, a, b) {
  const before = liveAt(blocks, ofWhere, test, a), after = liveAt(blocks, ofWhere, test, b), rows = new Map();
  for (const row of before.rows) rows.set(row.stack, { stack: row.stack, where: row.where, before: row.bytes, after: 0, largest: row.largest });
  for (const row of after.rows) {
    const known = rows.get(row.stack);
    if (known) known.after = row.bytes;
    else rows.set(row.stack, { stack: row.stack, where: row.where, before: 0, after: row.bytes, largest: row.largest });
  }
  const list = [...rows.values()].filter((row) => row.before !== row.after);
  return { before: before.total, after: after.total, rows: list.sort((x, y) => Math.abs(y.after - y.before) - Math.abs(x.after - x.before)) };
}

// The blocks of most bytes x time as layers over each other: of each the times at which its offset changes, and the offsets.  A free
// lets the layers above sink.
function layersOf(blocks, changes, most) {
  const chosen = [];
  for (let k = 0; k < changes.n; k++) if (!changes.isFree[k]) chosen.push(changes.block[k]);
  const last = changes.n ? changes.time[changes.n - 1] : 0, area = (i) => blocks.size[i] * ((blocks.freed[i] || last) - blocks.made[i]);
  chosen.sort((a, b) => area(b) - area(a));
  const isChosen = new Set(chosen.slice(0, most)), layers = new Map(), stack = [];
  let height = 0;
  for (let k = 0; k < changes.n; k++) {
    const i = changes.block[k];
    if (!isChosen.has(i)) continue;
    if (!changes.isFree[k]) {
      const layer = { i, times: [changes.time[k]], offsets: [height], end: blocks.freed[i] || Infinity };
      layers.set(i, layer);
      stack.push(layer);
      height += blocks.size[i];
      continue;
    }
    const at = stack.indexOf(layers.get(i));
    stack.splice(at, 1);
    height -= blocks.size[i];
    for (let s = at; s < stack.length; s++) {
      const layer = stack[s];
      layer.times.push(changes.time[k]);
      layer.offsets.push(layer.offsets[layer.offsets.length - 1] - blocks.size[i]);
    }
  }
  return [...layers.values()];
}

// Address ranges at a time, in rows of neighbours: a gap of more than `gap` bytes begins another row.
function spaceAt(blocks, test, t, gap) {
  const list = [];
  for (let i = 0; i < blocks.n; i++) if (test(i) && isLive(blocks, i, t)) list.push(i);
  const address = (i) => blocks.high[i] * 4294967296 + blocks.low[i];
  list.sort((a, b) => address(a) - address(b) || blocks.size[b] - blocks.size[a]);
  const rows = [];
  for (const i of list) {
    const start = address(i), end = start + blocks.size[i];
    let row = rows[rows.length - 1];
    if (!row || start > row.end + gap) rows.push((row = { start, end, items: [] }));
    row.end = Math.max(row.end, end);
    row.items.push(i);
  }
  return rows;
}

// A tree for the flame graph: children by frame, the outermost first.  value(w) is the weight of a where; frames that
// isHidden() names are left out.  leaf(w) is the function that the innermost frame calls.
function flameTree(wheres, frames, value, isHidden = () => false, leaf = () => undefined) {
  const root = { name: "all", full: "all", value: 0, children: new Map() };
  wheres.forEach((where, w) => {
    const weight = value(w);
    if (!weight) return;
    root.value += weight;
    let node = root;
    for (let i = where.frames.length - 1; i >= 0; i--) {
      const id = where.frames[i];
      if (isHidden(id)) continue;
      if (!node.children.has(id)) node.children.set(id, { name: frameShort(frames[id]), full: frames[id], value: 0, children: new Map() });
      node = node.children.get(id);
      node.value += weight;
    }
    const name = leaf(where);
    if (!name) return;
    if (!node.children.has(name)) node.children.set(name, { name, full: name, value: 0, children: new Map() });
    node.children.get(name).value += weight;
  });
  const plain = (node) => ({ name: node.name, full: node.full, value: node.value, children: [...node.children.values()].map(plain) });
  return plain(root);
}

// Two runs by stack, matched by the text of the program's frames: peak, leaked, allocated, calls, ns of both.
function compareStacks(before, after) {
  const rows = new Map(), keys = ["peak", "leaked", "allocated", "calls", "ns"];
  const add = (run, side) => {
    const { stacks, ofWhere } = stacksOf(run.wheres, run.owners);
    run.wheres.forEach((where, w) => {
      const text = stacks[ofWhere[w]].frames.map((f) => frameShort(run.frames[f]).replace(/:\d+\)$/, ")")).join("\n");
      let row = rows.get(text);
      if (!row) {
        rows.set(text, (row = { text }));
        for (const key of keys) row[key] = [0, 0];
      }
      for (const key of keys) row[key][side] += where[key];
    });
  };
  add(before, 0);
  add(after, 1);
  return [...rows.values()];
}

// Blocks of a pool's snapshot by tag, stream or state, largest first.
function poolGroups(pool, by) {
  const groups = new Map();
  for (const block of pool.blocks) {
    const group = groups.get(block[by]) || { key: block[by], n: 0, bytes: 0, largest: 0 };
    group.n++;
    group.bytes += block.size;
    group.largest = Math.max(group.largest, block.size);
    groups.set(block[by], group);
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}

// The same blocks in rows of neighbours: a gap of more than `gap` bytes begins another row.
function poolRows(pool, gap) {
  const rows = [];
  for (const block of [...pool.blocks].sort((a, b) => a.address - b.address)) {
    let row = rows[rows.length - 1];
    if (!row || block.address > row.end + gap) rows.push((row = { start: block.address, end: block.address, items: [] }));
    row.end = Math.max(row.end, block.address + block.size);
    row.items.push(block);
  }
  return rows;
}

// The tasks of a model: a lane for each stream, in the order in which they join.  A task is right of the task before it in its lane and
// of the record that it waits for; width(i) is its room.  The lanes of the models that branches(i) lists, the branches of a conditional
// task, are below those of the model and right of the task; `indent` is the room before them.
function modelGraph(nodes, model, width, branches = () => [], indent = 0) {
  const graph = { lanes: [], row: new Map(), nodes: [], place: new Map(), x: [], waits: [], width: 0 }, lanes = new Map(), below = [];
  const add = (row, i, at) => {
    graph.row.set(i, row);
    graph.place.set(i, graph.nodes.length);
    graph.nodes.push(i);
    graph.x.push(at);
  };
  for (let i = 0; i < nodes.n; i++) {
    if (nodes.model[i] !== model) continue;
    if (!lanes.has(nodes.stream[i])) { lanes.set(nodes.stream[i], graph.lanes.length); graph.lanes.push({ stream: nodes.stream[i], model, nodes: [], x: [], begin: 0, end: 0 }); }
    const row = lanes.get(nodes.stream[i]), lane = graph.lanes[row], from = graph.place.get(nodes.from[i]);
    const at = Math.max(lane.end, from === undefined ? 0 : graph.x[from] + width(nodes.from[i]));
    if (from !== undefined) graph.waits.push(i);
    add(row, i, at);
    lane.nodes.push(i);
    lane.x.push(at);
    lane.end = at + width(i);
    for (const branch of branches(i)) {
      const inner = modelGraph(nodes, branch, width, branches, indent);
      below.push({ inner, branch, by: i, at: at + indent });
      lane.end = Math.max(lane.end, at + indent + inner.width);
    }
    graph.width = Math.max(graph.width, lane.end);
  }
  for (const { inner, branch, by, at } of below) {
    const first = graph.lanes.length;
    if (!inner.lanes.length) inner.lanes.push({ stream: 0, model: branch, nodes: [], x: [], begin: 0, end: 0 }); // it is empty
    for (const lane of inner.lanes) graph.lanes.push({ ...lane, x: lane.x.map((x) => x + at), begin: lane.begin + at, end: lane.end + at });
    graph.lanes[first].by ??= by;
    inner.nodes.forEach((i, k) => add(first + inner.row.get(i), i, inner.x[k] + at));
    graph.waits.push(...inner.waits);
  }
  return graph;
}

// What a text of the search box names: blocks that an address lies in, and stacks with the text in one of their frames, largest first.
function searchAll(text, blocks, wheres, frames, most) {
  const found = { blocks: [], wheres: [] };
  if (/^0x[0-9a-f]{3,}$/i.test(text)) {
    const address = parseInt(text, 16);
    for (let i = blocks.n - 1; i >= 0 && found.blocks.length < most; i--) {
      const start = blocks.high[i] * 4294967296 + blocks.low[i];
      if (address >= start && address < start + Math.max(1, blocks.size[i])) found.blocks.push(i);
    }
  }
  const part = text.toLowerCase(), isNamed = frames.map((frame) => frame.toLowerCase().includes(part));
  wheres.forEach((where, w) => { if (where.frames.some((f) => isNamed[f])) found.wheres.push(w); });
  found.wheres.sort((x, y) => wheres[y].peak - wheres[x].peak || wheres[y].calls - wheres[x].calls);
  found.wheres.length = Math.min(most, found.wheres.length);
  return found;
}

// ---- texts ----
const round3 = (n) => (Math.abs(n) < 10 ? n.toFixed(2) : Math.abs(n) < 100 ? n.toFixed(1) : Math.round(n).toString());

function bytesText(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let u = 0;
  for (; Math.abs(n) >= 1024 && u < 4; u++) n /= 1024;
  return (u && Math.abs(n) < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[u];
}

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

let isCounted = false; // the trace has no clock: its times are numbers of events

function timeText(ns) {
  if (isCounted) return "event " + Math.round(ns / 1000).toLocaleString("en");
  const [scale, unit] = TIMES.find(([s]) => Math.abs(ns) >= s) || TIMES[3];
  return (scale === 1 ? Math.round(ns).toString() : round3(ns / scale)) + " " + unit;
}

// Labels of an axis: one unit for all, and enough digits to distinguish neighbours.
function axisTimes(values) {
  if (isCounted) return values.map((v) => Math.round(v / 1000).toLocaleString("en"));
  const largest = Math.max(...values.map(Math.abs), 1), step = values.length > 1 ? Math.abs(values[1] - values[0]) : largest;
  const [scale, unit] = TIMES.find(([s]) => largest >= s) || TIMES[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return values.map((v) => (v / scale).toFixed(Math.min(9, digits)) + " " + unit);
}

// The same for bytes: the largest is below 1024 of the unit.
function axisBytes(values) {
  const unit = bytesText(Math.max(...values, 1)).split(" ")[1], scale = 1024 ** ["B", "KB", "MB", "GB", "TB"].indexOf(unit);
  const digits = values.some((v) => (v / scale) % 1) ? (values.some((v) => ((10 * v) / scale) % 1) ? 2 : 1) : 0;
  return values.map((v) => (v ? (v / scale).toFixed(digits) + " " + unit : "0"));
}

if (typeof module !== "undefined")
  module.exports = { decode, stacksOf, frameShort, pythonModule, sortedBy, changesOf, Series, heldAt, liveAt, leaks, temporaries, difference,
    layersOf, spaceAt, flameTree, compareStacks, poolGroups, poolRows, modelGraph, searchAll, bytesText, timeText, axisTimes, axisBytes, isLive, lowerBound };

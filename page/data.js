// Data of the page: decoding, and questions about blocks.  Nothing here touches the document, so node can test it.
"use strict";

// Columns are zigzag varints of differences; the container is a length, JSON, and the columns' bytes.
function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let at = 4 + length;
  for (const table of ["blocks", "copies", "marks", "held"]) {
    const made = { n: data[table].n };
    for (const name of data[table].columns) {
      const column = new Float64Array(made.n);
      let last = 0;
      for (let i = 0; i < made.n; i++) {
        let value = 0, scale = 1, byte;
        do {
          byte = bytes[at++];
          value += (byte & 127) * scale;
          scale *= 128;
        } while (byte > 127);
        last += value % 2 ? -(value + 1) / 2 : value / 2;
        column[i] = last;
      }
      made[name] = column;
    }
    data[table] = made;
  }
  return data;
}

const isLive = (blocks, i, t) => blocks.made[i] <= t && (blocks.freed[i] === 0 || blocks.freed[i] > t);

// Made and freed of blocks that pass the test, in the order of time; frees first at the same time.
function changes(blocks, test) {
  const list = [];
  for (let i = 0; i < blocks.n; i++) {
    if (!test(i)) continue;
    list.push(i * 2);
    if (blocks.freed[i] !== 0) list.push(i * 2 + 1);
  }
  const time = (c) => (c & 1 ? blocks.freed[c >> 1] : blocks.made[c >> 1]);
  list.sort((a, b) => time(a) - time(b) || (b & 1) - (a & 1));
  return { list, time };
}

// The largest groups over the range, the others as one, each with its bytes at the highest moment of every bucket.
function stacked(blocks, test, groupOf, from, to, buckets, most) {
  const { list, time } = changes(blocks, test);
  const totals = new Map(), best = new Map();
  for (const c of list) {
    const group = groupOf(c >> 1), size = blocks.size[c >> 1];
    const now = (totals.get(group) || 0) + (c & 1 ? -size : size);
    totals.set(group, now);
    if (now > (best.get(group) || 0)) best.set(group, now);
  }
  const names = [...best.keys()].sort((a, b) => best.get(b) - best.get(a)).slice(0, most);
  const place = new Map(names.map((name, k) => [name, k]));
  const n = names.length + 1, width = (to - from) / buckets || 1;
  const times = [], values = Array.from({ length: n }, () => []);
  const now = new Float64Array(n);
  let sum = 0, at = 0, peak = 0, peakAt = from;
  const apply = (c) => {
    const k = place.has(groupOf(c >> 1)) ? place.get(groupOf(c >> 1)) : n - 1;
    const size = c & 1 ? -blocks.size[c >> 1] : blocks.size[c >> 1];
    now[k] += size;
    sum += size;
    if (sum > peak) { peak = sum; peakAt = time(c); }
  };
  while (at < list.length && time(list[at]) < from) apply(list[at++]);
  for (let b = 0; b < buckets; b++) {
    const end = b === buckets - 1 ? to : from + (b + 1) * width;
    let high = sum, highAt = from + b * width, kept = Float64Array.from(now);
    while (at < list.length && time(list[at]) <= end) {
      apply(list[at]);
      if (sum > high) { high = sum; highAt = time(list[at]); kept = Float64Array.from(now); }
      at++;
    }
    times.push(highAt);
    for (let k = 0; k < n; k++) values[k].push(kept[k]);
  }
  while (at < list.length) apply(list[at++]);
  return { times, names, values, peak, peakAt };
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

// The blocks that were live at a time, by place, largest first.
function liveAt(blocks, test, t) {
  const by = new Map();
  let total = 0;
  for (let i = 0; i < blocks.n; i++) {
    if (!test(i) || !isLive(blocks, i, t)) continue;
    const row = by.get(blocks.where[i]) || { where: blocks.where[i], bytes: 0, n: 0, largest: i };
    row.bytes += blocks.size[i];
    row.n++;
    if (blocks.size[i] > blocks.size[row.largest]) row.largest = i;
    by.set(row.where, row);
    total += blocks.size[i];
  }
  return { total, rows: [...by.values()].sort((a, b) => b.bytes - a.bytes) };
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

// A tree for the flame graph: children by frame, the outermost first.
function flameTree(wheres, frames, key) {
  const root = { name: "all", value: 0, children: new Map() };
  for (const where of wheres) {
    const value = where[key];
    if (!value) continue;
    root.value += value;
    let node = root;
    for (let i = where.frames.length - 1; i >= 0; i--) {
      const id = where.frames[i];
      if (!node.children.has(id)) node.children.set(id, { name: frames[id], value: 0, children: new Map() });
      node = node.children.get(id);
      node.value += value;
    }
  }
  const plain = (node) => ({ name: node.name, value: node.value, children: [...node.children.values()].map(plain) });
  return plain(root);
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

function bytesText(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let u = 0;
  for (; Math.abs(n) >= 1024 && u < 4; u++) n /= 1024;
  return (u && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[u];
}

function timeText(ns) {
  if (ns < 1e4) return Math.round(ns) + " ns";
  if (ns < 1e7) return (ns / 1e3).toFixed(1) + " µs";
  if (ns < 1e10) return (ns / 1e6).toFixed(1) + " ms";
  return (ns / 1e9).toFixed(2) + " s";
}

if (typeof module !== "undefined") module.exports = { decode, stacked, heldAt, liveAt, spaceAt, flameTree, poolGroups, poolRows, bytesText, timeText, isLive };

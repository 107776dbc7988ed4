// Parts that the views share: elements, the state in the URL, tables, canvases, time axes, keys.
// Everything that comes from the trace is set as text, never as HTML.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && key !== "list") node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
};
const colour = (k, light = 56) => `hsl(${(k * 137.508 + 210) % 360} 58% ${light}%)`;
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let data; // of the trace
let stacks; // stacksOf()

// ---- names ----
const hex = (blocks, i) =>
  "0x" + (blocks.high[i] ? blocks.high[i].toString(16) + blocks.low[i].toString(16).padStart(8, "0") : blocks.low[i].toString(16));
const addressOf = (i) => data.blocks.high[i] * 4294967296 + data.blocks.low[i];
const kindName = (i) => data.kinds[data.blocks.kind[i]].name;
const isMemory = (i) => data.kinds[data.blocks.kind[i]].memory;
const deviceName = (d) => (d < 0 ? "host" : "device " + d);
const stackShort = (s) => {
  const [first, second] = stacks.stacks[s].frames.map((f) => data.frames[f]);
  return frameShort(first || "(not recorded)") + (second ? " ← " + second.replace(/ \(.*/, "") : "");
};
const whereShort = (w) => stackShort(stacks.ofWhere[w]);
const lifeText = (i) => {
  const b = data.blocks;
  return `${kindName(i)} ${hex(b, i)}, ${bytesText(b.size[i])}\nmade at ${timeText(b.made[i])}, ` +
    (b.freed[i] ? `lived ${timeText(b.freed[i] - b.made[i])}` : "never freed") + `\n${whereShort(b.where[i])}`;
};

// The frames of the program; frames of aclmem's libraries and of the interpreter are folded, those below main() left out.
function framesNode(w) {
  const node = make("div", { className: "frames" });
  let folded = [];
  const flush = () => {
    if (folded.length)
      node.append(make("details", {}, make("summary", {}, `${folded.length} frame${folded.length > 1 ? "s" : ""} of libraries`),
        ...folded.map((text) => make("div", {}, text))));
    folded = [];
  };
  for (const f of data.wheres[w].frames) {
    if (data.owners[f] === OWNER.start) continue;
    if (data.owners[f] !== OWNER.program) { folded.push(data.frames[f]); continue; }
    flush();
    node.append(make("div", {}, data.frames[f]));
  }
  flush();
  if (!node.childNodes.length) node.append(make("div", {}, "(not recorded)"));
  return node;
}

// ---- the state, which the URL shows ----
const NUMBERS = ["t", "from", "to", "a", "b", "device", "process", "block", "model", "node", "group"];
const state = { view: "memory" };
let redraw = () => {};

function stateWrite() {
  const words = Object.entries(state).filter(([, v]) => v !== undefined && v !== null && v !== "")
    .map(([k, v]) => `${k}=${encodeURIComponent(typeof v === "number" ? Math.round(v) : v)}`);
  history.replaceState(null, "", "#" + words.join("&"));
}
function stateRead() {
  for (const word of location.hash.slice(1).split("&")) {
    const [, key, text] = /^([a-zA-Z]+)=(.*)$/.exec(word) || [];
    let value;
    try { value = decodeURIComponent(text); } catch (error) { continue; } // cut within an escape
    if (!key) continue;
    if (NUMBERS.includes(key)) { if (Number.isFinite(Number(value)) && value !== "") state[key] = Number(value); } else state[key] = value;
  }
}
let writing;
function stateSet(patch) {
  Object.assign(state, patch);
  clearTimeout(writing);
  writing = setTimeout(stateWrite, 100); // while dragging there are many
}
const wholeRange = () => ({ from: Math.max(0, data.first - data.duration * 0.002), to: data.duration });

// ---- a tip beside the pointer ----
const tip = make("div", { className: "tip", hidden: true });
function tipShow(event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

// ---- choices ----
function choose(label, values, value, onchange, id) {
  const select = make("select", { id: id || "", onchange: (event) => onchange(event.target.value) },
    ...values.map(([key, text]) => make("option", { value: key, selected: String(key) === String(value) }, text)));
  return make("label", {}, label + " ", select);
}
const button = (text, onclick, attributes = {}) => make("button", { type: "button", onclick, ...attributes }, text);

// ---- tables: a click on a title sorts, and each can be copied as CSV ----
// columns: { title, value(row): what is sorted and copied, text(row): what is shown, node(row), isNumber }
function table(columns, rows, { id = "", most = 300, sort = null, onclick = null } = {}) {
  let by = sort ? columns.findIndex((c) => c.title === sort) : -1, isDown = true, shown = most;
  const body = make("tbody"), head = make("tr");
  const value = (column, row) => column.value(row);
  const fill = () => {
    const list = by < 0 ? rows : [...rows].sort((x, y) => {
      const a = value(columns[by], x), b = value(columns[by], y);
      return (typeof a === "number" ? a - b : String(a).localeCompare(String(b))) * (isDown ? -1 : 1);
    });
    head.replaceChildren(...columns.map((column, k) => make("th", { className: column.isNumber ? "number" : "", "aria-sort": k === by ? (isDown ? "descending" : "ascending") : "none" },
      button(column.title + (k === by ? (isDown ? " ▾" : " ▴") : ""), () => { isDown = k === by ? !isDown : Boolean(column.isNumber); by = k; fill(); }, { className: "title" }))));
    body.replaceChildren(...list.slice(0, shown).map((row) => make("tr", onclick ? { className: "link", onclick: (event) => { if (!event.target.closest("summary, a, button")) onclick(row); } } : {},
      ...columns.map((column) => make("td", { className: column.isNumber ? "number" : "" },
        column.node ? column.node(row) : String(column.text ? column.text(row) : value(column, row)))))));
    more.hidden = rows.length <= shown;
    more.textContent = `${rows.length - shown} more`;
  };
  const more = button("", () => { shown += 1000; fill(); });
  const csv = () => {
    const quote = (v) => (/[",\n]/.test(String(v)) ? `"${String(v).replace(/"/g, '""')}"` : String(v));
    return [columns.map((c) => quote(c.title)).join(","), ...rows.map((row) => columns.map((c) => quote(c.value(row))).join(","))].join("\n") + "\n";
  };
  const copy = button("copy as CSV", async () => {
    try { await navigator.clipboard.writeText(csv()); copy.textContent = "copied"; } catch (error) { saveText((id || "table") + ".csv", csv()); }
    setTimeout(() => { copy.textContent = "copy as CSV"; }, 1500);
  }, { className: "copy" });
  const node = make("div", { className: "table" }, make("table", { id }, make("thead", {}, head), body), more, copy);
  node.csv = csv;
  fill();
  return node;
}
function saveText(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const number = (title, value, text) => ({ title, value, text, isNumber: true });
const bytesColumn = (title, value) => number(title, value, (row) => bytesText(value(row)));
const timeColumn = (title, value) => number(title, value, (row) => timeText(value(row)));
const stackColumn = { title: "stack", value: (row) => stackShort(row.stack), node: (row) => framesNode(row.where) };

// ---- canvases: drawn at most once a frame, no larger than what is seen ----
function canvasOf(parent, height, draw, room = null) {
  const canvas = make("canvas", { tabIndex: 0 });
  parent.append(canvas);
  let isWaiting = false;
  const paint = () => {
    isWaiting = false;
    if (!canvas.isConnected) return;
    const high = height(), width = room ? room() : parent.clientWidth; // in this order: the height may add a scroll bar
    if (canvas.width !== Math.round(width * devicePixelRatio) || canvas.height !== Math.round(high * devicePixelRatio)) {
      canvas.width = Math.round(width * devicePixelRatio);
      canvas.height = Math.round(high * devicePixelRatio);
      canvas.style.cssText += `;height:${high}px;width:${width}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, high);
    context.font = "12px system-ui, sans-serif";
    draw(context, width, high);
  };
  canvas.invalidate = () => { if (!isWaiting) { isWaiting = true; requestAnimationFrame(paint); } };
  canvas.paint = paint;
  return canvas;
}

const LEFT = 76, RIGHT = 12; // margins of time axes

// The time axis of a canvas: state.from to state.to.  Labels are as many as fit.
const timeX = (t, width, left = LEFT) => left + ((t - state.from) / (state.to - state.from || 1)) * (width - left - RIGHT);
const xTime = (x, width, left = LEFT) => state.from + ((x - left) / (width - left - RIGHT)) * (state.to - state.from);
function timeAxis(context, width, y, height, left = LEFT) {
  const ticks = vendor.scaleLinear().domain([state.from, state.to]).ticks(Math.max(2, Math.floor((width - left) / 110)));
  const labels = axisTimes(ticks);
  context.fillStyle = cssColour("--soft");
  context.strokeStyle = cssColour("--line");
  context.textAlign = "center";
  let end = left - 60;
  ticks.forEach((t, k) => {
    const x = timeX(t, width, left), half = context.measureText(labels[k]).width / 2;
    context.beginPath(); context.moveTo(x + 0.5, y); context.lineTo(x + 0.5, y - height); context.stroke();
    if (x - half < end + 8 || x + half > width) return;
    context.fillText(labels[k], x, y + 15);
    end = x + half;
  });
  context.textAlign = "left";
}

// Drag moves, ctrl + wheel zooms, a click chooses, shift + drag selects a window, a double click shows all.
function timeMouse(canvas, { onrange, onclick, onhover, onselect, left = LEFT }) {
  let start = null, isDragged = false;
  const at = (event) => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = { x: at(event), from: state.from, to: state.to, isSelecting: event.shiftKey };
    isDragged = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!start) { onhover && onhover(event); return; }
    const width = canvas.clientWidth, moved = at(event) - start.x;
    if (!isDragged && Math.abs(moved) < 4) return;
    isDragged = true;
    tipShow(event, "");
    if (start.isSelecting) {
      const [a, b] = [xTime(start.x, width, left), xTime(at(event), width, left)].sort((p, q) => p - q);
      onselect && onselect(Math.max(0, a), Math.min(data.duration, b));
      return;
    }
    rangeSet(start.from - (moved / (width - left - RIGHT)) * (start.to - start.from), start.to - start.from);
    onrange();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (start && !isDragged && onclick) onclick(event, xTime(at(event), canvas.clientWidth, left));
    start = null;
  });
  canvas.addEventListener("pointerleave", (event) => tipShow(event, ""));
  canvas.addEventListener("dblclick", () => { stateSet(wholeRange()); onrange(); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    rangeZoom(Math.exp(event.deltaY * 0.002), xTime(at(event), canvas.clientWidth, left));
    onrange();
  }, { passive: false });
}
function rangeSet(from, span) {
  const whole = wholeRange();
  span = Math.min(whole.to - whole.from, Math.max(100, span));
  from = Math.min(whole.to - span, Math.max(whole.from, from));
  stateSet({ from, to: from + span });
}
function rangeZoom(factor, at = (state.from + state.to) / 2) {
  const span = (state.to - state.from) * factor;
  rangeSet(at - ((at - state.from) / (state.to - state.from || 1)) * span, span);
}

// Text that ends where its room ends.
function textClip(context, text, x, y, width) {
  context.save();
  context.beginPath(); context.rect(x, y - 14, width, 20); context.clip();
  context.fillStyle = "#111"; context.fillText(text, x, y);
  context.restore();
}

// Rows of one height, which may be a function of the room; only visible rows are drawn.  The holder is as high as its rows where there
// is room, and scrolls otherwise; wide() is the width of what it shows.  Returns the canvas.
function rowsCanvas(parent, size, count, draw, { hover, click, head = 0, drawHead = null, wide = () => 0, after = null }) {
  const holder = make("div", { className: "scroll" }), spacer = make("div");
  holder.append(spacer);
  parent.append(holder);
  let hits = [];
  const rowOf = () => (typeof size === "function" ? size(parent.clientHeight / 2) : size);
  const canvas = canvasOf(spacer, () => {
    const high = Math.max(60, count() * rowOf() + head + 4);
    spacer.style.cssText = `height:${high}px` + (wide() > holder.clientWidth ? `;width:${wide()}px` : "");
    holder.style.setProperty("--content", high + holder.offsetHeight - holder.clientHeight + "px");
    return Math.max(60, Math.min(holder.clientHeight, high));
  }, (context, width, height) => {
    const rowHeight = rowOf();
    hits = [];
    const first = Math.floor(holder.scrollTop / rowHeight);
    for (let r = first; r < count() && (r - first) * rowHeight < height; r++)
      draw(context, r, r * rowHeight - holder.scrollTop + head, width, hits, holder.scrollLeft);
    if (after) after(context, width, head - holder.scrollTop, holder.scrollLeft);
    if (drawHead) { context.fillStyle = cssColour("--back"); context.fillRect(0, 0, width, head); drawHead(context, width); }
  }, () => holder.clientWidth);
  canvas.style.cssText += ";position:sticky;top:0;left:0";
  canvas.find = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (y < head) return null;
    for (let k = hits.length - 1; k >= 0; k--) {
      const h = hits[k];
      if (x >= h.x && x <= h.x + Math.max(h.w, 3) && y >= h.y && y <= h.y + h.h) return h;
    }
    return null;
  };
  canvas.hover = (event) => { const h = canvas.find(event); tipShow(event, h && hover ? hover(h) : ""); };
  canvas.pick = (event) => { const h = canvas.find(event); if (h && click) click(h); };
  holder.addEventListener("scroll", canvas.invalidate);
  canvas.paint();
  return canvas;
}

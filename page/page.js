// The frame around the views: header, keys, help, start.
"use strict";

const views = { memory: memoryView, addresses: spaceView, lives: livesView, streams: streamsView, models: modelsView, flame: flameView, findings: findingsView, totals: totalsView, compare: compareView, pool: poolView };
const hasView = (name) => (name === "pool" ? Boolean(data.pool) : name === "compare" ? Boolean(data.other) : name === "models" ? data.models.length > 0 : Boolean(views[name]));
// A view that has nothing to show for this trace is dimmed.
const isEmpty = (name) => (name === "streams" ? !hasWork() : name === "findings" ? !data.findings.length : name === "totals" ? !data.totals.calls && !data.totals.allocations
  : name === "memory" ? !data.totals.allocations : name === "addresses" || name === "lives" ? !data.blocks.n : false);

function show(name) {
  stateSet({ view: name });
  const main = document.getElementById("main");
  main.replaceChildren();
  tip.hidden = true;
  redraw = () => {};
  for (const node of document.querySelectorAll("#views button")) node.setAttribute("aria-pressed", String(node.dataset.view === name));
  views[name](main);
}

// What the run was: command, time, device, peak, findings; each is a link to where it is shown.
function factsShow() {
  const first = data.processes.find((p) => p.command) || { command: "", soc: "", version: "" }, t = data.totals;
  const processes = data.processes.filter((p) => p.pid > 0).length, to = (view, patch) => () => { stateSet(patch); show(view); };
  const facts = [["", first.command || data.program, "command"], [isCounted ? "" : "time", isCounted ? `${Math.round(data.duration / 1000).toLocaleString("en")} events` : timeText(data.duration), "time", to("memory", wholeRange())], ["chip", first.soc, "device"],
    ["peak", bytesText(t.peak), "peak", to("memory", { t: data.peakAt, device: data.peakDevice, panel: "live" })], ["never freed", bytesText(t.live), "live", to("memory", { device: data.peakDevice, panel: "leaks" })],
    ["calls", t.calls ? t.calls.toLocaleString("en") + (t.errors ? `, ${t.errors.toLocaleString("en")} failed` : "") : "", "calls", to("totals", {})], ["processes", processes ? String(processes) : "", "processes"],
    ["models", data.models.length ? String(data.models.filter((model) => model.parent < 0).length) : "", "models", to("models", {})], ["findings", data.isChecked ? String(data.findings.length) : "not checked", "findings", to("findings", {})]];
  document.getElementById("facts").replaceChildren(...facts.filter(([, value]) => value)
    .map(([name, value, id, go]) => make(go ? "button" : "span", { className: "fact", title: value, onclick: go || (() => {}) }, name ? name + " " : "", make("b", { id: "fact-" + id }, value))));
  document.title = `${data.program} · aclmem`;
  document.getElementById("program").textContent = data.program;
}

const KEYS = [["W, +", "zoom in"], ["S, −", "zoom out"], ["A, ←", "earlier"], ["D, →", "later"], ["0", "the whole time"], ["1 to 9", "views"], ["/", "search: an address, a function, a file"], ["P", "the peak"], ["?", "this help"], ["Esc", "closes it, ends the search"]];

function helpToggle() {
  const open = document.getElementById("help");
  if (open) { open.remove(); return; }
  document.body.append(make("div", { id: "help", role: "dialog", "aria-label": "keys" }, make("h2", {}, "Keys"),
    make("dl", {}, ...KEYS.flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)])),
    make("p", {}, "Drag moves the time, ctrl + wheel zooms, shift + drag selects a window, a double click shows all. The address of this page holds the view: copy it to show a colleague the same. A click on the title of a column sorts."),
    button("close", helpToggle)));
}

addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") && event.key !== "Escape") return;
  if (event.ctrlKey || event.metaKey || event.altKey || !data) return;
  const names = [...document.querySelectorAll("#views button")].map((node) => node.dataset.view), span = state.to - state.from;
  const moves = { w: () => rangeZoom(0.7), "+": () => rangeZoom(0.7), s: () => rangeZoom(1 / 0.7), "-": () => rangeZoom(1 / 0.7), a: () => rangeSet(state.from - span * 0.2, span),
    ArrowLeft: () => rangeSet(state.from - span * 0.2, span), d: () => rangeSet(state.from + span * 0.2, span), ArrowRight: () => rangeSet(state.from + span * 0.2, span), 0: () => stateSet(wholeRange()) };
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key; // caps lock
  if (moves[pressed]) { moves[pressed](); redraw(); event.preventDefault(); }
  else if (event.key === "?") helpToggle();
  else if (event.key === "Escape") { const open = document.getElementById("help"); if (open) open.remove(); searchEnd(); }
  else if (pressed === "p") { stateSet({ t: data.peakAt }); redraw(); }
  else if (event.key === "/") { event.preventDefault(); document.getElementById("search").focus(); }
  else if (/^[1-9]$/.test(event.key) && names[event.key - 1]) show(names[event.key - 1]);
});

// ---- search ----
const searchBox = document.getElementById("search"), results = document.getElementById("results");

function searchEnd() {
  results.hidden = true;
  searchBox.blur();
}

function searchShow() {
  const text = searchBox.value.trim(), list = [];
  stateSet({ search: text });
  results.hidden = !text || state.view === "flame";
  if (state.view === "flame") flameSearch();
  if (results.hidden) return;
  const found = searchAll(text, data.blocks, data.wheres, data.frames, 8), go = (label, detail, act) =>
    list.push(button("", () => { results.hidden = true; act(); }, { className: "result" })) && list[list.length - 1].append(make("b", {}, label), make("span", {}, detail));
  for (const i of found.blocks)
    go(`${kindName(i)} ${hex(data.blocks, i)}`, `${bytesText(data.blocks.size[i])}, made at ${timeText(data.blocks.made[i])}`, () => { stateSet({ block: i, panel: "block" }); show("memory"); });
  for (const w of found.wheres) {
    const where = data.wheres[w];
    go(whereShort(w), `${bytesText(where.peak)} at the peak, ${bytesText(where.allocated)} allocated, ${where.calls.toLocaleString("en")} calls`,
      () => { stateSet({ flame: where.peak ? "peak" : where.allocated ? "allocated" : "calls" }); show("flame"); });
  }
  data.findings.forEach((f, k) => { if (list.length < 16 && JSON.stringify(f).toLowerCase().includes(text.toLowerCase())) go(f.kind, f.message, () => { show("findings"); document.getElementById("finding-" + k).scrollIntoView(); }); });
  results.replaceChildren(...(list.length ? list : [make("p", {}, "Nothing has this address or this text.")]));
}
searchBox.addEventListener("input", searchShow);
searchBox.addEventListener("focus", () => searchBox.value && searchShow());
searchBox.addEventListener("keydown", (event) => { if (event.key === "Enter" && !results.hidden && results.querySelector("button")) results.querySelector("button").click(); });
document.addEventListener("pointerdown", (event) => { if (!event.target.closest("#results, #search")) results.hidden = true; });

async function start() {
  const text = atob(document.getElementById("data").textContent.trim()), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = decode(new Uint8Array(await new Response(stream).arrayBuffer()));
  data.duration = data.duration || 1;
  isCounted = Boolean(data.isCounted);
  stacks = stacksOf(data.wheres, data.owners);
  factsShow();
  if (data.notice) { const notice = document.getElementById("notice"); notice.hidden = false; notice.textContent = data.notice; }
  Object.assign(state, wholeRange(), { t: data.peakAt });
  stateRead();
  searchBox.value = state.search || "";
  for (const name of Object.keys(views).filter(hasView))
    document.getElementById("views").append(button(name === "findings" && data.findings.length ? `findings (${data.findings.length})` : name, () => show(name), { "data-view": name, className: isEmpty(name) ? "empty" : "" }));
  document.body.append(tip);
  const asked = location.hash.includes("view=") && hasView(state.view);
  show(asked ? state.view : data.pool && data.totals.calls === 0 ? "pool" : data.other ? "compare" : "memory");
  document.documentElement.dataset.ready = "yes";
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("aclmem-theme", root.dataset.theme); } catch (error) { /* no storage: until the page is closed */ }
  redraw();
});
document.getElementById("keys").addEventListener("click", helpToggle);
addEventListener("hashchange", () => { stateRead(); if (hasView(state.view)) show(state.view); });
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => redraw(), 100); });
start().catch((error) => { document.getElementById("main").textContent = "The page cannot be shown: " + error.message; throw error; });

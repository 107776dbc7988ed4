// The frame around the views: header, keys, help, start.
"use strict";

const views = { memory: memoryView, addresses: spaceView, lives: livesView, streams: streamsView, flame: flameView, findings: findingsView, totals: totalsView, compare: compareView, pool: poolView };
const hasView = (name) => (name === "pool" ? Boolean(data.pool) : name === "compare" ? Boolean(data.other) : Boolean(views[name]));

function show(name) {
  stateSet({ view: name });
  const main = document.getElementById("main");
  main.replaceChildren();
  tip.hidden = true;
  redraw = () => {};
  for (const node of document.querySelectorAll("#views button")) node.setAttribute("aria-pressed", String(node.dataset.view === name));
  views[name](main);
}

// What the run was: command, time, device, peak, findings.
function factsShow() {
  const first = data.processes.find((p) => p.command) || { command: "", soc: "", version: "" }, t = data.totals;
  const facts = [["", first.command || data.program, "command"], ["time", timeText(data.duration), "time"], ["chip", first.soc, "device"], ["peak", bytesText(t.peak), "peak"],
    ["never freed", bytesText(t.live), "live"], ["calls", t.calls.toLocaleString("en") + (t.errors ? `, ${t.errors.toLocaleString("en")} failed` : ""), "calls"],
    ["processes", String(data.processes.filter((p) => p.pid > 0).length), "processes"], ["findings", data.isChecked ? String(data.findings.length) : "not checked", "findings"]];
  document.getElementById("facts").replaceChildren(...facts.filter(([, value]) => value)
    .map(([name, value, id]) => make("span", { className: "fact", title: value }, name ? name + " " : "", make("b", { id: "fact-" + id }, value))));
  document.title = `${data.program} · aclmem`;
  document.getElementById("program").textContent = data.program;
}

const KEYS = [["W, +", "zoom in"], ["S, −", "zoom out"], ["A, ←", "earlier"], ["D, →", "later"], ["0", "the whole time"], ["1 to 9", "views"], ["/", "search in the flame graph"], ["P", "the peak"], ["?", "this help"], ["Esc", "closes it"]];

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
  if (moves[event.key]) { moves[event.key](); redraw(); event.preventDefault(); }
  else if (event.key === "?") helpToggle();
  else if (event.key === "Escape") { const open = document.getElementById("help"); if (open) open.remove(); }
  else if (event.key === "p") { stateSet({ t: data.peakAt }); redraw(); }
  else if (event.key === "/") { event.preventDefault(); show("flame"); document.getElementById("search").focus(); }
  else if (/^[1-9]$/.test(event.key) && names[event.key - 1]) show(names[event.key - 1]);
});

async function start() {
  const text = atob(document.getElementById("data").textContent.trim()), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = decode(new Uint8Array(await new Response(stream).arrayBuffer()));
  data.duration = data.duration || 1;
  stacks = stacksOf(data.wheres, data.owners);
  factsShow();
  if (data.notice) { const notice = document.getElementById("notice"); notice.hidden = false; notice.textContent = data.notice; }
  Object.assign(state, wholeRange(), { t: data.peakAt });
  stateRead();
  for (const name of Object.keys(views).filter(hasView))
    document.getElementById("views").append(button(name === "findings" && data.findings.length ? `findings (${data.findings.length})` : name, () => show(name), { "data-view": name }));
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

#!/usr/bin/env python3
"""The page of aclmem report in a real browser: test_page.py ACLMEM PLAYER RACE CACHE WRAPPER

Numbers that the page shows are compared with numbers that are computed from the trace.
"""
import collections
import csv
import functools
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402
import large  # noqa: E402

ACLMEM, PLAYER, RACE, CACHE, WRAPPER = sys.argv[1:6]


call = functools.partial(browser.command, ACLMEM)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = os.path.join(cls.folder.name, "run.trace")
        call("run", "--check", "none", "--quiet", "--trace", cls.trace, PLAYER, "8000", "2")
        cls.page = cls.trace + ".html"
        call("report", cls.trace)
        cls.rows = list(csv.DictReader(io.StringIO(call("convert", cls.trace, "--to", "csv"))))
        cls.peak = cls.peak_of(call("convert", cls.trace, "--to", "lines"))
        cls.browser = browser.Browser()
        cls.browser.size(1200, 900)
        cls.browser.open(cls.page)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    @staticmethod
    def peak_of(lines):
        live, now, peak = {}, 0, 0
        for line in lines.splitlines():
            word = line.split()
            if word[0] == "a":
                live[word[1]] = int(word[2])
                now += int(word[2])
            else:
                now -= live.pop(word[1])
            peak = max(peak, now)
        return peak

    def ask(self, expression):
        return self.browser.evaluate(expression)

    def show(self, view):
        self.ask("document.querySelector('#views button[data-view=%s]').click()" % view)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def choose(self, name, value):
        self.ask("(() => { const s = document.getElementById('%s'); s.value = '%s'; s.dispatchEvent(new Event('change')); })()" % (name, value))

    def total(self):
        return self.ask("Number(document.getElementById('panel').dataset.total)")

    def panel(self, name):
        self.ask("document.querySelector('#panel button[data-panel=%s]').click()" % name)

    def cells(self, table):
        """The rows of a table, as texts."""
        return self.ask("[...document.querySelectorAll('#%s tbody tr')].map((r) => [...r.children].map((c) => c.textContent))" % table)

    def pointer(self, kinds, at, more=""):
        """Events of the pointer on the chart, each at a share of its width."""
        self.ask("(() => { const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect();"
                 " c.setPointerCapture = () => {}; const at = %s;"
                 " %s.forEach((kind, k) => c.dispatchEvent(new PointerEvent(kind, {clientX: box.left + box.width * at[k], clientY: box.top + box.height / 2, bubbles: true, button: 0 %s}))); })()"
                 % (json.dumps(at), json.dumps(kinds), more))

    def lives(self):
        """(made, freed or None, bytes) of each block of device 0, in the order of time, from the csv."""
        blocks, live = [], {}
        done = [r for r in self.rows if r["result"] == "0"]
        changes = [(int(r["end_ns"]), 1, r) for r in done if r["function"] == "aclrtMalloc"]
        changes += [(int(r["begin_ns"]), 0, r) for r in done if r["function"] == "aclrtFree"]
        for time, is_made, row in sorted(changes, key=lambda c: c[:2]):
            address = re.search(r"devPtr=\[?(0x[0-9a-f]+)", row["arguments"]).group(1)
            if is_made:
                live[address] = len(blocks)
                blocks.append([time, None, self.size_of(row)])
            else:
                blocks[live.pop(address)][1] = time
        # The physical memory lives until its last mapping ends; on a busy machine that takes long.
        made, = [r for r in done if r["function"] == "aclrtMallocPhysical"]
        freed = max(int(r["begin_ns"]) for r in done if r["function"] == "aclrtUnmapMem")
        return [[int(made["end_ns"]), freed, self.size_of(made)]] + blocks

    @staticmethod
    def size_of(row):
        return int(re.search(r"size=(\d+)", row["arguments"]).group(1))

    def test_memory_over_time(self):
        self.show("memory")
        self.choose("device", "0")
        self.assertEqual(self.ask("Number(document.getElementById('chart').dataset.peak)"), self.peak)
        self.ask("document.getElementById('peak').click()")
        self.assertEqual(self.total(), self.peak)
        self.assertIn("player.c", self.ask("document.getElementById('live').innerText"))
        # A click chooses a moment; what was live then equals the blocks of the csv.
        self.pointer(["pointerdown", "pointerup"], [0.7, 0.7])
        blocks = self.lives()
        for t in (self.ask("state.t"), blocks[0][0] + 1, blocks[0][1] - 1):  # the last two: while the physical memory lives
            self.ask("stateSet({t: %d, panel: 'live'}); redraw()" % t)
            self.assertEqual(self.total(), sum(size for made, freed, size in blocks if made <= t and (freed is None or freed > t)))
        for by in ("place", "stack", "kind", "size", "stream", "thread", "process", "tag", "module"):
            self.choose("by", by)
            self.assertEqual(self.ask("Number(document.getElementById('chart').dataset.peak)"), self.peak, by)
            self.ask("document.getElementById('peak').click()")
            self.assertEqual(self.ask("Number(document.getElementById('legend').dataset.total)"), self.peak, by)
            self.assertEqual(len(self.cells("groups")), self.ask("seriesFor(0, '%s').n" % by), by)
        self.choose("by", "thread")
        self.assertEqual(self.ask("seriesFor(0, 'thread').names.length"), len({r["thread"] for r in self.rows if r["function"] == "aclrtMalloc"}
                                                                             | {r["thread"] for r in self.rows if r["function"] == "aclrtMallocPhysical"}))
        self.choose("by", "place")

    def test_difference_temporaries_and_leaks(self):
        self.show("memory")
        self.choose("device", "0")
        self.pointer(["pointerdown", "pointermove", "pointermove", "pointerup"], [0.4, 0.5, 0.8, 0.8], ", shiftKey: true")
        a, b = self.ask("[state.a, state.b]")
        self.assertLess(a, b)
        blocks = self.lives()
        at = lambda t: sum(size for made, freed, size in blocks if made <= t and (freed is None or freed > t))
        self.panel("difference")
        self.assertEqual(self.total(), at(b) - at(a))
        self.panel("temporaries")
        self.assertEqual(self.total(), sum(size for made, freed, size in blocks if made >= a and freed is not None and freed <= b))
        self.panel("leaks")
        self.assertEqual(self.total(), 0)

    def test_blocks_are_areas_and_a_click_pins_one(self):
        self.show("memory")
        self.choose("device", "0")
        self.choose("areas", "blocks")
        self.assertEqual(self.ask("layersFor(0).length"), min(800, sum(size > 0 for _, _, size in self.lives())))
        layer = self.ask("(() => { const l = layersFor(0).reduce((x, y) => (data.blocks.size[y.i] > data.blocks.size[x.i] ? y : x)); return [l.i, l.times[0], l.end]; })()")
        self.ask("stateSet({block: %d, panel: 'block'}); redraw()" % layer[0])
        text = self.ask("document.getElementById('block').innerText")
        self.assertIn(self.ask("hex(data.blocks, %d)" % layer[0]), text)
        self.assertIn("player.c", text)
        self.choose("areas", "groups")

    def test_bytes_held_of_the_device(self):
        self.show("memory")
        lines = re.findall(r"device 0: (\d+) bytes held", call("trace", "--tasks", self.trace))
        self.assertEqual(self.ask("Math.max(...data.held.bytes.filter((_, i) => data.held.device[i] === 0))"), max(map(int, lines)))
        self.assertIn("held of the device", self.ask("document.getElementById('held-note').textContent"))
        held, live = self.ask("[data.totals.held, data.totals.heldLive]")
        self.assertEqual(live, self.peak)
        self.assertIn(held, map(int, lines))
        self.show("totals")
        self.assertEqual(self.ask("document.getElementById('total-fragmentation').textContent"), "%.1f %%" % (100 * live / held))

    def test_questions_about_blocks(self):
        """The functions of data.js on a few blocks that are made here."""
        self.ask(
            "window.few = {n: 4, made: [10, 20, 30, 40], freed: [50, 0, 35, 60], size: [100, 200, 300, 50], where: [1, 2, 1, 1],"
            " high: [0, 0, 0, 0], low: [4096, 4196, 9000, 4396]}; window.same = [0, 1, 2]"
        )
        self.assertEqual(self.ask("[9, 10, 49, 50, 99].map((t) => isLive(few, 0, t))"), [False, True, True, False, False])
        live = self.ask("liveAt(few, same, (i) => i !== 3, 32)")
        self.assertEqual(live["total"], 600)
        self.assertEqual([(row["where"], row["bytes"], row["n"]) for row in live["rows"]], [(1, 400, 2), (2, 200, 1)])
        self.assertEqual(self.ask("leaks(few, same, () => true).total"), 200)
        self.assertEqual(self.ask("temporaries(few, same, () => true, 25, 55).total"), 300)
        changed = self.ask("difference(few, same, () => true, 15, 55)")
        self.assertEqual((changed["before"], changed["after"]), (100, 250))
        # At the highest moment of each of ten columns, from the changes; from the steps of a pyramid what is true after a change.
        for exact, expected in ((40000, [0, 100, 300, 600, 350, 350, 250, 200, 200, 200]), (0, [0, 100, 300, 600, 350, 250, 200, 200, 200, 200])):
            self.assertEqual(self.ask("(() => { const exact = Series.EXACT, step = Series.STEP; Series.EXACT = %d; Series.STEP = 1;"
                                      " const s = new Series(few, changesOf(few, () => true), (i) => few.where[i], 1), w = s.window(0, 100, 10);"
                                      " Series.EXACT = exact; Series.STEP = step; return [s.peak, s.peakAt, s.names, Array.from(w.sums)]; })()" % exact),
                             [600, 30, [1], expected], exact)
        layers = self.ask("layersOf(few, changesOf(few, () => true), 10).map((l) => [l.i, l.times, l.offsets])")
        self.assertEqual(layers, [[0, [10], [0]], [1, [20, 50], [100, 0]], [2, [30], [300]], [3, [40, 50], [300, 200]]])
        self.assertEqual(self.ask("Array.from(sortedBy(Uint32Array.of(0, 1, 2, 3), [70000, 5, 4294967296001, 70000]))"), [1, 0, 3, 2])
        rows = self.ask("spaceAt(few, () => true, 45, 64)")
        self.assertEqual([(row["start"], row["end"], row["items"]) for row in rows], [(4096, 4446, [0, 1, 3])])
        self.assertEqual(self.ask("heldAt({n: 3, time: [5, 15, 25], bytes: [7, 8, 9], device: [0, 1, 0]}, 0, [0, 5, 20, 30])"), [0, 7, 7, 9])
        tree = self.ask("flameTree([{frames: [1, 0]}, {frames: [0]}, {frames: [1]}], ['main', 'leaf'], (w) => [2, 3, 0][w])")
        self.assertEqual((tree["value"], tree["children"][0]["value"], tree["children"][0]["children"][0]["name"]), (5, 5, "leaf"))
        self.assertEqual(self.ask("[0, 1023, 1024, 1536, 1 << 20, 2 ** 50].map(bytesText)"),
                         ["0 B", "1023 B", "1.0 KB", "1.5 KB", "1.0 MB", "1024 TB"])
        self.assertEqual(self.ask("[5, 12345, 7796400, 12345678, 123456789012].map(timeText)"), ["5 ns", "12.3 µs", "7.80 ms", "12.3 ms", "123 s"])
        self.assertEqual(self.ask("axisTimes([1300e6, 1400e6, 1500e6])"), ["1.3 s", "1.4 s", "1.5 s"])
        self.assertEqual(self.ask("axisTimes([1300.0001e6, 1300.0002e6]).length"), 2)
        self.assertEqual(self.ask("axisBytes([0, 33554432, 100663296, 134217728])"), ["0", "32 MB", "96 MB", "128 MB"])
        self.assertEqual(self.ask("axisBytes([0, 536870912, 1073741824])"), ["0", "0.5 GB", "1.0 GB"])
        # Two streams: 0 records, 1 waits for it, 2 and 3 are behind them, 4 waits for the record 5 of the other stream.
        self.ask("window.graph = modelGraph({n: 7, model: [0, 0, 0, 0, 0, 0, 1], stream: [5, 6, 5, 6, 6, 5, 5], from: [-1, 0, -1, -1, -1, -1, -1]}, 0, () => 10)")
        self.assertEqual(self.ask("[graph.lanes.map((l) => l.nodes), graph.x, graph.waits, graph.width]"),
                         [[[0, 2, 5], [1, 3, 4]], [0, 10, 10, 20, 30, 20], [1], 40])

    def test_labels_do_not_overlap(self):
        """The texts that the time axis draws, at many widths and zooms."""
        for width in (320, 700, 1200, 2400):
            for span in (1000, 123456, 5e6, 1.3e9):
                boxes = self.ask(
                    "(() => { const before = [state.from, state.to]; [state.from, state.to] = [1.3e9, 1.3e9 + %d];"
                    " const c = document.createElement('canvas').getContext('2d'), found = []; c.font = '12px sans-serif';"
                    " const draw = c.fillText.bind(c); c.fillText = (t, x) => found.push([x - c.measureText(t).width / 2, x + c.measureText(t).width / 2, t]);"
                    " timeAxis(c, %d, 100, 50); [state.from, state.to] = before; return found; })()" % (span, width))
                self.assertTrue(boxes, (width, span))
                for left, right in zip(boxes, boxes[1:]):
                    self.assertLess(left[1] + 4, right[0], (width, span))
                self.assertEqual(len({box[2] for box in boxes}), len(boxes))

    def test_frames_below_main_are_hidden(self):
        self.show("memory")
        self.ask("document.getElementById('peak').click()")
        text = self.ask("document.getElementById('panel').innerText")
        self.assertIn("block_take", text)
        text = re.sub(r"\([^()]*:\d+\)", "", text)  # sources can lie in a folder with one of these names
        for name in ("start_thread", "clone", "_start", "libc.so"):  # a C library without symbols has offsets
            self.assertNotIn(name, text)
        self.assertGreater(self.ask("data.frames.filter((f) => /^(start_thread|libc.so)/.test(f)).length"), 0)

    def test_the_header_has_the_facts_of_the_run(self):
        facts = self.ask("Object.fromEntries([...document.querySelectorAll('#facts b')].map((b) => [b.id, b.textContent]))")
        self.assertEqual(facts["fact-command"], PLAYER + " 8000 2")
        self.assertEqual(facts["fact-calls"].split(",")[0] + "," + facts["fact-calls"].split(",")[1], "{:,}".format(len(self.rows)))
        self.assertEqual((facts["fact-processes"], facts["fact-findings"]), ("1", "not checked"))
        self.assertTrue(facts["fact-device"].startswith("Ascend"))

    def test_keys_and_the_address_keep_the_view(self):
        self.show("memory")
        key = "dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
        self.ask("stateSet(wholeRange()); redraw()")
        whole = self.ask("state.to - state.from")
        self.ask("document.body." + key % "w")
        self.assertAlmostEqual(self.ask("state.to - state.from") / whole, 0.7, 3)
        before = self.ask("state.from")
        self.ask("document.body." + key % "ArrowRight")
        self.assertGreater(self.ask("state.from"), before)
        self.ask("document.body." + key % "0")
        self.assertEqual(self.ask("state.to - state.from"), whole)
        self.ask("document.body." + key % "W")  # caps lock
        self.assertAlmostEqual(self.ask("state.to - state.from") / whole, 0.7, 3)
        self.ask("document.body." + key % "?")
        self.assertIn("zoom in", self.ask("document.getElementById('help').innerText"))
        self.ask("document.body." + key % "Escape")
        self.ask("document.body." + key % "/")
        self.assertEqual(self.ask("[state.view, document.activeElement.id]"), ["memory", "search"])
        # The same address shows the same view.
        self.ask("stateSet({view: 'memory', t: 4000000, by: 'kind', from: 1000000, to: 9000000, panel: 'leaks'}); stateWrite()")
        address = self.ask("location.hash")
        self.ask("Object.assign(state, {view: 'totals', t: 1, by: 'stack', from: 0, to: 1}); location.hash = '#view=totals'")
        self.ask("new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), {once: true}); location.hash = %s; })" % json.dumps(address))
        self.assertEqual(self.ask("[state.view, state.t, state.by, state.from, state.to, state.panel]"), ["memory", 4000000, "kind", 1000000, 9000000, "leaks"])
        self.assertEqual(self.ask("document.getElementById('by').value"), "kind")
        # An address that was cut within an escape shows the rest.
        self.ask("new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), {once: true}); location.hash = '#view=totals&by=pl%2'; })")
        self.assertEqual(self.ask("[state.view, state.by]"), ["totals", "kind"])
        self.ask("stateSet({by: 'place', ...wholeRange(), panel: 'live'})")

    def test_tables_sort_and_are_copied_as_csv(self):
        self.show("totals")
        title = "document.querySelectorAll('#functions th button')[%d].click()"
        self.ask(title % 1)
        calls = [int(row[1].replace(",", "")) for row in self.cells("functions")]
        self.assertEqual(calls, sorted(calls, reverse=True))
        self.ask(title % 1)
        self.assertEqual([int(row[1].replace(",", "")) for row in self.cells("functions")], sorted(calls))
        self.ask(title % 0)
        names = [row[0] for row in self.cells("functions")]
        self.assertEqual(names, sorted(names))
        rows = list(csv.DictReader(io.StringIO(self.ask("document.getElementById('functions').closest('.table').csv()"))))
        for row in rows:
            self.assertEqual(int(row["calls"]), sum(r["function"] == row["function"] for r in self.rows))

    def test_addresses(self):
        piece = 2 << 20
        mapped = [int(r["end_ns"]) for r in self.rows if r["function"] == "aclrtMapMem"]
        unmapped = [int(r["begin_ns"]) for r in self.rows if r["function"] == "aclrtUnmapMem"]
        self.ask("state.t = %d; show('addresses')" % ((mapped[-1] + unmapped[0]) // 2))
        figures = self.ask("({...document.getElementById('space-figures').dataset})")
        self.assertEqual((int(figures["reserved"]), int(figures["mapped"]), int(figures["aliases"])), (4 * piece, 2 * piece, 1))
        # A click on a mapping shows the life of its memory and full stacks.
        self.ask("(() => { const i = data.blocks.kind.findIndex((k) => data.kinds[k].name === 'mapped'); stateSet({block: i}); redraw(); })()")
        text = self.ask("document.getElementById('details').innerText")
        self.assertIn("mappings_play", text)
        self.assertIn("memory of", text)
        # In motion the time advances by itself.
        before = self.ask("state.t")
        self.ask("document.getElementById('play').click()")
        self.assertGreater(self.ask("new Promise((done) => { let n = 0; const wait = () => (state.t > %f || ++n > 600 ? done(state.t) : requestAnimationFrame(wait)); wait(); })" % before), before)
        self.ask("document.getElementById('play').textContent.includes('stop') && document.getElementById('play').click()")
        self.ask("document.getElementById('time').value = 10000; document.getElementById('time').dispatchEvent(new Event('input'))")
        self.assertEqual(self.ask("Number(document.getElementById('space-figures').dataset.mapped)"), 0)
        self.ask("stateSet({block: -1, t: data.peakAt})")

    def test_lives(self):
        self.ask("stateSet({kinds: '', ...wholeRange()})")
        self.show("lives")
        text = self.ask("document.getElementById('lives-figures').textContent")
        self.assertIn("1 whose memory outlived its handle", text)
        self.assertIn("0 never freed", text)
        made = sum(r["result"] == "0" and r["function"] in ("aclrtMalloc", "aclrtMallocPhysical", "aclrtMallocHost", "aclrtReserveMemAddress",
                                                             "aclrtCreateStream", "aclrtCreateEvent") for r in self.rows)
        self.assertEqual(int(text.split()[0]), made)
        scroll = self.ask("(() => { const s = document.querySelector('#main .scroll'); return [s.scrollHeight > s.clientHeight, s.scrollWidth - s.clientWidth]; })()")
        self.assertEqual(scroll, [True, 0])  # it scrolls for rows alone
        self.choose("kinds", "physical")
        self.pointer(["pointerdown", "pointerup"], [0.5, 0.5])

    def test_streams(self):
        self.show("streams")
        rows = self.cells("streams")
        tasks = re.findall(r"(\w+) ran, ", call("trace", "--tasks", self.trace))
        copies = sum(r["function"].startswith("aclrtMemcpy") for r in self.rows)
        others = sum(not name.startswith("aclrtMemcpy") for name in tasks)
        self.assertEqual(self.ask("[data.copies.n, data.tasks.n]"), [copies, others])
        self.assertEqual(sum(int(row[1]) for row in rows), copies + others)
        self.assertEqual(self.ask("data.marks.n"), 4)
        # An arrow goes from where the record ran, which is some time after its call, to a wait that is not before it.
        units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        ran = [float(d) * units[u] + float(t) * units[v] for d, u, t, v in
               re.findall(r"aclrtRecordEvent ran, (\S+) (\w+) after it was queued <(\S+) (\w+)>", call("trace", "--tasks", self.trace))]
        calls = [(int(r["begin_ns"]), int(r["end_ns"])) for r in self.rows if r["function"] == "aclrtRecordEvent"]
        ends = [end for _, end in calls]
        for recorded, waited in zip(*self.ask("[Array.from(data.marks.recorded), Array.from(data.marks.waited)]")):
            self.assertGreaterEqual(waited, recorded)
            self.assertTrue(recorded in ends or any(begin - 100 * units["us"] <= recorded - later <= end + 100 * units["us"] for begin, end in calls for later in ran), recorded)
        self.assertEqual(sum(recorded not in ends for recorded in self.ask("Array.from(data.marks.recorded)")), min(4, len(ran)))
        # A copy that the stream did by itself is where it ran, the others where their calls are.
        calls = {int(r["begin_ns"]) for r in self.rows if r["function"].startswith("aclrtMemcpy")}
        ran = sum(name == "aclrtMemcpyAsync" for name in tasks)
        self.assertEqual(sum(begin not in calls for begin in self.ask("Array.from(data.copies.begin)")), ran)
        self.assertEqual(self.ask("data.hasTasks"), ran > 0)
        # A click on a copy shows its call; ctrl + wheel zooms around the pointer.
        first = self.ask("(() => { let i = 0; while (!data.copies.stream[i]) i++; const row = data.copies.stream[i], t = data.copies.begin[i]; rangeSet(t - 1000, 100000); redraw();"
                         " const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect(), x = box.left + timeX(t, c.clientWidth) + 2, y = box.top + 22 + row * 34 + 15;"
                         " c.setPointerCapture = () => {};"
                         " for (const kind of ['pointerdown', 'pointerup']) c.dispatchEvent(new PointerEvent(kind, {clientX: x, clientY: y, button: 0, bubbles: true}));"
                         " const span = state.to - state.from; c.dispatchEvent(new WheelEvent('wheel', {clientX: x, clientY: y, deltaY: -200, ctrlKey: true, cancelable: true}));"
                         " return [span, state.to - state.from]; })()")
        self.assertLess(first[1], first[0])
        text = self.ask("document.getElementById('call').innerText")
        self.assertIn("streams_play", text)
        self.assertIn("aclrtMemcpyAsync", text)
        self.ask("stateSet(wholeRange())")

    def test_flame_graph(self):
        self.show("flame")
        for what, total in (("peak", self.peak), ("calls", len(self.rows)), ("leaked", 0), ("allocated", sum(b[2] for b in self.lives()) + self.pinned())):
            self.choose("flame-of", what)
            self.assertEqual(self.ask("Number(document.getElementById('flame').dataset.total)"), total, what)
        self.ask("stateSet({t: data.peakAt})")
        self.choose("flame-of", "live")
        self.assertEqual(self.ask("Number(document.getElementById('flame').dataset.total)"), self.ask("data.totals.peak"))
        self.choose("flame-of", "calls")
        names = self.ask("[...new Set([...document.querySelectorAll('#flame g')].map((g) => g.__data__.data.name))]")
        self.assertIn("aclrtMalloc", names)  # the function that is called is the innermost cell
        threads = self.ask("[...document.getElementById('flame-thread').options].map((o) => o.value).slice(1)")
        self.assertEqual(set(threads), {r["thread"] for r in self.rows})
        for thread in threads:
            self.choose("flame-thread", thread)
            self.assertEqual(self.ask("Number(document.getElementById('flame').dataset.total)"), sum(r["thread"] == thread for r in self.rows))
        self.choose("flame-thread", "")
        self.assertGreater(self.ask("document.querySelectorAll('#flame rect').length"), 5)
        self.show("flame")  # it is complete in the second frame
        widths = self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => { const f = document.getElementById('flame');"
                          " done([f.clientWidth, f.querySelector('rect').getBoundingClientRect().width]); })))")
        self.assertAlmostEqual(widths[0], widths[1], delta=6)
        self.search("blocks_play")
        self.assertTrue(self.ask("document.getElementById('results').hidden"))
        self.assertGreater(self.ask("[...document.querySelectorAll('#flame g')].filter((g) => g.__data__.highlight).length"), 0)
        self.search("")

    def search(self, text):
        self.ask("(() => { const s = document.getElementById('search'); s.value = '%s'; s.dispatchEvent(new Event('input')); })()" % text)

    def test_search_finds_addresses_and_functions(self):
        self.show("memory")
        mapped, = [r for r in self.rows if r["function"] == "aclrtMallocPhysical"]
        self.search(re.search(r"handle=\[?(0x[0-9a-f]+)", mapped["arguments"]).group(1))
        self.assertIn("physical", self.ask("document.querySelector('#results button').innerText"))
        self.ask("document.querySelector('#results button').click()")
        self.assertIn("physical", self.ask("document.getElementById('block').innerText"))
        self.search("mappings_play")
        found = self.ask("[...document.querySelectorAll('#results button')].map((b) => b.innerText)")
        self.assertTrue(found and all("mappings_play" in text for text in found), found)
        self.search("no such text")
        self.assertEqual(self.ask("document.querySelectorAll('#results button').length"), 0)
        self.search("")

    def test_a_group_of_the_legend_is_chosen(self):
        self.show("memory")
        self.choose("by", "kind")
        self.ask("document.querySelector('#groups tbody tr').click()")
        self.assertEqual(self.ask("[state.group, document.querySelectorAll('#groups .chosen').length]"), [0, 1])
        self.ask("document.querySelector('#groups tbody tr').click()")
        self.assertEqual(self.ask("document.querySelectorAll('#groups .chosen').length"), 0)
        self.choose("by", "place")

    def test_facts_are_links(self):
        self.ask("document.getElementById('fact-calls').closest('button').click()")
        self.assertEqual(self.ask("state.view"), "totals")
        self.ask("document.getElementById('fact-peak').closest('button').click()")
        self.assertEqual(self.ask("[state.view, state.t === data.peakAt]"), ["memory", True])

    def test_print_has_the_chart_the_facts_and_the_tables(self):
        self.show("memory")
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        parts = self.ask("[...document.querySelectorAll('#main > :not(.bar), #facts')].map((n) => { const b = n.getBoundingClientRect(); return [b.top, b.bottom]; }).filter(([a, b]) => b > a)")
        hidden = self.ask("['#facts .fact', '#live th button', '#views', '#find', '#panel .bar'].map((s) => getComputedStyle(document.querySelector(s)).display === 'none')")
        chart = self.ask("(() => { const [c, p] = ['#chart canvas', '#panel'].map((s) => document.querySelector(s).getBoundingClientRect()); return [c.bottom, p.top]; })()")
        self.browser.call("Emulation.setEmulatedMedia", media="")
        self.assertEqual(hidden, [False, False, True, True, True])
        self.assertLessEqual(chart[0], chart[1])
        for above, below in zip(parts, parts[1:]):
            self.assertLessEqual(above[1], below[0])

    def test_views_use_the_window(self):
        """No view is wider than the window, and the parts of a view end at its lower edge."""
        self.browser.size(1600, 1000)
        for view in ("memory", "lives", "flame", "totals"):
            self.show(view)
            low = self.ask("Math.max(...[...document.querySelectorAll('#main > *')].map((n) => n.getBoundingClientRect().bottom))")
            self.assertGreater(low, 940, view)
            self.assertLessEqual(low, 1000, view)
            self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), 1600, view)
        self.browser.size(1200, 900)

    def pinned(self):
        """Bytes of pinned memory that were allocated."""
        return sum(self.size_of(r) for r in self.rows if r["function"] == "aclrtMallocHost" and r["result"] == "0")

    def test_totals(self):
        self.show("totals")
        calls = self.ask("document.getElementById('total-calls').textContent").replace(",", "")
        self.assertEqual(int(calls), len(self.rows))
        errors = self.ask("document.getElementById('total-errors').textContent").replace(",", "")
        self.assertEqual(int(errors), sum(r["result"] not in ("0", "") and r["function"] != "aclrtGetSocName" for r in self.rows))
        table = self.ask("Object.fromEntries([...document.querySelectorAll('#functions tbody tr')].map((r) => [r.children[0].textContent, r.children[1].textContent]))")
        for name in ("aclrtMalloc", "aclrtFree", "aclrtMapMem"):
            self.assertEqual(int(table[name].replace(",", "")), sum(r["function"] == name for r in self.rows))

    def test_phones_and_themes(self):
        self.browser.size(390, 800)
        for view in ("memory", "addresses", "lives", "streams", "flame", "findings", "totals"):
            self.show(view)
            wide = self.ask("document.documentElement.scrollWidth")
            self.assertLessEqual(wide, 400, view)
        name = self.ask("document.getElementById('program').textContent")
        self.ask("document.getElementById('program').textContent = 'graph_replay.trace'")
        self.assertGreater(self.ask("document.getElementById('search').offsetWidth"), 120)
        self.assertLessEqual(self.ask("document.documentElement.scrollWidth"), 400)
        self.ask("document.getElementById('program').textContent = '%s'" % name)
        self.show("memory")
        before = self.ask("getComputedStyle(document.body).backgroundColor")
        self.ask("document.getElementById('theme').click()")
        self.assertNotEqual(self.ask("getComputedStyle(document.body).backgroundColor"), before)
        self.ask("document.getElementById('theme').click()")
        self.browser.size(1200, 900)


class Findings(unittest.TestCase):
    def test_findings_have_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, found, page = (os.path.join(folder, name) for name in ("t", "found.json", "page.html"))
            call("run", "--quiet", "--trace", trace, "--json=" + found, "--report", page, RACE, code=99)
            chrome = browser.Browser()
            try:
                chrome.size(1200, 900)
                chrome.open(page)
                chrome.evaluate("document.querySelector('#views button[data-view=findings]').click()")
                with open(found, encoding="utf-8") as file:
                    findings = json.load(file)["findings"]
                self.assertEqual(chrome.evaluate("data.findings.length"), len(findings))
                text = chrome.evaluate("document.getElementById('main').innerText")
                self.assertIn(findings[0]["message"], text)
                chrome.evaluate("document.querySelector('.finding button').click()")
                self.assertIn("Live at", chrome.evaluate("document.getElementById('panel').innerText"))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()

    def test_a_finding_in_a_wrapper_has_the_time_of_its_own_call(self):
        """Times equal the times that aclmem trace prints: both count from the beginning of the trace."""
        with tempfile.TemporaryDirectory() as folder:
            trace, found, page = (os.path.join(folder, name) for name in ("t", "found.json", "page.html"))
            call("run", "--quiet", "--trace", trace, "--json=" + found, "--report", page, WRAPPER, code=99)
            with open(found, encoding="utf-8") as file:
                findings = json.load(file)["findings"]
            printed = call("trace", trace).splitlines()
            times = {name: [float(line.split()[0]) for line in printed if " %s(" % name in line]
                     for name in ("aclrtMemset", "aclrtMalloc")}
            self.assertEqual([len(t) for t in times.values()], [4, 3])
            expected = {"use-after-free": times["aclrtMemset"][3], "leak.block": times["aclrtMalloc"][2]}
            self.assertEqual({f["kind"] for f in findings}, set(expected))
            chrome = browser.Browser()
            try:
                chrome.open(page)
                chrome.evaluate("document.querySelector('#views button[data-view=findings]').click()")
                shown = chrome.evaluate("[...document.querySelectorAll('.finding')].map((f) => [f.querySelector('b').textContent, Number(f.querySelector('button').dataset.at)])")
                self.assertEqual({kind: round(at / 1e9, 6) for kind, at in shown}, expected)
                # Its block: the one whose address the message has, with the stacks of its making and of its end.
                address = re.search(r"0x[0-9a-f]+", findings[0]["message"]).group(0)
                chrome.evaluate("document.querySelector('.finding button[data-block]').click()")
                text = chrome.evaluate("document.getElementById('block').innerText")
                self.assertIn(address, text)
                for name in ("made by", "block_alloc", "bad", "freed by", "block_free"):
                    self.assertIn(name, text)
                chrome.evaluate("document.querySelector('#views button[data-view=lives]').click()")
                self.assertIn("1 never freed", chrome.evaluate("document.getElementById('lives-figures').textContent"))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()

    def test_names_of_the_trace_are_text_and_an_empty_one_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            snapshot = os.path.join(folder, "snapshot.json")
            evil = "<img src=x onerror=document.title='bad'>"
            frames = [{"name": evil, "filename": evil, "line": 1}]
            with open(snapshot, "w", encoding="utf-8") as file:
                json.dump({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 5, "stream": 0, "frames": frames}]]}, file)
            call("report", snapshot)
            chrome = browser.Browser()
            try:
                chrome.open(snapshot + ".html")
                for view in ("memory", "addresses", "lives", "streams", "flame", "findings", "totals"):
                    chrome.evaluate("document.querySelector('#views button[data-view=%s]').click()" % view)
                self.assertNotEqual(chrome.evaluate("document.title"), "bad")
                self.assertEqual(chrome.evaluate("document.images.length"), 0)
                self.assertEqual(chrome.complaints(), [])
                # A trace without a call, in the same browser: every view is there, with nothing to click on.
                empty = os.path.join(folder, "empty.trace")
                call("run", "--check", "none", "--quiet", "--trace", empty, "true")
                call("report", empty)
                chrome.open(empty + ".html")
                self.assertTrue(chrome.evaluate("document.getElementById('peak').hidden"))
                for view in ("addresses", "lives", "streams", "flame", "findings", "totals"):
                    chrome.evaluate("document.querySelector('#views button[data-view=%s]').click()" % view)
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()


class Places(unittest.TestCase):
    def test_memory_of_the_pool_is_the_programs(self):
        """kv_cache uses libaclmem_pool: its own function is named, and no frame of the pool."""
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t")
            call("run", "--check", "none", "--quiet", "--trace", trace, CACHE, os.path.join(folder, "pool.json"))
            call("report", trace)
            chrome = browser.Browser()
            try:
                chrome.open(trace + ".html")
                names = chrome.evaluate("seriesFor(state.device, 'place').names.map(GROUPS.place.name)")
                self.assertTrue(names and all("kv_cache.c" in name for name in names), names)
                self.assertGreater(chrome.evaluate("document.querySelectorAll('#live details').length"), 0)
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()


    def test_memory_by_python_module(self):
        sizes = {"model": 300, "optimizer": 500}
        events = [{"action": "alloc", "addr": 4096 * (k + 1), "size": size, "stream": 0,
                   "frames": [{"name": "step", "filename": "/home/me/%s.py" % name, "line": 7}, {"name": "main", "filename": "/home/me/train.py", "line": 1}]}
                  for k, (name, size) in enumerate(sizes.items())]
        with tempfile.TemporaryDirectory() as folder:
            snapshot = os.path.join(folder, "snapshot.json")
            with open(snapshot, "w", encoding="utf-8") as file:
                json.dump({"segments": [], "device_traces": [events]}, file)
            call("report", snapshot)
            chrome = browser.Browser()
            try:
                chrome.open(snapshot + ".html")
                shown = chrome.evaluate("(() => { const s = seriesFor(state.device, 'module'), now = s.at(data.duration); return Object.fromEntries(s.names.map((n, k) => [n, now[k]])); })()")
                self.assertEqual(shown, sizes)
                self.assertEqual(chrome.evaluate("leaks(data.blocks, stacks.ofWhere, memoryTest(0)).rows.map((r) => stackShort(r.stack))"),
                                 ["step (optimizer.py:7) ← main", "step (model.py:7) ← main"])
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()


class Large(unittest.TestCase):
    def test_a_million_events_are_drawn_from_a_few_thousand_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lines")
            large.trace_write(path)
            call("report", path)
            chrome = browser.Browser()
            try:
                chrome.size(1280, 860)
                chrome.open(path + ".html")
                first = chrome.evaluate("performance.now()")
                self.assertEqual(chrome.evaluate("changesFor(state.device).n"), large.EVENTS)
                self.assertEqual(chrome.evaluate("document.getElementById('fact-time').textContent"), "{:,} events".format(large.EVENTS))  # no clock
                self.assertEqual(chrome.evaluate("state.by"), "size")  # it has no stacks
                examined = chrome.evaluate(
                    "(() => { const c = document.querySelector('#chart canvas'), s = seriesFor(state.device, state.by), found = [];"
                    " for (const zoom of [1, 0.5, 0.1, 0.03, 0.001]) { const span = data.duration * zoom;"
                    "  for (let k = 0; k < 10; k++) { rangeSet((data.duration - span) * k / 9, span); c.paint(); found.push(s.examined); } }"
                    " return found; })()")
                self.assertLess(max(examined), 45000)
                between, work = large.drag(chrome)
                self.assertGreater(chrome.evaluate("state.from / data.duration"), 0.35)  # it was 0.3
                print("a million events: first paint after %.1f s; while dragging a frame takes %.1f ms (median), %.1f ms at most, and there are %.0f a second"
                      % (first / 1e3, large.middle(work), max(work), 1e3 / large.middle(between)))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()


class TwoRuns(unittest.TestCase):
    def test_what_changed_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = [os.path.join(folder, name) for name in ("before", "after")]
            for trace, calls in zip(runs, ("2000", "4000")):
                call("run", "--check", "none", "--quiet", "--trace", trace, PLAYER, calls, "1")
            call("report", *runs)
            counted = [collections.Counter(r["function"] for r in csv.DictReader(io.StringIO(call("convert", trace, "--to", "csv")))) for trace in runs]
            chrome = browser.Browser()
            try:
                chrome.open(runs[1] + ".html")
                self.assertEqual(chrome.evaluate("state.view"), "compare")
                rows = {row["function"]: row for row in csv.DictReader(io.StringIO(chrome.evaluate("document.getElementById('compare-functions').closest('.table').csv()")))}
                for name in counted[0] | counted[1]:
                    self.assertEqual(int(rows[name]["calls"]), counted[1][name] - counted[0][name], name)
                peaks = [Page.peak_of(call("convert", trace, "--to", "lines")) for trace in runs]
                self.assertEqual(chrome.evaluate("data.totals.peak - data.other.totals.peak"), peaks[1] - peaks[0])
                for key in ("peak", "leaked", "allocated", "calls", "ns"):
                    chrome.evaluate("(() => { const s = document.getElementById('compare-of'); s.value = '%s'; s.dispatchEvent(new Event('change')); })()" % key)
                    sums = chrome.evaluate("compareStacks(data.other, data).reduce((s, r) => [s[0] + r.%s[0], s[1] + r.%s[1]], [0, 0])" % (key, key))
                    if key == "calls":
                        self.assertEqual(sums, [sum(c.values()) for c in counted])
                    if key == "peak":
                        self.assertEqual(sums, peaks)
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()
            self.assertIn("which two", subprocess.run([ACLMEM, "report"] + 3 * [runs[0]], capture_output=True).stderr.decode())


class Pool(unittest.TestCase):
    """The snapshot of a pool, by itself and beside the trace of its run."""

    def check(self, page, snapshot):
        chrome = browser.Browser()
        try:
            chrome.size(1200, 900)
            chrome.open(page)
            chrome.evaluate("document.querySelector('#views button[data-view=pool]').click()")
            with open(snapshot, encoding="utf-8") as file:
                blocks = json.load(file)["blocks"]
            for by in ("stream", "state", "tag"):
                chrome.evaluate("(() => { const s = document.querySelector('#main select'); s.value = '%s'; s.dispatchEvent(new Event('change')); })()" % by)
                rows = chrome.evaluate("[...document.querySelectorAll('#pool-groups tr')].slice(1).map((r) => Number(r.children[1].textContent))")
                self.assertEqual(len(rows), len({block[by] for block in blocks}))
                self.assertEqual(sum(rows), len(blocks))
                total = chrome.evaluate("Number(document.getElementById('pool-groups').dataset.total)")
                self.assertEqual(total, sum(block["size"] for block in blocks))
            self.assertIn("MB", chrome.evaluate("document.getElementById('pool-held').textContent"))
            chrome.size(390, 800)
            self.assertLessEqual(chrome.evaluate("document.documentElement.scrollWidth"), 400)
            self.assertEqual(chrome.complaints(), [])
        finally:
            chrome.close()

    def test_blocks_by_tag_stream_and_state(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, snapshot, page = (os.path.join(folder, name) for name in ("t", "pool.json", "page.html"))
            call("run", "--check", "none", "--quiet", "--trace", trace, CACHE, snapshot)
            call("report", trace, "--pool", snapshot, "--output", page)
            self.check(page, snapshot)
            call("report", snapshot)
            self.check(snapshot + ".html", snapshot)
            call("report", trace, "--force", "--pool", trace, "--output", page, code=1)


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: there is no Chromium here (Debian's package chromium)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])

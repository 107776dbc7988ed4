#!/usr/bin/env python3
"""The page of aclmem report in a real browser: test_page.py ACLMEM PLAYER RACE CACHE WRAPPER [FOLDER FOR PICTURES]

Numbers that the page shows are compared with those that are computed from the trace.
"""
import csv
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

ACLMEM, PLAYER, RACE, CACHE, WRAPPER = sys.argv[1:6]
PICTURES = sys.argv[6] if len(sys.argv) > 6 else None


def call(*arguments, code=0):
    done = subprocess.run([ACLMEM] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != code:
        raise AssertionError("%s: %d\n%s" % (arguments, done.returncode, done.stderr.decode()))
    return done.stdout.decode("latin-1")


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

    def picture(self, name):
        if PICTURES:
            self.browser.picture(os.path.join(PICTURES, name + ".png"))

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def test_memory_over_time(self):
        self.show("memory")
        self.ask("document.querySelector('#main select').value = '0'")
        self.ask("document.querySelector('#main select').dispatchEvent(new Event('change'))")
        peak = self.ask("Number(document.getElementById('chart').dataset.peak)")
        self.assertEqual(peak, self.peak)
        self.ask("document.getElementById('peak').click()")
        self.assertEqual(self.ask("Number(document.getElementById('live').dataset.total)"), self.peak)
        self.picture("memory")
        # A click somewhere lists what was live then, and that is at most the peak.
        self.ask(
            "(() => { const over = document.querySelector('.u-over'), box = over.getBoundingClientRect();"
            " over.dispatchEvent(new MouseEvent('click', {clientX: box.left + box.width / 2, clientY: box.top + 20, bubbles: true})); })()"
        )
        middle = self.ask("Number(document.getElementById('live').dataset.total)")
        self.assertLessEqual(middle, self.peak)
        self.assertIn("player.c", self.ask("document.getElementById('live').innerText"))
        for by in ("kind", "attribute", "process", "stack"):
            self.ask("(() => { const s = document.querySelectorAll('#main select')[1]; s.value = '%s'; s.dispatchEvent(new Event('change')); })()" % by)
            self.assertEqual(self.ask("Number(document.getElementById('chart').dataset.peak)"), self.peak)

    def test_bytes_held_of_the_device(self):
        self.show("memory")
        lines = re.findall(r"device 0: (\d+) bytes held", call("trace", "--tasks", self.trace))
        self.assertEqual(self.ask("Math.max(...data.held.bytes.filter((_, i) => data.held.device[i] === 0))"), max(map(int, lines)))
        self.assertIn("held of the device", self.ask("document.querySelector('.u-legend').textContent"))
        held, live = self.ask("[data.totals.held, data.totals.heldLive]")
        self.assertEqual(live, self.peak)
        self.assertIn(held, map(int, lines))
        self.show("totals")
        self.assertEqual(self.ask("document.getElementById('total-fragmentation').textContent"), "%.1f %%" % (100 * live / held))

    def test_questions_about_blocks(self):
        """The functions of data.js on a few blocks that are made here."""
        self.ask(
            "window.few = {n: 4, made: [10, 20, 30, 40], freed: [50, 0, 35, 60], size: [100, 200, 300, 50], where: [1, 2, 1, 1],"
            " high: [0, 0, 0, 0], low: [4096, 4196, 9000, 4396]}"
        )
        self.assertEqual(self.ask("[9, 10, 49, 50, 99].map((t) => isLive(few, 0, t))"), [False, True, True, False, False])
        live = self.ask("liveAt(few, (i) => i !== 3, 32)")
        self.assertEqual(live["total"], 600)
        self.assertEqual([(row["where"], row["bytes"], row["n"]) for row in live["rows"]], [(1, 400, 2), (2, 200, 1)])
        s = self.ask("(({times, names, values, peak, peakAt}) => ({times, names, values, peak, peakAt}))"
                     "(stacked(few, () => true, (i) => few.where[i], 0, 100, 10, 1))")
        self.assertEqual((s["peak"], s["peakAt"], s["names"]), (600, 30, [1]))
        self.assertEqual([a + b for a, b in zip(*s["values"])], [100, 300, 600, 600, 350, 250, 200, 200, 200, 200])
        rows = self.ask("spaceAt(few, () => true, 45, 64)")
        self.assertEqual([(row["start"], row["end"], row["items"]) for row in rows], [(4096, 4446, [0, 1, 3])])
        self.assertEqual(self.ask("heldAt({n: 3, time: [5, 15, 25], bytes: [7, 8, 9], device: [0, 1, 0]}, 0, [0, 5, 20, 30])"), [0, 7, 7, 9])
        tree = self.ask("flameTree([{frames: [1, 0], calls: 2}, {frames: [0], calls: 3}, {frames: [1], calls: 0}], ['main', 'leaf'], 'calls')")
        self.assertEqual((tree["value"], tree["children"][0]["value"], tree["children"][0]["children"][0]["name"]), (5, 5, "leaf"))
        self.assertEqual(self.ask("[0, 1023, 1024, 1536, 1 << 20, 2 ** 50].map(bytesText)"),
                         ["0 B", "1023 B", "1.0 KB", "1.5 KB", "1.0 MB", "1024 TB"])
        self.assertEqual(self.ask("[5, 12345, 12345678, 123456789012].map(timeText)"), ["5 ns", "12.3 µs", "12.3 ms", "123.46 s"])

    def test_addresses(self):
        self.show("addresses")
        piece = 2 << 20
        mapped = [int(r["end_ns"]) for r in self.rows if r["function"] == "aclrtMapMem"]
        unmapped = [int(r["begin_ns"]) for r in self.rows if r["function"] == "aclrtUnmapMem"]
        self.ask("state.time = %d; show('addresses')" % ((mapped[-1] + unmapped[0]) // 2))
        figures = self.ask("({...document.getElementById('space-figures').dataset})")
        self.assertEqual((int(figures["reserved"]), int(figures["mapped"])), (4 * piece, 2 * piece))
        self.picture("addresses")
        self.ask("document.getElementById('time').value = 10000; document.getElementById('time').dispatchEvent(new Event('input'))")
        self.assertEqual(self.ask("Number(document.getElementById('space-figures').dataset.mapped)"), 0)

    def test_lives(self):
        self.show("lives")
        text = self.ask("document.getElementById('lives-figures').textContent")
        self.assertIn("1 whose memory outlived its handle", text)
        self.assertIn("0 never freed", text)
        self.picture("lives")

    def test_streams(self):
        self.show("streams")
        rows = self.ask("[...document.querySelectorAll('#streams tr')].map((r) => [...r.children].map((c) => c.textContent))")
        self.assertEqual(sum(int(row[1]) for row in rows[1:]), sum(r["function"].startswith("aclrtMemcpy") for r in self.rows))
        self.assertEqual(self.ask("data.marks.n"), 4)
        # A copy that the stream did by itself is where it ran, the others where their calls are.
        ran = re.findall(r": aclrtMemcpyAsync ran", call("trace", "--tasks", self.trace))
        began = min(int(r["begin_ns"]) for r in self.rows)
        calls = {int(r["begin_ns"]) - began for r in self.rows if r["function"].startswith("aclrtMemcpy")}
        self.assertEqual(sum(begin not in calls for begin in self.ask("Array.from(data.copies.begin)")), len(ran))
        self.assertEqual(self.ask("data.hasTasks"), len(ran) > 0)
        self.picture("streams")

    def test_flame_graph(self):
        self.show("flame")
        self.assertEqual(self.ask("Number(document.getElementById('flame').dataset.total)"), self.peak)
        self.ask("(() => { const s = document.querySelector('#main select'); s.value = 'calls'; s.dispatchEvent(new Event('change')); })()")
        self.assertEqual(self.ask("Number(document.getElementById('flame').dataset.total)"), len(self.rows))
        self.assertGreater(self.ask("document.querySelectorAll('#flame rect').length"), 5)
        self.ask("(() => { const s = document.getElementById('search'); s.value = 'blocks_play'; s.dispatchEvent(new Event('input')); })()")
        self.picture("flame")

    def test_totals(self):
        self.show("totals")
        calls = self.ask("document.getElementById('total-calls').textContent").replace(",", "")
        self.assertEqual(int(calls), len(self.rows))
        errors = self.ask("document.getElementById('total-errors').textContent").replace(",", "")
        self.assertEqual(int(errors), sum(r["result"] not in ("0", "") and r["function"] != "aclrtGetSocName" for r in self.rows))
        table = self.ask("Object.fromEntries([...document.querySelectorAll('#functions tr')].slice(1).map((r) => [r.children[0].textContent, r.children[1].textContent]))")
        for name in ("aclrtMalloc", "aclrtFree", "aclrtMapMem"):
            self.assertEqual(int(table[name].replace(",", "")), sum(r["function"] == name for r in self.rows))
        self.picture("totals")

    def test_phones_and_themes(self):
        self.browser.size(390, 800)
        for view in ("memory", "addresses", "lives", "streams", "flame", "findings", "totals"):
            self.show(view)
            wide = self.ask("document.documentElement.scrollWidth")
            self.assertLessEqual(wide, 400, view)
        self.show("memory")
        before = self.ask("getComputedStyle(document.body).backgroundColor")
        self.ask("document.getElementById('theme').click()")
        self.assertNotEqual(self.ask("getComputedStyle(document.body).backgroundColor"), before)
        self.picture("phone")
        self.ask("document.getElementById('theme').click()")
        self.browser.size(1200, 900)


class Findings(unittest.TestCase):
    def test_findings_have_their_moment(self):
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
                if PICTURES:
                    chrome.picture(os.path.join(PICTURES, "findings.png"))
                chrome.evaluate("document.querySelector('.finding button').click()")
                self.assertTrue(re.search("Live at", chrome.evaluate("document.getElementById('main').innerText")))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()

    def test_a_finding_in_a_wrapper_has_the_time_of_its_own_call(self):
        """Times are compared with those that aclmem trace prints, which count from the same beginning."""
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
            if PICTURES:
                chrome.picture(os.path.join(PICTURES, "pool.png"))
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
    unittest.main(argv=sys.argv[:1])

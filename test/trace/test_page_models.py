#!/usr/bin/env python3
"""The page's view of captured models and their replays: test_page_models.py ACLMEM GRAPH BRANCHES"""
import csv
import functools
import io
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402

ACLMEM, GRAPH, BRANCHES = sys.argv[1:4]
call = functools.partial(browser.command, ACLMEM)


class Models(unittest.TestCase):
    """graph_replay captures one model on two streams and replays it."""

    def test_tasks_and_replays_are_those_of_the_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t")
            call("run", "--check", "none", "--quiet", "--trace", trace, "--report", trace + ".html", GRAPH)
            rows = list(csv.DictReader(io.StringIO(call("convert", trace, "--to", "csv"))))
            names = [r["function"] for r in rows]
            begin, end = names.index("aclmdlRICaptureBegin"), names.index("aclmdlRICaptureEnd")
            tasks = [r for r in rows[begin:end] if re.match("aclrt(Memcpy|Record|StreamWait|Launch)", r["function"])]
            streams = [re.search(r"stream=(0x[0-9a-f]+)", r["arguments"]).group(1) for r in tasks]
            copied = sum(int(re.search(r"count=(\d+)", r["arguments"]).group(1)) for r in tasks if r["function"].startswith("aclrtMemcpy"))
            replays = [r for r in rows if r["function"] == "aclmdlRIExecuteAsync"]
            chrome = browser.Browser()
            try:
                chrome.size(1200, 900)
                chrome.open(trace + ".html")
                self.assertEqual(chrome.evaluate("document.getElementById('fact-findings').textContent"), "not checked")
                chrome.evaluate("document.querySelector('#views button[data-view=models]').click()")
                figures = chrome.evaluate("Object.fromEntries(['tasks', 'streams', 'edges', 'replays', 'bytes'].map((id) => [id, document.getElementById('model-' + id).textContent]))")
                self.assertEqual({k: int(v) for k, v in figures.items() if k != "bytes"},
                                 {"tasks": len(tasks), "streams": len(set(streams)), "edges": 2, "replays": len(replays)})
                self.assertEqual(figures["bytes"], chrome.evaluate("bytesText(%d)" % copied))
                graph = chrome.evaluate("(() => { const g = graphOf(0); return {nodes: g.nodes.map((i) => [data.names[data.nodes.name[i]], data.streams[data.nodes.stream[i]].name]),"
                                        " edges: g.waits.map((i) => [data.nodes.from[i], i]), x: g.x}; })()")
                self.assertEqual(graph["nodes"], [[r["function"], s] for r, s in zip(tasks, streams)])
                # Each wait is for the record of its event, and right of it.
                event = lambda k: re.search(r"event=(0x[0-9a-f]+)", tasks[k]["arguments"]).group(1)
                for record, wait in graph["edges"]:
                    self.assertEqual((tasks[record]["function"], tasks[wait]["function"], event(record)), ("aclrtRecordEvent", "aclrtStreamWaitEvent", event(wait)))
                    self.assertLess(graph["x"][record], graph["x"][wait])
                # A replay is on the stream of its call, not before it; calls of the capture are no work of the streams.
                shown = chrome.evaluate("replaysOf(0).map((i) => [data.copies.begin[i], data.copies.end[i], data.streams[data.copies.stream[i]].name, data.copies.bytes[i]])")
                self.assertEqual([r[2:] for r in shown], [[streams[0], copied]] * len(replays))
                self.assertEqual(chrome.evaluate("Array.from(data.tasks.name, (k) => data.names[k]).filter((name) => name.startsWith('aclmdlRI')).length"), 0)  # the parts of a replay are one
                for (began, ended, _, _), row in zip(shown, replays):
                    self.assertGreaterEqual(began, int(row["begin_ns"]))
                    self.assertGreater(ended, began)
                others = sum(name in ("aclrtMemcpy", "aclrtMemcpyAsync") for name in names) - sum(t["function"] == "aclrtMemcpyAsync" for t in tasks)
                self.assertEqual(chrome.evaluate("[data.copies.n - replaysOf(0).length, data.marks.n]"), [others, 0])
                rows_shown = chrome.evaluate("[...document.querySelectorAll('#replays tbody tr')].length")
                self.assertEqual(rows_shown, len(replays))
                self.times_are_checked(chrome, trace, shown, len(tasks))
                # A click on a task shows its capture; a click on a replay shows the replay in the streams, and that leads back.
                chrome.evaluate("(() => { const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect(), g = graphOf(0), k = g.nodes.findIndex((i) => data.nodes.bytes[i] > 0);"
                                " c.dispatchEvent(new MouseEvent('click', {clientX: box.left + 86 + g.x[k] + 20, clientY: box.top + 20, bubbles: true})); })()")
                text = chrome.evaluate("document.getElementById('node').innerText")
                self.assertIn("append_token", text)
                self.assertIn("capture_step", text)
                chrome.evaluate("document.querySelectorAll('#replays tbody tr')[3].click()")
                self.assertEqual(chrome.evaluate("[state.view, Math.round(state.t)]"), ["streams", shown[3][0]])
                replayed = chrome.evaluate("[...document.querySelectorAll('#streams tbody tr')].map((r) => Number(r.children[2].textContent))")
                self.assertEqual(sum(replayed), len(replays))
                chrome.evaluate("(() => { const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect(), i = replaysOf(0)[3]; c.setPointerCapture = () => {};"
                                " for (const kind of ['pointerdown', 'pointerup']) c.dispatchEvent(new PointerEvent(kind, {clientX: box.left + timeX(data.copies.begin[i], c.clientWidth) + 3,"
                                " clientY: box.top + 22 + 34 * data.copies.stream[i] + 17, button: 0, bubbles: true})); })()")
                self.assertIn("tasks of model 1", chrome.evaluate("document.getElementById('call').innerText"))
                self.assertEqual(chrome.evaluate("document.querySelectorAll('#replay-tasks tbody tr').length"), len(tasks))
                chrome.evaluate("document.querySelectorAll('#replay-tasks tbody tr')[0].click()")
                self.assertEqual(chrome.evaluate("[state.view, state.node]"), ["models", 0])
                self.assertIn("median of %d" % len(replays), chrome.evaluate("document.getElementById('node-times').textContent"))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()

    def times_are_checked(self, chrome, trace, replays, n_tasks):
        """Each task of each replay has the time that the trace has."""
        units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        printed = re.findall(r"^(\S+) .* model 0x[0-9a-f]+, task (\d+): (\w+) ran, .* <(\S+) (\w+)>$", call("trace", "--tasks", trace), flags=re.M)
        self.assertEqual(len(printed), len(replays) * n_tasks)
        handles = set(re.findall(r" stream (0x[0-9a-f]+): aclmdlRIExecuteAsync ran", call("trace", "--tasks", trace)))
        self.assertEqual(handles, {replays[0][2]})
        runs = chrome.evaluate("Array.from({length: data.runs.n}, (_, i) => [data.runs.end[i], data.runs.node[i], data.names[data.nodes.name[data.runs.node[i]]], runTime(i), data.runs.replay[i], data.runs.begin[i]])")
        for (at, number, name, time, unit), run in zip(printed, runs):
            self.assertEqual([int(number), name], run[1:3])
            self.assertLessEqual(abs(float(time) * units[unit] - run[3]), 0.1 * units[unit])
            self.assertLessEqual(run[0], float(at) * 1e9 + 1000)
        first = chrome.evaluate("replaysOf(0)[0]")
        edges = chrome.evaluate("graphOf(0).waits.map((i) => [data.nodes.from[i], i])")
        for k, (began, ended, _, _) in enumerate(replays):
            mine = {run[1]: run for run in runs if run[4] == chrome.evaluate("replaysOf(0)[%d]" % k)}
            self.assertEqual(sorted(mine), list(range(n_tasks)), first)
            self.assertTrue(all(began <= run[5] <= run[0] <= ended for run in mine.values()))
            for record, wait in edges:
                self.assertLessEqual(mine[record][0], mine[wait][0])

    def test_branches_of_conditional_tasks(self):
        """The program prints the handles: the branches of an if, then the cases of a switch in the second branch."""
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t")
            branches = call("run", "--check", "none", "--quiet", "--trace", trace, "--report", trace + ".html", BRANCHES).split()
            rows = list(csv.DictReader(io.StringIO(call("convert", trace, "--to", "csv"))))
            into = {}  # handle: copies that were captured
            stack, captured = [], lambda row: re.search(r"modelRI=(0x[0-9a-f]+)", row["arguments"]).group(1)
            for row in rows:
                if row["function"] in ("aclmdlRICaptureBegin", "aclmdlRICaptureToModelRIBegin"):
                    stack.append(captured(row) if "ToModel" in row["function"] else "model")
                elif row["function"] == "aclmdlRICaptureEnd":
                    stack.pop()
                elif row["function"] == "aclrtMemcpyAsync":
                    into[stack[-1]] = into.get(stack[-1], 0) + 1
            chrome = browser.Browser()
            try:
                chrome.size(1200, 900)
                chrome.open(trace + ".html")
                self.assertEqual(chrome.evaluate("document.getElementById('fact-models').textContent"), "1")
                chrome.evaluate("document.querySelector('#views button[data-view=models]').click()")
                self.assertEqual(chrome.evaluate("[...document.querySelectorAll('#model option')].length"), 1)
                shown = chrome.evaluate(
                    "graphOf(0).lanes.map((l) => ({handle: data.models[l.model].handle, by: l.by === undefined ? '' : nodeName(l.by) + ': ' + branchName(data.models[l.model]),"
                    " names: l.nodes.map(nodeName), begin: l.begin, end: l.end, x: l.x, task: l.by === undefined ? 0 : graphOf(0).x[graphOf(0).place.get(l.by)]}))")
                copy = "device to device"
                self.assertEqual([(s["by"], s["names"]) for s in shown],
                                 [("", [copy, "if", copy, copy]), ("if: then", 3 * [copy]), ("if: else", [copy, "switch"]),
                                  ("switch: case 0", [copy]), ("switch: case 1", 2 * [copy]), ("switch: case 2", [])])
                self.assertEqual([s["handle"] for s in shown[1:]], branches)
                # One branch of the if ran and one case of the switch, in the one replay, while their tasks ran.
                ran = chrome.evaluate("Array.from({length: data.runs.n}, (_, i) => [data.nodes.model[data.runs.node[i]], data.runs.replay[i] === replaysOf(0)[0], data.runs.begin[i], data.runs.end[i], data.runs.node[i]])")
                self.assertEqual([all(r[1] for r in ran), sum(r[0] == 0 for r in ran)], [True, 4])
                condition, = [r for r in ran if r[4] == chrome.evaluate("graphOf(0).lanes[0].nodes[1]")]
                inner = [r for r in ran if r[0] != 0]
                self.assertTrue(inner)
                for r in inner:
                    self.assertTrue(condition[2] <= r[2] <= r[3] <= condition[3])
                self.assertEqual([s["names"].count(copy) for s in shown[1:]], [into.get(handle, 0) for handle in branches])
                for branch in shown[1:]:  # right of its task, and left of what follows it
                    self.assertLess(branch["task"], branch["begin"])
                    self.assertLessEqual(branch["end"], shown[0]["x"][2])
                figures = chrome.evaluate("['tasks', 'branches', 'streams', 'replays', 'bytes'].map((id) => document.getElementById('model-' + id).textContent)")
                self.assertEqual(figures, ["4", "8", "5", "1", chrome.evaluate("bytesText(%d)" % (3 * 4096))])
                chrome.evaluate("(() => { const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect(), g = graphOf(0);"
                                " c.dispatchEvent(new MouseEvent('click', {clientX: box.left + 86 + g.x[1] + 20, clientY: box.top + 20, bubbles: true})); })()")
                text = chrome.evaluate("document.getElementById('node').innerText")
                self.assertIn("then with 3 tasks, else with 2 tasks", text)
                self.assertIn("condition_add", text)
                chrome.evaluate("(() => { const c = document.querySelector('#main canvas'), box = c.getBoundingClientRect(), g = graphOf(0);"
                                " c.dispatchEvent(new MouseEvent('click', {clientX: box.left + 86 + g.lanes[2].x[0] + 20, clientY: box.top + 2 * 44 + 20, bubbles: true})); })()")
                self.assertIn("second_branch", chrome.evaluate("document.getElementById('node').innerText"))
                self.assertEqual(chrome.complaints(), [])
            finally:
                chrome.close()


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: there is no Chromium here (Debian's package chromium)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])

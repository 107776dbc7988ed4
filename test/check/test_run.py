#!/usr/bin/env python3
"""The command `aclmem run` itself: test_run.py ACLMEM BUGS"""
import json
import os
import pty
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ACLMEM, BUGS = sys.argv[1:3]


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, text=None, mode=0o600):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, mode)
        return path

    def run_it(self, *arguments, **env):
        return subprocess.run(
            [ACLMEM, "run"] + list(arguments),
            env=dict(os.environ, **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def found(self, *arguments, **env):
        path = self.path("found.json")
        done = self.run_it("--json=" + path, *arguments, **env)
        with open(path) as file:
            return done, json.load(file)

    def test_odd_bytes_in_the_command_line_lose_nothing(self):
        program = os.path.join(os.fsencode(self.folder.name), b"bu\x07g\xff")
        os.symlink(os.fsencode(os.path.abspath(BUGS)), program)
        for argument in (b"\x07", b"\xff\xfe", b"\xe2\x28"):
            report = self.path("odd.json")
            done = subprocess.run(
                [ACLMEM, "run", "--json", report, program, b"leak.block/forgotten", argument],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            with open(report) as file:
                found = json.load(file)
            self.assertEqual(done.returncode, 99, done.stderr)
            self.assertEqual([f["kind"] for f in found["findings"]], ["leak.block"])
            self.assertIn("take_block", [f["function"] for f in found["findings"][0]["calls"][0]["stack"]])

    def test_the_kinds_are_listed(self):
        done = self.run_it("--list-checks")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("race.host", done.stdout)
        self.assertIn("(not by default)", done.stdout)

    def test_the_exit_code_is_the_programs_unless_there_is_a_finding(self):
        for command, code in (
            (["true"], 0),
            (["sh", "-c", "exit 7"], 7),
            (["sh", "-c", "kill -9 $$"], 137),
            ([BUGS, "leak.block/loop"], 99),
            (["--exit-code", "5", BUGS, "leak.block/loop"], 5),
            (["--exit-code=0", BUGS, "leak.block/loop"], 0),
            ([BUGS, "no such case"], 2),
        ):
            self.assertEqual(self.run_it(*command).returncode, code, command)

    def test_wrong_arguments_are_refused_with_2(self):
        for arguments, words in (
            ([], "which program?"),
            (["--check", "leek", "true"], 'no kind "leek"'),
            (["--check", "", "true"], ""),
            (["--exit-code", "x", "true"], "takes a number"),
            (["--chaos", "1..", "true"], "takes seeds"),
            (["--fail", "aclrtMalloc", "true"], "takes FUNCTION:N"),
            (["--fail", "aclrtMalloc:0", "true"], "takes FUNCTION:N"),
            (["--fail", "aclrtMalloc:1=x", "true"], "takes FUNCTION:N"),
            (["--fail", "aclrtMalloc:each@", "true"], "takes FUNCTION:N"),
            (["--fail", "aclrtNothing:1", "true"], 'no function "aclrtNothing"'),
            (["--fail", "aclrtNot*x:each", "true"], 'no function "aclrtNot*x"'),
            (["--fail", "aclrtM*:each", "--trace", self.path("t"), "true"], "--trace records one run"),
            (["--fail", "aclrtM*:each", "--chaos", "1..2", "true"], "choose one"),
            (["--fail", "aclrtM*:each", "--junit", self.path("j"), "true"], "--json has"),
            (["--all", "true"], "--all is for --fail"),
            (["--report", self.path("p"), "true"], "--report makes a page of --trace FILE"),
            (["--suppress", "/no/such/file", "true"], "No such file"),
            (["--suppress", self.folder.name, "true"], "Is a directory"),
            (["--suppress", self.path("a", "leek: main\n"), "true"], 'no kind "leek"'),
            (["--suppress", self.path("b", "nonsense\n"), "true"], 'no "kind: frame"'),
        ):
            done = self.run_it(*arguments)
            self.assertIn(words, done.stderr)
            if words:
                self.assertEqual(done.returncode, 2, arguments)
        self.assertIn("free-in-use", self.run_it("--check", "leek", "true").stderr)

    def test_a_file_that_cannot_be_written_is_refused_before_the_program_runs(self):
        for option in ("--json", "--junit", "--report"):
            trace = ["--trace", self.path(option)] if option == "--report" else []
            done = self.run_it(*trace, option + "=/no/such/folder/file", "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (2, ""), option)
            self.assertIn("/no/such/folder/file: No such file", done.stderr)
        if os.path.exists("/dev/full"):
            for option in ("--json", "--report"):
                done = self.run_it("--trace", self.path("full" + option), option + "=/dev/full", "true")
                self.assertEqual(done.returncode, 2, option)
                self.assertIn("/dev/full: No space left", done.stderr)

    def test_a_refused_run_leaves_no_file_behind(self):
        trace = self.path("existing.trace")
        with open(trace, "w") as file:
            file.write("of somebody else")
        for refused in (["--trace", trace], ["--chaos", "x"], ["--chaos", "1..99999999999"]):
            json_path, junit = self.path("new.json"), self.path("new.xml")
            done = self.run_it("--json=" + json_path, "--junit", junit, *refused, "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (2, ""), refused)
            self.assertFalse(os.path.exists(json_path) or os.path.exists(junit), refused)
        kept = self.path("kept.json")
        with open(kept, "w") as file:
            file.write("{}")
        self.run_it("--json=" + kept, "--trace", trace, "echo", "ran")
        with open(kept) as file:
            self.assertEqual(file.read(), "{}")

    def test_chaos_has_a_limit_of_seeds(self):
        for seeds in ("1..99999999999", "1..99999999999999999999999", "1..100001", "1..99999,1..2", "7..3", "1000000000",
                      "99999999999999999999999"):
            done = self.run_it("--chaos", seeds, "echo", "ran")
            self.assertEqual((done.returncode, done.stdout), (2, ""), seeds)
            self.assertRegex(done.stderr, "--chaos (runs at most 100000 seeds|takes seeds)")

    def start(self, *arguments):
        """A run in a session of its own, for which Ctrl-C is not ignored."""
        started = subprocess.Popen(
            [ACLMEM, "run"] + list(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.stderr.close)
        return started

    def test_odd_bytes_in_names_and_arguments_lose_nothing(self):
        for odd in (b"\x07", b"\xff", b"\x1b[31m"):
            program = os.fsencode(self.folder.name) + b"/bugs" + odd
            shutil.copy(BUGS, program)
            path = self.path("odd.json")
            junit = self.path("odd.xml")
            done = subprocess.run(
                [ACLMEM, "run", b"--json=" + os.fsencode(path), "--junit", junit, program, "leak.block/loop", odd], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            self.assertEqual([f["kind"] for f in found["findings"]], ["leak.block"], done.stderr)
            frames = [frame["function"] for call in found["findings"][0]["calls"] for frame in call["stack"]]
            self.assertIn("main", frames, done.stderr)
            case = xml.etree.ElementTree.parse(junit).getroot().find(".//testcase")
            self.assertTrue(case.get("name").startswith(self.folder.name + "/bugs"))

    def test_interrupting_ends_all_runs(self):
        started = self.start("--chaos", "1..3", "sh", "-c", "echo ready; exec sleep 100")
        self.assertEqual(started.stdout.readline(), "ready\n")
        os.killpg(started.pid, signal.SIGINT)
        _, told = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 130, told)
        self.assertIn("stopped by signal 2 (Interrupt) after 0 of 3 seeds", told)

        script = self.path(
            "script",
            "#!/bin/sh\ntest -e mark && { echo ready >&2; exec sleep 100; }\n: > mark\nexec %s failing/careful\n" % os.path.abspath(BUGS),
            0o700,
        )
        started = self.start("--fail", "aclrtM*:each", "sh", "-c", "cd %s && exec %s" % (self.folder.name, script))
        self.assertIn("ready\n", iter(started.stderr.readline, ""))
        os.kill(started.pid, signal.SIGINT)  # as the terminal: the program is in a group of its own
        _, told = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 130, told)
        self.assertIn("stopped by signal 2 (Interrupt)", told)

    def test_the_program_gets_a_sigterm_and_decides(self):
        program = "import signal, sys; signal.signal(15, lambda *a: sys.exit(7)); print('ready', flush=True); signal.pause()"
        started = self.start(sys.executable, "-c", program)
        self.assertEqual(started.stdout.readline(), "ready\n")
        os.kill(started.pid, signal.SIGTERM)
        _, told = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 7, told)

    def test_a_program_that_cannot_run_is_126_or_127(self):
        for program, code, words in (
            ("/no/such/program", 127, "no such program"),
            ("no-such-program", 127, "no such program"),
            ("", 127, "no such program"),
            (self.path("plain", "x"), 126, "may not be executed"),
            (self.path("text", "echo hello\n", 0o700), 126, "neither a program nor a script"),
            (self.folder.name, 126, "is a folder"),
            (self.path("bad", "#!/no/such/interpreter\n", 0o700), 127, "No such file"),
        ):
            done = self.run_it(program)
            self.assertEqual((done.returncode, done.stdout), (code, ""), program)
            self.assertIn(words, done.stderr)

    def test_a_folder_in_the_path_does_not_hide_a_program(self):
        for name in ("first", "second"):
            os.mkdir(os.path.join(self.folder.name, name))
        os.mkdir(self.path("first/tool"))
        self.path("second/tool", "#!/bin/sh\nexit 3\n", 0o700)
        path = ":".join([self.path("first"), self.path("second"), os.environ["PATH"]])
        self.assertEqual(self.run_it("tool", PATH=path).returncode, 3)

    def test_a_run_inside_a_run_reports_its_own_findings(self):
        done = self.run_it(ACLMEM, "run", BUGS, "leak.block/loop")
        self.assertEqual(done.returncode, 99, done.stderr)
        self.assertEqual(done.stderr.count("SUMMARY: aclmem: leak.block"), 1)
        for layers in ("check", "trace,check", "check,trace"):
            done, found = self.found(BUGS, "leak.block/loop", ACLMEM_LAYERS=layers, ACLMEM_TRACE=self.path("t-%p"))
            self.assertEqual([f["kind"] for f in found["findings"]], ["leak.block"], done.stderr)

    def test_a_program_that_the_system_starts_as_another_user_is_126(self):
        if os.geteuid() == 0:
            programs = []
            for name, mode, user, group in (("suid", 0o4755, 65534, 0), ("sgid", 0o2755, 0, 65534)):
                path = self.path(name, "", 0o700)
                shutil.copyfile("/bin/true", path)
                os.chown(path, user, group)
                os.chmod(path, mode)
                programs.append(path)
        else:
            programs = [p for p in map(shutil.which, ("su", "mount", "passwd")) if p and os.stat(p).st_mode & stat.S_ISUID]
        if not programs:
            self.skipTest("there is no set-uid program here, and only root can make one")
        for program in programs:
            done = self.run_it(program)
            self.assertEqual((done.returncode, done.stdout), (126, ""), program)
            self.assertIn("is set-uid or set-gid: the system drops the variables", done.stderr)

    def test_a_script_is_followed_into_what_it_starts(self):
        script = self.path("script", "#!/bin/sh\n%s leak.block/loop\n%s leak.host/loop\n" % (BUGS, BUGS), 0o700)
        done, found = self.found(script)
        self.assertEqual({f["kind"] for f in found["findings"]}, {"leak.block", "leak.host"})
        self.assertEqual(len({c["pid"] for f in found["findings"] for c in f["calls"]}), 2)
        self.assertEqual(found["processes"], 2)
        done, found = self.found("--no-follow-children", script)
        self.assertEqual((found["findings"], done.returncode), ([], 0))

    def test_the_json_has_what_is_documented(self):
        _, found = self.found(BUGS, "double-free/block")
        self.assertEqual(
            sorted(found),
            ["calls", "calls_refused", "exit_code", "findings", "processes", "program", "seconds", "signal", "suppressed"],
        )
        finding = found["findings"][0]
        self.assertEqual(sorted(finding), ["advice", "calls", "count", "kind", "message", "refused", "time"])
        self.assertEqual((finding["kind"], finding["count"], finding["refused"]), ("double-free", 1, 107000))
        self.assertEqual([c["what"] for c in finding["calls"]], ["again here", "freed here", "made here"])
        for call in finding["calls"]:
            self.assertEqual(sorted(call), ["function", "pid", "stack", "thread", "what"])
            for frame in call["stack"]:
                self.assertEqual(sorted(frame), ["file", "function", "line", "module"])
        self.assertEqual(finding["calls"][0]["function"], "aclrtFree")
        self.assertTrue(finding["calls"][0]["stack"][0]["file"].endswith("bugs_life.c"))
        self.assertGreater(found["calls"], 3)

    def test_the_last_lines_count_what_was_checked(self):
        for command, words in (
            (["true"], "no findings; no process called AscendCL\n"),
            ([BUGS, "none/halves"], r"no findings; \d+ calls of 1 process were checked\n$"),
            ([BUGS, "double-free/block"], r"1 call returned an error; ACLMEM_LOG=refusals prints each with its reason\n$"),
            (
                ["--fail", "aclrtMalloc:2", BUGS, "leak.block/loop", "fixed"],  # it ends by _exit
                "calls were checked of 1 process that was killed or called _exit\n",
            ),
            (
                ["--lint", "--fail", "aclrtMalloc:2", BUGS, "leak.block/loop", "fixed"],
                "portability: the list is incomplete: a process was killed or called _exit\n$",
            ),
        ):
            self.assertRegex(self.run_it(*command).stderr, words, command)
        done = self.run_it("--check", "none", "--trace", self.path("t"), "--quiet", "true")
        self.assertEqual(done.stderr, "")
        done = self.run_it("--check", "none", "--trace", self.path("t2"), "true")
        self.assertNotIn("findings", done.stderr)
        _, found = self.found(BUGS, "double-free/block")
        self.assertEqual(found["calls_refused"], 1)

    def test_equal_findings_are_one_with_a_count(self):
        _, found = self.found(BUGS, "export-twice/loop")
        self.assertEqual([f["count"] for f in found["findings"]], [2])

    def test_junit_is_xml_with_a_failure_for_each(self):
        path = self.path("junit.xml")
        self.run_it("--junit", path, BUGS, "leak.block/loop")
        suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        self.assertEqual(suite.find(".//failure").get("type"), "leak.block")

    def test_suppressions_are_used_generated_and_listed(self):
        told = self.run_it("--gen-suppressions", BUGS, "leak.block/loop").stderr
        line = next(l for l in told.splitlines() if l.startswith("leak.block: "))
        for text in (line, "leak.*: take_block  # known", "leak.block: ...; blocks_of_a_loop", "leak.block: */bugs"):
            done, found = self.found("--suppress", self.path("s", text + "\nrace: nobody\n"), BUGS, "leak.block/loop")
            self.assertEqual((found["findings"], found["suppressed"], done.returncode), ([], 1, 0), text)
            self.assertIn("suppressed 1: " + text[:20], done.stderr)
            self.assertIn("matched nothing: race: nobody", done.stderr)
        done, found = self.found("--suppress", self.path("s", "leak.host: take_block\n"), BUGS, "leak.block/loop")
        self.assertEqual((len(found["findings"]), done.returncode), (1, 99))

    def test_quiet_is_quiet(self):
        done = self.run_it("--quiet", BUGS, "leak.block/loop")
        self.assertEqual((done.stderr, done.returncode), ("", 99))

    def test_kinds_can_be_chosen(self):
        for check, n in (("race", 0), ("leak", 1), ("leak.block", 1), ("no-leak", 0), ("all,no-leak.block", 0)):
            _, found = self.found("--check", check, BUGS, "leak.block/loop")
            self.assertEqual(len(found["findings"]), n, check)

    def test_without_the_command_findings_are_printed(self):
        done = subprocess.run(
            [BUGS, "double-free/block"],
            env=dict(os.environ, ACLMEM_LAYERS="check"),
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        self.assertEqual(done.returncode, 0)
        self.assertIn("aclmem: double-free: devPtr is the block of 1000 bytes", done.stderr)
        self.assertIn("    freed here: aclrtFree", done.stderr)
        self.assertRegex(done.stderr, r"#0 free_block  \S*bugs_life\.c:\d+\n +#1 block_twice  \S*bugs_life\.c:\d+\n")
        self.assertIn("aclmem: 1 finding\n", done.stderr)

    def test_a_summary_without_debug_information_has_no_line(self):
        program = self.path("stripped")
        subprocess.run(["strip", "--strip-debug", "-o", program, BUGS], check=True)
        done = self.run_it(program, "double-free/block")
        self.assertRegex(done.stderr, r"SUMMARY: aclmem: double-free in \w+\n")
        self.assertNotRegex(done.stderr, r":0 in |:0\n")

    def test_kinds_of_copies_are_named(self):
        done = self.run_it("--lint", BUGS, "portability/kind")
        self.assertRegex(done.stderr, r"kind is ACL_MEMCPY_\w+, and the addresses make it ACL_MEMCPY_\w+")
        self.assertNotRegex(done.stderr, r"kind is \d")

    def test_numbers_and_their_nouns_agree(self):
        done = self.run_it("--fail", "aclrtMalloc:each", BUGS, "failing/leaking")
        self.assertRegex(done.stderr, r"calls that failed: .*2 new findings")
        done = self.run_it(BUGS, "double-free/block")
        self.assertIn("aclmem: 1 finding; ", done.stderr)
        done = self.run_it(BUGS, "export-twice/loop")
        self.assertIn("aclmem: 1 distinct finding, reported 2 times; ", done.stderr)

    def test_a_wrong_variable_is_refused(self):
        for env, words in (
            ({"ACLMEM_LAYERS": "check", "ACLMEM_CHECK": "leek"}, 'no kind of finding "leek"'),
            ({"ACLMEM_LAYERS": "fail", "ACLMEM_FAIL": "aclrtNothing:1"}, "ACLMEM_FAIL is"),
            ({"ACLMEM_LAYERS": "fail", "ACLMEM_FAIL": "aclrtMalloc:0"}, "ACLMEM_FAIL is"),
        ):
            done = subprocess.run(
                [BUGS, "double-free/block"],
                env=dict(os.environ, **env),
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            self.assertEqual(done.returncode, 3)
            self.assertIn(words, done.stderr)

    def test_races_are_the_same_for_every_seed_and_without(self):
        def what(found):
            return sorted(
                (f["kind"], [[(s["function"], s["line"]) for s in c["stack"]] for c in f["calls"]])
                for f in found["findings"]
            )

        for options, case, n in (
            ([], "race/no-event", 50),
            ([], "race/early", 3),
            ([], "race/before-function", 10),
            ([], "race/behind-function", 10),
            ([], "race/other-stream", 10),
            ([], "free-in-use/block", 3),
            (["--check", "all"], "race.host/read", 3),
        ):
            _, plain = self.found(*options, BUGS, case)
            _, seeded = self.found(*options, "--chaos", "1..%d" % n, BUGS, case)
            self.assertEqual(len(plain["findings"]), 1)
            self.assertEqual(what(seeded), what(plain))
            self.assertEqual([s["findings"] for s in seeded["seeds"]], [1] * n)
        done = self.run_it("--chaos", "1..3,7", BUGS, "race/no-event")
        self.assertIn("4 of 4 seeds fail: 1..3, 7", done.stderr)
        done = self.run_it("--chaos", "1..3", BUGS, "race/no-event", "fixed")
        self.assertEqual(done.returncode, 0)
        self.assertIn("0 of 3 seeds fail\n", done.stderr)

    def test_the_summary_says_once_that_touches_of_pinned_memory_were_not_checked(self):
        off = "aclmem: race.host was off"
        self.assertEqual(self.run_it(BUGS, "race/no-event").stderr.count(off), 1)
        self.assertNotIn(off, self.run_it("--check", "all", BUGS, "race/no-event").stderr)
        self.assertNotIn(off, self.run_it(BUGS, "race/addresses").stderr)

    def test_lint_says_what_the_program_needs(self):
        for case, line in (
            ("portability/mapped", "needs CANN 9.1 or later, because of aclrtFreePhysical: the handle is freed while"),
            ("portability/wish", "needs CANN 8.5 or later, because of aclrtReserveMemAddress: expectPtr"),
            ("portability/part", "needs CANN before 8.5, because of aclrtMapMem: size is 2097152"),
            ("portability/kind", "not every edition takes its calls of aclrtMemcpy\n"),
            ("portability/attribute", "memAttr is ACL_"),
            ("none/newer", "not every edition takes its calls of aclrtMemRetainAllocationHandle\n"),
            ("model/two-models", "needs CANN 8.1 or later, because of aclmdlRI"),
            ("model/two-models", "not on 910, 310B, 310B-EP, 310, because of aclmdlRI"),
            ("none/halves", "nothing here needs a later CANN than 8.0\n"),
        ):
            self.assertIn("aclmem: portability: ", self.run_it("--lint", BUGS, case).stderr)
            self.assertIn(line, self.run_it("--lint", BUGS, case).stderr)
        done, found = self.found("--lint", BUGS, "portability/mapped")
        self.assertIn("not on 310B, 310, because of aclrtReserveMemAddress", done.stderr)
        self.assertEqual(found["portability"]["since"]["edition"], "9.1")
        self.assertEqual(found["portability"]["since"]["function"], "aclrtFreePhysical")
        self.assertNotIn("portability", self.found(BUGS, "portability/mapped")[1])

        done, found = self.found("--lint", BUGS, "portability/fabric", ACLMEM_PRODUCT="A3")
        self.assertEqual(found["portability"]["since"]["edition"], "9.0")
        self.assertNotIn("A3", found["portability"]["refusing"])
        self.assertIn("A2", found["portability"]["refusing"])

    def test_a_limit_of_file_sizes_ends_the_trace_and_not_the_program(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        trace = self.path("limited")
        done = subprocess.run(
            [ACLMEM, "run", "--trace", trace, BUGS, "none/nothing"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, preexec_fn=limit,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no room for", done.stderr)

    def test_a_limit_of_file_sizes_that_has_no_room_for_a_trace_is_reported(self):
        done = subprocess.run(
            [ACLMEM, "run", "--trace", self.path("none"), "echo", "ran"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_a_limit_of_file_sizes_loses_findings_and_not_the_program(self):
        done = subprocess.run(
            [ACLMEM, "run", BUGS, "leak.reservation/forgotten"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("no room for findings in the temporary folder: File too large; further"), 1, done.stderr)

    def test_products_that_lint_names_refuse_the_program(self):
        for case in ("none/products", "portability/wish"):
            _, found = self.found("--lint", BUGS, case)
            refusing = found["portability"]["refusing"]
            for product in ("950", "A3", "A2", "910", "310P", "310B", "310B-EP", "310"):
                done, _ = self.found(BUGS, case, ACLMEM_PRODUCT=product)
                self.assertEqual("207000" in done.stderr, product in refusing, (case, product, done.stderr))

    def test_where_host_and_device_have_one_memory_pinned_blocks_are_the_programs(self):
        done, found = self.found("--check", "race.host,out-of-bounds", BUGS, "race.host/write", ACLMEM_PRODUCT="310B")
        self.assertEqual((done.returncode, found["findings"]), (0, []), done.stderr)

    def test_a_call_fails_on_demand(self):
        done = self.run_it("--fail", "aclrtMalloc:2", BUGS, "leak.block/loop", "fixed")
        self.assertEqual(done.returncode, 3)
        self.assertIn("gives 207001: EL0004: aclrtMalloc: Failed to allocate", done.stderr)
        done = self.run_it("--fail", "aclrtMalloc:1=207000", BUGS, "leak.block/loop", "fixed")
        self.assertIn("gives 207000", done.stderr)
        done = self.run_it("--fail", "aclrtMalloc:4", BUGS, "leak.block/loop", "fixed")
        self.assertEqual(done.returncode, 0)
        trace = self.path("t.trace")
        self.run_it("--trace", trace, "--fail", "aclrtMalloc:2", BUGS, "leak.block/loop", "fixed")
        done = subprocess.run(
            [ACLMEM, "trace", trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True
        )
        self.assertRegex(done.stdout, r"aclrtMalloc\(.*= 207001 ")

    def test_progress_of_failing_calls_is_shown_on_terminals_only(self):
        slow = ["sh", "-c", "sleep 1; exec %s failing/careful" % os.path.abspath(BUGS)]
        ours, theirs = pty.openpty()
        done = subprocess.run([ACLMEM, "run", "--fail", "aclrtM*:each@careful"] + slow, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while True:
                shown += os.read(ours, 65536)
        except OSError:  # the other end is closed, and all is read
            os.close(ours)
        self.assertEqual(done.returncode, 0, shown)
        self.assertIn(b"aclmem: call 2 of 2", shown)
        self.assertNotIn("call 2 of 2", self.run_it("--fail", "aclrtM*:each@careful", *slow).stderr)

    def test_each_call_fails_in_turn(self):
        done, found = self.found("--fail", "aclrtM*:each", BUGS, "failing/careful")
        self.assertEqual({f["verdict"] for f in found["failures"]}, {"survived"}, done.stderr)
        self.assertEqual(done.returncode, 0)
        done, found = self.found("--fail", "aclrtM*:each@careful", BUGS, "failing/careful")
        self.assertEqual(len(found["failures"]), 4, done.stderr)
        self.assertTrue(done.stderr.endswith("aclmem: calls that failed: 4 survived\n"), done.stderr)
        done, found = self.found("--fail", "aclrtM*:each@care*=207000", BUGS, "failing/careful")
        self.assertEqual(len(found["failures"]), 4, done.stderr)
        done, found = self.found("--fail", "aclrtM*:each@nobody", BUGS, "failing/careful")
        self.assertEqual((found["failures"], done.returncode), ([], 2), done.stderr)
        self.assertIn('"nobody" makes none of them', done.stderr)
        for case, verdict in (("failing/careless", "went on wrong"), ("failing/crashing", "crashed")):
            done, found = self.found("--fail", "aclrtMalloc:each", BUGS, case)
            self.assertIn(verdict, {f["verdict"] for f in found["failures"]}, done.stderr)
            self.assertEqual(done.returncode, 99)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

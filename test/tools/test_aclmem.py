#!/usr/bin/env python3
"""Runs the command beside a process that holds memory: test_aclmem.py <aclmem> <libascendcl.so>"""
import ctypes
import glob
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

MIB = 1 << 20


def hold(library, size):
    """In a separate process: allocates memory of device 0, prints a line, and waits for the end of its input."""
    acl = ctypes.CDLL(library)
    block = ctypes.c_void_p()
    if acl.aclInit(None) or acl.aclrtSetDevice(0):
        sys.exit(2)
    if acl.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(size), 0):
        sys.exit(3)
    stream, model = ctypes.c_void_p(), ctypes.c_void_p()
    if acl.aclrtCreateStream(ctypes.byref(stream)) or acl.aclmdlRICaptureBegin(stream, 0):
        sys.exit(4)
    if acl.aclmdlRICaptureEnd(stream, ctypes.byref(model)):
        sys.exit(5)
    print("held", flush=True)
    sys.stdin.read()


def pin(library, size):
    """In a separate process: allocates pinned memory."""
    acl = ctypes.CDLL(library)
    block = ctypes.c_void_p()
    for ret in (acl.aclInit(None), acl.aclrtSetDevice(0), acl.aclrtMallocHost(ctypes.byref(block), ctypes.c_size_t(size)),
                acl.aclrtFreeHost(block)):
        if ret:
            sys.exit(2)


def limit_locking():
    """ulimit -l 64, also for root, whom no limit binds while it has CAP_IPC_LOCK."""
    ctypes.CDLL(None).prctl(24, 14, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_IPC_LOCK
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))


class Command(unittest.TestCase):
    def setUp(self):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "ASCEND_"))}
        self.env["ACLMEM_RUNTIME_DIR"] = os.environ["ACLMEM_RUNTIME_DIR"]
        self.env["ACLMEM_MEMORY"] = "1G"

    def run_it(self, *arguments, **more):
        env = dict(self.env, **more)
        return subprocess.run(
            [COMMAND] + list(arguments),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def printed(self, *arguments, **more):
        done = self.run_it(*arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def holder(self):
        """A process that holds 64 MB of device 0 and a captured model."""
        holder = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "hold", LIBRARY, str(64 * MIB)],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        self.assertEqual(holder.stdout.readline(), "held\n")
        return holder

    def test_a_low_limit_of_locked_memory_is_reported_once_for_all_seeds(self):
        program = [sys.executable, os.path.abspath(__file__), "pin", LIBRARY, str(4 * MIB)]
        for more, n in (({}, 1), ({"ACLMEM_LOCK_WARNING": "0"}, 0), ({"ACLMEM_LOCK_WARNING": "1"}, 3)):
            done = subprocess.run([COMMAND, "run", "--chaos", "1..3"] + program, env=dict(self.env, **more),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, preexec_fn=limit_locking)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("host memory is not locked"), n, done.stderr)

    def test_verbose_prints_refused_calls(self):
        program = [sys.executable, os.path.abspath(__file__), "pin", LIBRARY, "0"]
        for option, n in (("--quiet", 0), ("-v", 1), ("-qv", 1)):
            done = self.run_it("run", option, *program)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("refusal: "), n, done.stderr)

    def test_progress_of_many_runs_is_shown_on_terminals_only(self):
        arguments = [COMMAND, "run", "--chaos", "1..4", "sleep", "1"]
        ours, theirs = pty.openpty()
        done = subprocess.run(arguments, env=self.env, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        self.assertEqual(done.returncode, 0)
        shown = b""
        try:
            while True:
                shown += os.read(ours, 65536)
        except OSError:  # the other end is closed, and all is read
            os.close(ours)
        self.assertRegex(shown, rb"aclmem: seed [2-4] of 4")
        self.assertNotIn("seed 3 of", self.run_it("run", "--chaos", "1..4", "true").stderr)

    def test_fabric_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a", "b")]
            keys = []
            for path in paths:
                self.assertIn("ACLMEM_FABRIC_KEY", self.printed("fabric", "keygen", path))
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                with open(path, "rb") as file:
                    keys.append(file.read())
            self.assertEqual([len(key) for key in keys], [32, 32])
            self.assertNotEqual(*keys)
            done = self.run_it("fabric", "keygen", paths[0])  # a key that is there stays
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("File exists", done.stderr)
            with open(paths[0], "rb") as file:
                self.assertEqual(file.read(), keys[0])

    def test_fabric_ping_takes_seconds(self):
        for seconds in "0", "3601", "soon", "-1":
            done = self.run_it("fabric", "ping", "localhost:1", "--timeout", seconds, ACLMEM_FABRIC_KEY="key")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--timeout is", done.stderr)

    def test_ctrl_c_ends_fabric_ping(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
            key = os.path.join(folder, "key")
            self.printed("fabric", "keygen", key)
            ping = subprocess.Popen([COMMAND, "fabric", "ping", "127.0.0.1:%d" % server.getsockname()[1], "--timeout", "600"],
                                    env=dict(self.env, ACLMEM_FABRIC_KEY=key), stderr=subprocess.DEVNULL,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            server.settimeout(60)
            try:
                connection, _ = server.accept()  # ping waits for the other side
                connection.settimeout(60)
                ping.send_signal(signal.SIGINT)
                self.assertEqual(ping.wait(), -signal.SIGINT)
                with connection:
                    self.assertEqual(connection.recv(1), b"")  # no process has the connection
            finally:
                ping.kill()
                ping.wait()

    COMMANDS = ["convert", "describe", "doctor", "fabric", "facts", "info", "replay", "report", "run", "top", "trace"]

    def test_help_has_a_line_for_each_command_and_three_examples(self):
        for asked in (["--help"], ["-h"], ["help"]):
            text = self.printed(*asked)
            head, _, rest = text.partition("\nExamples\n")
            self.assertEqual(sorted(re.findall(r"^  (\w+) ", head, flags=re.M)), self.COMMANDS)
            for line in re.findall(r"^  \w+ +(.*)$", head, flags=re.M):
                self.assertRegex(line, r"^[A-Z][a-z]+ ", "imperative, one line")
            self.assertEqual(len(re.findall(r"^  aclmem ", rest, flags=re.M)), 3)
            self.assertIn("aclmem COMMAND --help", rest)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for asked in ("--version", "-V"):
            self.assertRegex(self.printed(asked), r"^aclmem \d+\.\d+\.\d+\n$")

    def test_help_of_a_command_has_options_examples_and_exit_codes(self):
        for name in self.COMMANDS:
            text = self.printed(name, "--help")
            self.assertEqual(self.printed(name, "-h"), text)
            self.assertEqual(self.printed("help", name), text)
            self.assertEqual(re.findall(r"^(usage|Options|Examples|Exit codes)", text, flags=re.M),
                             ["usage", "Options", "Examples", "Exit codes"], name)
            for line in re.findall(r"^  (?:-\w, )?--[a-z-]+\S*(?: \S+)?\n? {2,}(\S.*)$", text, flags=re.M):
                self.assertRegex(line, r"^[A-Z]", name)
            codes = re.findall(r"^  (\S+) +\S", text.partition("Exit codes\n")[2], flags=re.M)
            self.assertEqual(len(codes), len(set(codes)), name)
        for arguments in (["run", "--check", "leak", "--help"], ["trace", "file", "-h"], ["top", "--interval", "2", "-h"]):
            self.assertEqual(self.printed(*arguments), self.printed("help", arguments[0]))
        for separator in ([], ["--"]):  # the program's own
            self.assertEqual(self.printed("run", "-q", *separator, "sh", "-c", "echo $1", "sh", "--help"), "--help\n")
        codes = re.findall(r"^  (\S+) +\S", self.printed("run", "--help").partition("Exit codes\n")[2], flags=re.M)
        self.assertEqual(codes, ["0", "1", "2", "N", "99", "126", "127", "128+N"])

    def test_near_misses_are_named(self):
        for arguments, meant in ((["inof"], "info"), (["reprot"], "report"), (["run", "--chek=all", "true"], "--check"),
                                 (["info", "--jsn"], "--json"), (["convert", "--outptu", "x"], "--output"), (["conv"], "convert"),
                                 (["convert", "--to", "csw", "x"], "csv"), (["replay", "--speed=recoded", "x"], "recorded"),
                                 (["top", "--sort", "comand"], "command"), (["info", "--hlep"], "--help"), (["--verison"], "--version")):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("did you mean %s?" % meant, done.stderr)
        for arguments in (["info", "--zzzzzz"], ["nope"], ["top", "--sort", "size"]):
            self.assertNotIn("did you mean", self.run_it(*arguments).stderr)

    def test_words_of_options_are_listed_checked_and_completed(self):
        for command, option, words in (("convert", "to", "folded|speedscope|perfetto|pytorch|csv|chrome|lines"), ("convert", "of", "peak|allocated|calls|time"),
                                       ("replay", "allocator", "as-is|pool|aliases|mempool|malloc"), ("replay", "backend", "host|cuda"),
                                       ("replay", "speed", "max|recorded"), ("top", "sort", "live|peak|rate|pid|command"), ("run", "stacks", "none|fast|full")):
            self.assertIn("--%s %s" % (option, words), self.printed(command, "--help"))
            done = self.run_it(command, "--" + option, "zzz", "file")
            self.assertEqual(done.returncode, 2)
            self.assertIn('--%s is "zzz", and takes %s\n' % (option, words), done.stderr)
            spaced = words.replace("|", " ")
            for form, text in (("bash", "'%s --%s') COMPREPLY=($(compgen -W '%s'"), ("zsh", "%s)|--%s=[|:(%s)"), ("fish", "%s|-l %s -x -a '%s'")):
                description = self.printed("describe", form)
                for part in (text % (command, option, spaced)).split("|"):
                    self.assertIn(part, description, form)

    def test_json_goes_to_standard_output_or_to_a_file_in_every_command(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            for command in (["info"], ["info", "--options"], ["top", "--once"], ["doctor"], ["run", "--quiet"]):
                tail = ["true"] if command[0] == "run" else []
                plain = self.run_it(*command, "--json", *tail)
                short = self.run_it(*command, "-j", *tail)
                written = self.run_it(*command, "--json=" + path, *tail)
                self.assertEqual((written.returncode, written.stdout), (plain.returncode, ""), command)
                with open(path) as file:
                    told = json.load(file)
                self.assertEqual(type(told), type(json.loads(plain.stdout)))
                self.assertEqual(type(told), type(json.loads(short.stdout)))
            old = os.path.join(folder, "old.json")  # the form of 0.2
            self.assertEqual(self.run_it("run", "--quiet", "--json", old, "true").returncode, 0)
            self.assertTrue(os.path.exists(old))
            self.assertEqual(os.listdir(folder).count("out"), 1)
            self.assertFalse([name for name in os.listdir(folder) if ".part" in name])

    def test_doctor_names_problems_and_remedies(self):
        told = json.loads(self.run_it("doctor", "--json").stdout)
        checks = {check["name"]: check for check in told["checks"]}
        self.assertTrue({"system", "command", "library of programs", "devices", "options", "runtime directory", "huge pages", "/dev/shm",
                         "locked memory", "open files", "Python module acl", "fabric", "GPU driver", "stacks"} <= set(checks))
        for check in checks.values():
            self.assertIn(check["state"], ("ok", "note", "problem"))
            self.assertEqual(bool(check["remedy"]), check["state"] != "ok", check)
        self.assertEqual(told["problems"], sum(check["state"] == "problem" for check in checks.values()))
        done = subprocess.run([COMMAND, "doctor", "-q"], env=dict(self.env, ACLMEM_FABRIC="eth0", ACLMEM_RULES="default"),
                              stdout=subprocess.PIPE, universal_newlines=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"problem +open files +256\n +remedy: ulimit -n 65536\n")
        self.assertRegex(done.stdout, r"problem +fabric ")
        self.assertNotIn("\nok ", done.stdout)
        done = self.run_it("doctor", ACLMEM_RULES="sloppy")
        self.assertRegex(done.stdout, r'problem +options .*ACLMEM_RULES is "sloppy"')

    def test_completions_and_the_manual_page_have_every_command_and_option(self):
        options = {name: set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", self.printed(name, "--help"), flags=re.M)) - {"help"}
                   for name in self.COMMANDS}
        self.assertIn("chaos", options["run"])
        for form, option in (("bash", "--%s"), ("zsh", "--%s"), ("fish", "-l %s"), ("man", "\\-\\-%s")):
            text = self.printed("describe", form)
            for part in {"zsh": ["(bash zsh fish man )", "(keygen ping )", "--help"], "fish": ["-a 'bash zsh fish man '", "-a 'keygen ping '", "-l help"]}.get(form, []):
                self.assertIn(part, text)
            for name in self.COMMANDS:
                self.assertIn(name, text, form)
                for one in options[name]:
                    self.assertIn(option % (one.replace("-", "\\-") if form == "man" else one), text, form)
        self.assertIn(".B ACLMEM_RULES", text)
        for code in ("0", "1", "2", "99", "126", "127", "128+N"):
            self.assertIn(".B %s\n" % code, text)
        self.assertIn("aclmem run \\-\\-chaos 1..50", text)
        self.assertEqual(self.run_it("describe").returncode, 2)
        self.assertEqual(self.run_it("describe", "tcsh").returncode, 2)

    def test_bash_completes_by_the_description(self):
        for words, expected in (("aclmem convert --to = py", "pytorch"), ("aclmem convert --of =", "peak allocated calls time"),
                                ("aclmem replay --backend c", "cuda"), ("aclmem inf", "info"), ("aclmem run --junit", "--junit="), ("aclmem info --j", "--json"), ("aclmem describe f", "fish"), ("aclmem fabric ''", "keygen ping"), ("aclmem help rep", "report replay")):
            script = "%s\nCOMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _aclmem; echo ${COMPREPLY[@]}"
            done = subprocess.run(["bash", "-c", script % (self.printed("describe", "bash"), words)],
                                  stdout=subprocess.PIPE, universal_newlines=True)
            self.assertEqual(done.stdout.strip(), expected)

    def test_run_lets_a_program_find_the_stand_in_for_torch_npu(self):
        with tempfile.TemporaryDirectory() as folder:
            stand_in = os.path.join(folder, "aclmem", "npu", "stand_in")
            os.makedirs(stand_in)
            with open(os.path.join(stand_in, "torch_npu.py"), "w", encoding="utf-8") as file:
                file.write("print('the stand-in')\n")
            done = self.run_it("run", "--torch-npu", sys.executable, "-c", "import torch_npu", PYTHONPATH="/nowhere:" + folder)
            self.assertEqual((done.returncode, done.stdout), (0, "the stand-in\n"), done.stderr)
        done = self.run_it("run", "--torch-npu", "--over", LIBRARY, "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--torch-npu is for aclmem's device", done.stderr)

    def test_run_names_where_it_searched_for_the_stand_in(self):
        if os.path.exists(os.path.join(os.path.dirname(LIBRARY), "..", "python", "aclmem", "npu")):
            self.skipTest("aclmem.npu is part of this build")
        done = self.run_it("run", "--torch-npu", "true", PYTHONPATH="")
        self.assertEqual(done.returncode, 2)
        self.assertIn("neither in PYTHONPATH nor beside", done.stderr)

    def test_unknown_arguments_are_refused_with_2(self):
        for arguments in ([], ["inof"], ["info", "--jsn"], ["--version", "more"], ["info", "--json", "x"],
                          ["info", "-x"], ["run", "-qx", "true"], ["info", "--options=1"]):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertRegex(done.stderr, "usage: aclmem ((info|run) )?--help")
            self.assertEqual(done.stdout, "")

    def test_help_is_for_a_command_that_exists(self):
        self.assertEqual(self.printed("help"), self.printed("--help"))
        self.assertEqual(self.printed("help", "help"), self.printed("--help"))
        self.assertEqual(self.printed("help", "run"), self.printed("run", "--help"))
        for arguments in (["--help", "leek"], ["help", "leek"], ["leek"]):
            done = self.run_it(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn('there is no command "leek"; the commands are run, trace, ', done.stderr)
        self.assertIn("no command was given; the commands are run, ", self.run_it().stderr)

    def test_a_full_disk_is_told(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        for arguments in (["--help"], ["info"], ["info", "--json"], ["top", "--once"], ["describe", "man"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [COMMAND] + arguments, env=self.env, stdout=full, stderr=subprocess.PIPE, universal_newlines=True
                )
            self.assertEqual(done.returncode, 1, arguments)
            self.assertRegex(done.stderr, r"^aclmem: the output could not be written: ")

    def test_a_trace_above_the_limit_of_file_sizes_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t")
            done = subprocess.run([COMMAND, "run", "--trace", trace, "true"], env=self.env, capture_output=True, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
            self.assertEqual((done.returncode, done.stderr), (2, f"aclmem run: {trace}: File too large\n"))
            self.assertEqual(os.listdir(folder), [])

    def test_a_wrong_option_is_told(self):
        done = self.run_it("info", ACLMEM_RULES="sloppy")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn('ACLMEM_RULES is "sloppy"', done.stderr)

    def test_options_have_value_default_and_meaning(self):
        options = {o["name"]: o for o in json.loads(self.printed("info", "--options", "--json"))}
        self.assertEqual(options["ACLMEM_MEMORY"]["value"], "1G")
        self.assertEqual(options["ACLMEM_MEMORY"]["default"], "")
        self.assertEqual(options["ACLMEM_RULES"]["value"], "default")
        for option in options.values():
            self.assertEqual(sorted(option), ["default", "given", "help", "name", "value"])
            self.assertTrue(option["help"])
        text = self.printed("info", "--options")
        self.assertIn("ACLMEM_MEMORY=1G\n    default: not given\n", text)
        self.assertIn("ACLMEM_RULES=default\n    default accepts", text)

    def test_an_option_that_is_not_given_shows_what_is_in_force(self):
        del self.env["ACLMEM_MEMORY"]
        told = json.loads(self.printed("info", "--json", ACLMEM_BACKEND="auto"))
        options = {o["name"]: o for o in told["options"]}
        own = told["configurations"][0]
        value, unit = re.fullmatch(r"(\d+)([KMGT]?)", options["ACLMEM_MEMORY"]["value"]).groups()
        self.assertEqual(int(value) << 10 * " KMGT".index(unit or " "), own["devices"][0]["capacity"])
        self.assertFalse(options["ACLMEM_MEMORY"]["given"])
        self.assertEqual(options["ACLMEM_DEVICES"]["value"], str(len(own["devices"])))
        self.assertEqual(options["ACLMEM_BACKEND"]["value"], own["backend"])
        del self.env["ACLMEM_RUNTIME_DIR"]
        told = json.loads(self.printed("info", "--json"))
        options = {o["name"]: o for o in told["options"]}
        self.assertEqual(options["ACLMEM_RUNTIME_DIR"]["value"], told["runtime_directory"])
        self.assertNotIn("default: not given", self.printed("info", "--options"))

    def test_info_says_whether_pages_are_huge_and_why(self):
        told = json.loads(self.printed("info", "--json", ACLMEM_HUGE_PAGES="never"))
        self.assertEqual(told["huge_pages"], {"used": False, "why": "ACLMEM_HUGE_PAGES is never"})
        text = self.printed("info", ACLMEM_HUGE_PAGES="never")
        self.assertIn("huge pages: no: ACLMEM_HUGE_PAGES is never\n", text)
        told = json.loads(self.printed("info", "--json"))
        self.assertTrue(told["huge_pages"]["why"])

    def test_a_runtime_directory_that_cannot_be_created_is_a_problem(self):
        mounts = "mount -t tmpfs none /tmp && mkdir /tmp/shm && mount -t tmpfs -o ro none /dev/shm && mount -o remount,ro /tmp && "
        writable = "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && "
        env = {k: v for k, v in self.env.items() if k != "ACLMEM_RUNTIME_DIR"}
        def inside(mounts):
            return subprocess.run(["unshare", "-rm", "sh", "-c", mounts + "exec \"$0\" info --json", COMMAND], env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if inside(writable).returncode != 0:
            self.skipTest("this user may not mount file systems in a namespace")
        told = json.loads(inside(writable).stdout)
        self.assertEqual((told["runtime_directory"], told["problem"]), ("/dev/shm/aclmem-0", None))
        told = json.loads(inside(mounts).stdout)
        self.assertIn("cannot be created or opened: Read-only file system; name another", told["problem"])

    def test_a_process_is_shown_while_it_lives(self):
        idle = json.loads(self.printed("info", "--json"))
        self.assertEqual(idle["configurations"][0]["processes"], [])
        holder = self.holder()
        try:
            told = json.loads(self.printed("info", "--json"))
            text = self.printed("info")
        finally:
            holder.kill()
            holder.communicate()
        mine = told["configurations"][0]
        self.assertEqual(
            sorted(told),
            ["configurations", "fabric", "huge_pages", "options", "problem", "runtime_directory", "version"],
        )
        self.assertEqual(
            sorted(mine), ["backend", "devices", "own", "processes", "processes_allowed", "product", "soc"]
        )
        process = mine["processes"][0]
        self.assertEqual(process["pid"], holder.pid)
        self.assertEqual(process["devices"][0]["id"], 0)
        self.assertGreaterEqual(process["devices"][0]["allocated"], 64 * MIB)
        self.assertEqual(process["devices"][0]["exported"], 0)
        self.assertEqual(process["devices"][0]["imported"], 0)
        device = mine["devices"][0]
        self.assertEqual(device["used"], process["devices"][0]["allocated"])
        self.assertEqual(device["free"], device["capacity"] - device["used"])
        self.assertEqual((device["capacity"], device["processes"]), (1 << 30, 1))
        self.assertIn(" %d  %s" % (holder.pid, process["command"]), text)
        self.assertEqual((process["models"], process["model_streams"]), (1, 1))
        self.assertIn(" %d  captured models: 1, their streams: 1\n" % holder.pid, text)
        self.assertEqual(json.loads(self.printed("info", "--json"))["configurations"], idle["configurations"])

    def test_processes_behind_a_damaged_ledger_are_not_denied(self):
        holder = self.holder()
        try:
            for path in glob.glob(os.path.join(self.env["ACLMEM_RUNTIME_DIR"], "ledger-*")):
                with open(path, "r+b") as ledger:
                    ledger.write(bytes(64))
            told = json.loads(self.printed("info", "--json"))
            text = self.printed("info")
        finally:
            holder.kill()
            holder.communicate()
        self.assertIn("damaged", told["problem"])
        self.assertIn("damaged", text)
        self.assertIn("which processes have them is not known", text)
        self.assertNotIn("no process has them", text)
        text = self.printed("info")  # no process uses the file now
        self.assertIn("no process has them", text)
        self.assertNotIn("damaged", text)

    def test_nothing_of_the_environment_plays_with_the_terminal(self):
        done = self.run_it("info", ACLMEM_RULES="a\33[2Jb\nc")
        self.assertIn('"a?[2Jb?c"', done.stderr)
        directory = self.env["ACLMEM_RUNTIME_DIR"] + "/\33[31m"
        for arguments in (["info"], ["info", "--options"], ["info", "--options", "--json"]):
            text = self.printed(*arguments, ACLMEM_RUNTIME_DIR=directory)
            self.assertNotIn("\33", text)
            self.assertIn("/?[31m", text)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2], int(sys.argv[3]))
        sys.exit(0)
    if sys.argv[1] == "pin":
        pin(sys.argv[2], int(sys.argv[3]))
        sys.exit(0)
    COMMAND, LIBRARY = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])

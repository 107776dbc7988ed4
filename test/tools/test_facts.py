#!/usr/bin/env python3
"""aclmem facts: the answers that are kept, the comparison, and a library with fewer functions:
test_facts.py <folder of the programs> <libascendcl.so> <C compiler>"""
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def run(*command, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "ASCEND_")) or k == "ACLMEM_RUNTIME_DIR"}
    env.update(more)
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Facts(unittest.TestCase):
    def test_each_product_and_rule_set_answers_as_it_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(os.path.join(ROOT, "scripts", "facts.sh"), BIN, folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            names = sorted(os.listdir(folder))
            self.assertEqual(names, sorted(os.listdir(os.path.join(ROOT, "facts", "aclmem"))))
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    told = file.read()
                self.assertEqual(told, read("facts", "aclmem", name), "scripts/facts.sh BIN facts/aclmem writes them anew")
                self.assertNotIn("signal", told)
                self.assertNotIn("no answer", told)

    def test_every_function_of_a_decision_has_a_fact(self):
        decisions = read("docs", "DECISIONS.md")
        rows = re.findall(r"^\| (.*?) \|", decisions.partition("**Error codes.**")[0], flags=re.M)
        marked = "".join(re.findall(r'FACT\(\w+, \w+, "decision:.*?(?=^FACT|^#|\Z)', read("tools", "facts", "facts.def"),
                                    flags=re.M | re.S)) + read("tools", "facts", "support.c")
        for name in sorted({n for row in rows for n in re.findall(r"`(acl\w+)`", row)}):
            self.assertIn(name, marked)

    def test_a_comparison_names_what_differs_and_what_is_not_known(self):
        strict = os.path.join(ROOT, "facts", "aclmem", "A2-strict.txt")
        same = run(os.path.join(BIN, "aclmem"), "facts", "--compare", strict, "--with", strict)
        self.assertEqual(same.returncode, 0)
        self.assertRegex(same.stdout.splitlines()[-1], r"^\d+ agreed, 0 differ, \d+ are not known$")
        default = os.path.join(ROOT, "facts", "aclmem", "A2-default.txt")
        done = run(os.path.join(BIN, "aclmem"), "facts", "--compare", strict, "--with", default)
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs    start_call_before_init (decision: aclrtSetDevice before aclInit): "
                      "theirs 100001, ours 0\n", done.stdout)
        self.assertIn("not known  granularity_1g", done.stdout)
        # With no second file this library is asked, as the product that the first one names.
        done = run(os.path.join(BIN, "aclmem"), "facts", "--compare", strict, ACLMEM_RULES="strict")
        self.assertRegex(done.stdout.splitlines()[-1], r"^\d+ agreed, 0 differ, ")

    def test_wrong_arguments_are_refused(self):
        for arguments in (["--compare"], ["--only", "nothing"], ["--with", "x"], ["--limit", "0"], ["more"]):
            self.assertEqual(run(os.path.join(BIN, "aclmem"), "facts", *arguments).returncode, 2, arguments)
        done = run(os.path.join(BIN, "aclmem"), "facts", "--compare", "/nonexistent")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent", done.stderr)
        done = run(os.path.join(BIN, "aclmem"), "facts", "--compare", os.path.join(ROOT, "README.md"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("README.md: it has no answer to any question", done.stderr)
        done = run(os.path.join(BIN, "aclmem"), "facts", "--only", "nothing")
        self.assertIn('there is no question "nothing"; --list has them all', done.stderr)

    def test_a_library_without_a_function_and_one_that_hangs(self):
        """Stands for a vendor's library of another edition."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "other.c")
            with open(source, "w") as file:
                file.write("#include <unistd.h>\nint aclInit(const char *p) { return 0; }\n"
                           "int aclrtSetDevice(int d) { for (;;) pause(); }\nint aclFinalize(void) { return *(volatile int *)1; }")
            run(COMPILER, "-shared", "-fPIC", source, "-o", os.path.join(folder, "libascendcl.so"))
            ask = lambda *words: run(os.path.join(BIN, "aclmem_facts"), *words, LD_LIBRARY_PATH=folder).stdout
            self.assertEqual(ask("--only", "device_count_null"), "device_count_null: absent aclrtGetDeviceCount\n")
            self.assertEqual(ask("--only", "free_null", "--limit", "1"), "free_null: no answer within 1 seconds\n")
            self.assertEqual(ask("--only", "start_finalize_without_init"),
                             "start_finalize_without_init: the process ended by signal 11\n")

    def test_ctrl_c_ends_the_question_too(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            source = os.path.join(folder, "other.c")
            with open(source, "w") as file:
                file.write('#include <fcntl.h>\n#include <unistd.h>\nint aclrtSetDevice(int d) { return 0; }\n'
                           'int aclInit(const char *p) { write(open("%s", O_WRONLY), "x", 1); for (;;) pause(); }' % fifo)
            run(COMPILER, "-shared", "-fPIC", source, "-o", os.path.join(folder, "libascendcl.so"))
            started = subprocess.Popen([os.path.join(BIN, "aclmem"), "facts", "--only", "free_null"], stdout=subprocess.DEVNULL,
                                       env=dict(os.environ, LD_LIBRARY_PATH=folder),
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            with open(fifo, "rb") as file:
                self.assertEqual(file.read(1), b"x")
                started.send_signal(signal.SIGINT)
                self.assertEqual(started.wait(), -signal.SIGINT)
                self.assertTrue(select.select([file], [], [], 60)[0], "the question is still asked")
                self.assertEqual(file.read(), b"")  # the process that had the other end has ended

    def test_it_uses_public_functions_alone(self):
        done = run("nm", "-D", "--undefined-only", os.path.join(BIN, "aclmem_facts"))
        self.assertIn("aclrtMapMem", done.stdout)
        self.assertNotIn("aclmem_", done.stdout)


if __name__ == "__main__":
    BIN, LIBRARY, COMPILER = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""Ctrl-C in examples/remote_kv.sh: test_example.py <remote_kv.sh>"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import machines

# In place of the example's programs: it tells which one it is, and waits at the place of the test.
STANDIN = """#!/bin/sh
[ "$1" = serve ] && echo 00
[ "$1" = "$STOP" ] || { [ "$1" = serve ] && exec cat; exit 0; }
echo "$1" >>"$REACHED"
exec sleep 600
"""


class Example(unittest.TestCase):
    def interrupted_at(self, stop):
        """The namespaces and files that are left."""
        with tempfile.TemporaryDirectory() as folder:
            for name in "aclmem", "remote_kv":
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(STANDIN)
                os.chmod(path, 0o755)
            temporary, reached = os.path.join(folder, "tmp"), os.path.join(folder, "reached")
            os.mkdir(temporary)
            os.mkfifo(reached)
            env = dict(os.environ, TMPDIR=temporary, STOP=stop, REACHED=reached)
            script = subprocess.Popen([SCRIPT, folder], env=env, start_new_session=True, stdout=subprocess.DEVNULL)
            with open(reached) as file:
                self.assertEqual(file.readline().strip(), stop)
            os.killpg(script.pid, signal.SIGINT)
            self.assertEqual(script.wait(60), 130)
            listed = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, universal_newlines=True).stdout
            return [line for line in listed.splitlines() if "-%d-" % script.pid in line] + os.listdir(temporary)

    def test_nothing_is_left(self):
        for stop in "fabric", "use":  # before the server is started, and while it serves
            self.assertEqual(self.interrupted_at(stop), [], stop)


if __name__ == "__main__":
    SCRIPT = sys.argv.pop(1)
    machines.require()
    unittest.main()

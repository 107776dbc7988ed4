#!/usr/bin/env python3
"""docs/CI.md: the shell of each recipe, run in an empty folder with a small program and this build:
test_ci.py <build folder>

What needs a service, a network or a package manager is left out, and named: the clone, apt-get, other actions.  For
`make install` the build that is tested is installed.
"""
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LEFT_OUT = re.compile(r"^(apt-get|git clone|sudo)\b")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def section(title, language):
    text = read("docs", "CI.md").partition("## %s\n" % title)[2].partition("\n## ")[0]
    return re.search(r"^```%s\n(.*?)^```" % language, text, flags=re.M | re.S).group(1)


class Recipes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(os.path.join(ROOT, "test", "install", "client.c"), os.path.join(self.folder, "my_test.c"))
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("ACLMEM_", "ASCEND_", "LD_", "PKG_", "CMAKE_", "PYTHONPATH"))}
        self.env["ACLMEM_RUNTIME_DIR"] = os.environ["ACLMEM_RUNTIME_DIR"]

    def shell(self, lines, **more):
        """Runs the lines as one script, as far as they can be run here."""
        tree = os.path.join(self.folder, "tree")
        script = []
        for line in "\n".join(lines).splitlines():
            if LEFT_OUT.match(line):
                continue
            line = re.sub(r"make -C aclmem install PREFIX=\S+", "cmake --install '%s' --prefix '%s' >log" % (BUILD, tree), line)
            script.append(line.replace("/opt/aclmem", tree))
        done = subprocess.run(["bash", "-e", "-c", "\n".join(script)], cwd=self.folder, env=dict(self.env, **more),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def check_findings(self, name):
        suites = xml.parse(os.path.join(self.folder, name)).getroot()
        self.assertEqual(suites.tag, "testsuites")
        self.assertEqual([s.get("failures") for s in suites], ["0"])

    def test_plain_shell(self):
        self.shell(section("Plain shell", "sh").splitlines())
        for product, rules in itertools.product(("A2", "A3"), ("default", "strict")):
            self.check_findings("findings-%s-%s.xml" % (product, rules))

    def test_gitlab(self):
        job = yaml.safe_load(section("GitLab CI", "yaml"))["memory"]
        matrix = job["parallel"]["matrix"][0]
        self.shell(job["before_script"] + job["script"], **{name: values[-1] for name, values in matrix.items()})
        self.check_findings(job["artifacts"]["reports"]["junit"])

    def test_github(self):
        job = yaml.safe_load(section("GitHub Actions", "yaml"))["jobs"]["memory"]
        steps = [step["run"] for step in job["steps"] if "run" in step]
        self.assertEqual([s["uses"] for s in job["steps"] if "aclmem@" in s.get("uses", "")], ["OWNER/aclmem@v0.3.0"])
        self.assertIn("project(aclmem VERSION 0.3.0 ", read("CMakeLists.txt"))
        # What the action does, with a `make` that installs the build that is tested, and without sudo: its folder can be written.
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "make"), "w") as file:
            file.write("#!/bin/sh\ncmake --install '%s' --prefix \"${2#PREFIX=}\" >/dev/null\n" % BUILD)
        with open(os.path.join(tools, "sudo"), "w") as file:
            file.write("#!/bin/sh\necho sudo: not found >&2\nexit 127\n")
        for name in ("make", "sudo"):
            os.chmod(os.path.join(tools, name), 0o755)
        files = {name: os.path.join(self.folder, name) for name in ("GITHUB_ENV", "GITHUB_PATH")}
        action = yaml.safe_load(read("action.yml"))["runs"]
        self.assertEqual(action["using"], "composite")
        script = action["steps"][0]["run"].replace("${{ github.action_path }}", ROOT)
        script = script.replace("${{ inputs.prefix }}", os.path.join(self.folder, "prefix"))
        self.shell(["set -e; " + script], PATH=tools + ":" + os.environ["PATH"], **files)
        with open(files["GITHUB_ENV"]) as file:
            given = dict(line.rstrip("\n").split("=", 1) for line in file)
        with open(files["GITHUB_PATH"]) as file:
            given["PATH"] = file.read().strip() + ":" + os.environ["PATH"]
        self.shell(steps, ACLMEM_PRODUCT="A3", ACLMEM_RULES="strict", **given)
        self.check_findings("findings.xml")

    def test_pinned_memory_is_explained(self):
        text = read("docs", "CI.md").partition("## Pinned memory\n")[2].partition("\n## ")[0]
        for words in ("207005", "ulimit -l", "prlimit", "--ulimit memlock=-1"):
            self.assertIn(words, text)
        for title, language in (("GitHub Actions", "yaml"), ("Plain shell", "sh")):
            self.assertIn("memlock", section(title, language))

    def test_a_finding_fails_the_job(self):
        shutil.copy(os.path.join(ROOT, "examples", "missing_sync.c"), os.path.join(self.folder, "my_test.c"))
        shutil.copy(os.path.join(ROOT, "examples", "example.h"), self.folder)
        with self.assertRaises(AssertionError):
            self.shell(section("Plain shell", "sh").splitlines())
        with self.assertRaises(AssertionError):
            self.check_findings("findings-A2-default.xml")

    def test_the_image_installs_packages_that_are_built(self):
        text = read("Dockerfile")
        self.assertIn("make -C /src deb", text)
        packages = set(re.findall(r"^Package: (\S+)", read("debian", "control"), flags=re.M))
        self.assertEqual(set(re.findall(r"/packages/([\w-]+?)_\*\.deb", text)), packages)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""npu-smi, read as programs in the field read it: test_npu_smi.py <npu-smi> <libascendcl.so>"""
import os
import re
import subprocess
import sys
import unittest

from test_aclmem import hold

PRODUCTS = {"A2": "Ascend910B1", "910B3": "Ascend910B3", "A3": "Ascend910_9391", "310P": "Ascend310P3", "950": ""}


def smi(*arguments, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ACLMEM_", "ASCEND_")) or k == "ACLMEM_RUNTIME_DIR"}
    env.update({"ACLMEM_MEMORY": "64G", "ACLMEM_DEVICES": "4"}, **more)
    return subprocess.run([NPU_SMI] + list(arguments), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)


def said(*arguments, product="A2", **more):
    done = smi(*arguments, ACLMEM_PRODUCT=product, **more)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def value(text, key):
    """After the last colon of the first line with the key."""
    return next(line for line in text.splitlines() if key in line).rpartition(":")[2].strip()


class Readers(unittest.TestCase):
    def test_a_build_takes_the_chip_from_line_7(self):
        self.assertEqual(said("info", product="910B3").splitlines()[6].split()[2], "910B3")
        self.assertEqual(said("info", product="310P").splitlines()[6].split()[2], "310P3")

    def test_a_setup_script_takes_ids_and_names_from_the_board(self):
        """A2: type + name; A3: name_npuname; what is not theirs is empty."""
        for product in ("A2", "A3"):
            npu = value(said("info", "-l", product=product), "NPU ID")
            board = said("info", "-t", "board", "-i", npu, "-c", "0", product=product)
            name = value(board, "Chip Name")
            if product == "A2":
                self.assertEqual(value(board, "Chip Type") + name, PRODUCTS["A2"])
                self.assertNotIn("NPU Name", board)
            else:
                self.assertEqual(name + "_" + value(board, "NPU Name"), PRODUCTS["A3"])
                self.assertNotIn("Chip Type", board)
        self.assertTrue(value(said("info", "-t", "board", "-i", "0", product="950"), "Chip Name").startswith("Ascend950"))

    def test_a_build_script_matches_the_chip_name(self):
        for product in ("A2", "A3", "950"):
            board = said("info", "-t", "board", "-i", "0", "-c", "0", product=product)
            self.assertTrue(re.search(r"^\s*Chip Name\s*:\s*(Ascend950|910B|Ascend910)", board, flags=re.M | re.I))

    def test_a_benchmark_counts_and_names_the_devices(self):
        self.assertEqual(value(said("info", "-l"), "Total Count"), "4")
        self.assertEqual(value(said("info", "-l", product="A3"), "Total Count"), "2")
        rows = [line for line in said("info").splitlines() if re.match(r"^\| [0-9]+", line)]
        self.assertEqual(rows[0].split("|")[1].split()[1], "910B1")

    def mapping(self, product, columns):
        """The rows of -m: a dict each, by the titles, which stand two blanks or more apart."""
        lines = said("info", "-m", product=product).splitlines()
        titles = re.split(r"\s{2,}", lines[0].strip())
        for column in columns:
            self.assertIn(column, titles)
        return [dict(zip(titles, re.split(r"\s{2,}", line.strip()))) for line in lines[1:]]

    def test_a_binder_of_processors_reads_the_mapping_and_skips_what_is_no_chip(self):
        rows = [r for r in self.mapping("A2", ["NPU ID", "Chip ID", "Chip Logic ID"]) if r["Chip Logic ID"].isdigit()]
        self.assertEqual([(r["NPU ID"], r["Chip ID"], r["Chip Logic ID"]) for r in rows],
                         [("0", "0", "0"), ("1", "0", "1"), ("2", "0", "2"), ("3", "0", "3")])
        rows = [r for r in self.mapping("A3", ["Chip Logic ID"]) if r["Chip Logic ID"].isdigit()]
        self.assertEqual([(r["NPU ID"], r["Chip ID"], r["Chip Logic ID"]) for r in rows],
                         [("0", "0", "0"), ("0", "1", "1"), ("1", "0", "2"), ("1", "1", "3")])
        self.assertEqual(len(self.mapping("950", ["Slot ID", "Chip Phy-ID"])), 4)

    def test_it_finds_the_processors_of_each_device(self):
        rows = [line.split() for line in said("info", "-t", "topo").splitlines() if re.match(r"NPU\d+ .*[\d,-]+$", line)]
        self.assertEqual([row[0] for row in rows], ["NPU0", "NPU1", "NPU2", "NPU3"])
        self.assertTrue(all(re.fullmatch(r"[\d,-]+", row[-1]) for row in rows))
        bus = next(line for line in said("info", "-t", "board", "-i", "0").splitlines() if "PCIe Bus Info" in line).split()[-1]
        self.assertRegex(bus, r"^0000:[0-9A-F]{2}:00\.0$")

    def test_a_worker_asks_for_health(self):
        for npu in "0123":
            self.assertEqual(value(said("info", "-i", npu, "-t", "health"), "Health"), "OK")

    def blocks(self, text):
        """As a cluster manager does: split at "+\n", words at bars, slashes and blanks, indexes from the titles."""
        devices, titles = [], []
        for part in text.split("+\n"):
            lines = [line for line in part.splitlines() if line.startswith("|")]
            if "Process id" in part:
                break
            if len(lines) != 2:
                continue
            words = [[w for w in re.split(r"[|/\s]+", line) if w] for line in lines]
            if "AICore(%)" in lines[1]:
                titles = words
            elif titles:
                devices.append(words)
        return titles, devices

    def test_a_cluster_manager_reads_names_and_memory(self):
        titles, devices = self.blocks(said("info"))
        self.assertEqual((titles[0].index("NPU"), titles[0].index("Name"), titles[0].index("Temp(C)")), (0, 1, 4))
        self.assertEqual(len(devices), 4)
        # A column of two numbers moves the ones behind it by one.
        at = titles[1].index("HBM-Usage(MB)") + 1
        for number, (first, second) in enumerate(devices):
            self.assertEqual((first[0], first[1]), (str(number), "910B1"))
            self.assertEqual(second[at:at + 2], ["0", str(64 << 10)])
        titles, devices = self.blocks(said("info", product="310P"))
        at = titles[1].index("Memory-Usage(MB)") - titles[1].index("Chip") - 1
        self.assertEqual(devices[0][1][at + 1:at + 3], ["0", str(64 << 10)])

    def test_a_process_is_in_the_table_while_it_lives(self):
        env = dict(os.environ, ACLMEM_MEMORY="64G", ACLMEM_DEVICES="4")
        holder = subprocess.Popen([sys.executable, os.path.abspath(__file__), "hold", LIBRARY, str(64 << 20)], env=env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        try:
            self.assertEqual(holder.stdout.readline(), "held\n")
            text = said("info")
            used = said("info", "-t", "usages", "-i", "0")
        finally:
            holder.kill()
            holder.communicate()
        lines = text.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("| NPU") and "Process id" in line)
        rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines[start + 2:] if re.match(r"\| \d", line)]
        self.assertEqual([(r[0].split(), r[1]) for r in rows], [(["0", "0"], str(holder.pid))])
        self.assertGreaterEqual(int(rows[0][3]), 64)
        self.assertIn("No running processes found in NPU 1", text)
        models = next([c.strip() for c in line.strip("|").split("|")] for line in lines if "Captured models" in line)
        self.assertEqual((models[0], models[1], models[3]), ("Captured models: 1", str(holder.pid), "Streams: 1"))
        self.assertEqual(value(used, "HBM Capacity(MB)"), str(64 << 10))

    def test_memory_and_usages_have_the_names_of_their_family(self):
        self.assertEqual(value(said("info", "-t", "memory", "-i", "0"), "HBM Capacity(MB)"), str(64 << 10))
        self.assertEqual(value(said("info", "-t", "usages", "-i", "0"), "HBM Usage Rate(%)"), "0")
        self.assertEqual(value(said("info", "-t", "memory", "-i", "0", product="310B-EP"), "Total Capacity(MB)"), str(64 << 10))
        self.assertIn("Memory Usage Rate(%)", said("info", "-t", "usages", "-i", "0", product="310B-EP"))

    def test_wrong_arguments_are_refused(self):
        for arguments in ([], ["set"], ["info", "-x"], ["info", "-t"], ["info", "-t", "board"], ["info", "-t", "power", "-i", "0"],
                          ["info", "-t", "board", "-i", "99"], ["info", "-t", "board", "-i", "x"]):
            done = smi(*arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn("usage: npu-smi", done.stderr)


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2], int(sys.argv[3]))
    else:
        NPU_SMI, LIBRARY = sys.argv[1:3]
        unittest.main(argv=sys.argv[:1])

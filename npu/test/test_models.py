"""models.py gives the CPU's results, without findings, under chaos seeds."""
import os
import subprocess
import sys

from conftest import HERE, command

SEEDS = os.environ.get("NPU_TEST_SEEDS", "1..20")


def test_models_have_the_cpus_results(run_program):
    done = run_program("models.py", "6")
    assert done.code == 0, done.output + done.errors
    assert done.output.startswith("equal: ") and done.findings == [], done.findings


def test_models_have_the_cpus_results_under_each_chaos_seed():
    done = subprocess.run([command(), "run", "--chaos", SEEDS, sys.executable, os.path.join(HERE, "models.py"), "2"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert done.returncode == 0, done.stdout[-4000:]

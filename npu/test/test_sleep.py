"""sleep_wake.py: a pluggable allocator in a pool and as the current one."""
import os

import pytest

from conftest import HERE, compile_library


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("sleep") / "sleep_allocator.so")
    compile_library(os.path.join(HERE, "sleep_allocator.c"), path)
    return path


@pytest.mark.parametrize("mode", ["pool", "current"])
def test_weights_sleep_and_wake_at_their_addresses(library, run_program, mode):
    done = run_program("sleep_wake.py", library, mode)
    assert (done.code, done.output) == (0, "good\n"), done.errors[-3000:]
    assert done.findings == [], done.findings

"""The layer check reports each mistake of mistakes.py, in its function, and nothing in the right programs."""
import ast
import os

import pytest

from conftest import HERE, Run

CHECK = ("--check", "default,race.host")


def frames(value):
    """The names of all frames in a finding."""
    if isinstance(value, dict):
        return [n for k, v in value.items() for n in ([v] if k in ("function", "name") else frames(v))]
    if isinstance(value, list):
        return [n for v in value for n in frames(v)]
    return []


def mistakes():
    """{function: (kind, group)}, from the decorators, without importing PyTorch."""
    with open(os.path.join(HERE, "mistakes.py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {f.name: tuple(a.value for a in f.decorator_list[0].args) for f in tree.body
            if isinstance(f, ast.FunctionDef) and f.decorator_list}


MISTAKES = mistakes()
_runs = {}


def run_of(which, name):
    """One process runs all mistakes of a group."""
    group = MISTAKES[name][1]
    if (which, group) not in _runs:
        names = [n for n in MISTAKES if MISTAKES[n][1] == group]
        _runs[which, group] = Run(os.path.join(HERE, "mistakes.py"), which, *names, options=CHECK)
    done = _runs[which, group]
    assert "done" in done.output, done.output + done.errors[-3000:]
    assert which == "wrong" or name + ":" not in done.output, done.output
    return done


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_reported(name):
    if MISTAKES[name][0] == "race.host" and os.environ.get("ACLMEM_BACKEND") == "cuda":
        pytest.skip("race.host protects no memory on a GPU")
    found = [f["kind"] for f in run_of("wrong", name).findings if name in frames(f)]
    assert MISTAKES[name][0] in found, found


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_the_right_program_is_silent(name):
    assert run_of("right", name).findings == []


def test_there_are_20_mistakes():
    assert len(MISTAKES) >= 20 and len({group for _, group in MISTAKES.values()}) == 4

"""The examples do what they say."""
import os

from conftest import HERE, Run

EXAMPLES = os.path.join(HERE, "..", "examples")


def test_training_ends_with_a_small_loss():
    done = Run(os.path.join(EXAMPLES, "train.py"))
    assert done.code == 0 and done.findings == [], done.errors
    losses = [float(line.split()[-1]) for line in done.output.splitlines() if line.startswith("step")]
    assert len(losses) == 3 and losses[-1] < 0.3, done.output


def test_generated_tokens_are_the_cpus():
    done = Run(os.path.join(EXAMPLES, "generate.py"), options=("--torch-npu",))
    assert done.code == 0 and done.findings == [], done.errors
    assert "equal to the CPU's: True" in done.output


def test_a_missing_wait_is_reported_with_both_lines():
    done = Run(os.path.join(EXAMPLES, "missing_wait.py"))
    assert [f["kind"] for f in done.findings] == ["race"], done.errors
    assert "missing_wait.py:18" in done.errors and "missing_wait.py:21" in done.errors, done.errors
    assert Run(os.path.join(EXAMPLES, "missing_wait.py"), "--fixed").findings == []

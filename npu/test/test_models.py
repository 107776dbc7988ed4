"""models.py gives the CPU's results, without findings, under chaos seeds."""
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

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


def outputs_and_gradients(module, sizes, device):
    module, inputs = module.to(device), [torch.linspace(-1, i + 1, 24).view(s).to(device).requires_grad_()
                                          for i, s in enumerate(sizes)]
    outputs = [t for t in torch.utils._pytree.tree_leaves(module(*inputs)) if t.requires_grad]
    sum(t.square().sum() for t in outputs).backward()
    return [t.detach().cpu() for t in [*outputs, *(t.grad for t in inputs), *(p.grad for p in module.parameters())]]


@pytest.mark.parametrize("kind, sizes", [
    (lambda: nn.LSTM(4, 3, 2, bidirectional=True), [(3, 2, 4)]), (lambda: nn.LSTM(4, 5, proj_size=2, bias=False), [(3, 2, 4)]),
    (lambda: nn.GRU(4, 3, 2, batch_first=True), [(3, 2, 4)]), (lambda: nn.RNN(4, 3), [(3, 2, 4)]),
    (lambda: nn.LSTMCell(4, 3), [(6, 4)]), (lambda: nn.GRUCell(4, 4, bias=False), [(6, 4), (6, 4)]),
    (nn.MSELoss, [(6, 4), (6, 4)]), (nn.SmoothL1Loss, [(2, 12), (2, 12)])])
def test_modules_have_the_cpus_results_and_print_nothing(npu, capfd, kind, sizes):
    torch.manual_seed(0)
    module = kind()
    cpu = outputs_and_gradients(module, sizes, "cpu")
    module.zero_grad()
    torch.testing.assert_close(outputs_and_gradients(module, sizes, "npu"), cpu)
    assert capfd.readouterr() == ("", "")

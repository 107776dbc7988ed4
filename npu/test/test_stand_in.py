"""aclmem run --torch-npu: programs that import torch_npu."""
import os
import subprocess
import sys

from conftest import command


def run(text, *options, **variables):
    done = subprocess.run([command(), "run", *options, sys.executable, "-c", text], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, env=dict(os.environ, **variables))
    return done.returncode, done.stdout


def test_a_program_for_torch_npu_runs_unchanged():
    code, output = run(
        "import torch, torch_npu\n"
        "from torch_npu.npu import mstx\n"
        "from torch_npu.npu.memory import NPUPluggableAllocator\n"
        "from torch_npu.npu._npugraph_handlers.npugraph_handler import _NPU_GRAPH_OP_HANDLERS\n"
        "import torch_npu.profiler, torch_npu._inductor, torch_npu.utils\n"
        "from torch_npu.multiprocessing.reductions import rebuild_npu_tensor\n"
        "assert torch.npu is torch_npu.npu and torch.version.cann is not None\n"
        "x = torch.randn(4, 16).npu()\n"
        "y, _ = torch_npu.npu_rms_norm(x, torch.ones(16).npu(), 1e-6)\n"
        "assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, 29)) == 29\n"
        "with torch_npu.profiler.profile(activities=[torch_npu.profiler.ProfilerActivity.NPU]) as p: p.step()\n"
        "mstx.mark('step')\n"
        "assert torch_npu._C._weak_ref_tensor(x).data_ptr() == x.data_ptr()\n"
        "try:\n"
        "    torch_npu.npu_moe_gating_top_k(x)\n"
        "except NotImplementedError as error:\n"
        "    print(y.shape, str(error).split(':')[0])\n", "--torch-npu")
    assert code == 0 and "torch.Size([4, 16]) npu_moe_gating_top_k" in output, output


def test_import_torch_alone_loads_it():
    code, output = run("import torch; print(torch.ones(3, device='npu').sum().item())", "--torch-npu")
    assert code == 0 and "3.0" in output, output


def test_without_the_option_there_is_no_torch_npu():
    code, output = run("import torch_npu")
    assert code != 0 and "No module named 'torch_npu'" in output, output


def test_a_real_torch_npu_is_not_replaced(tmp_path):
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text("")
    code, output = run("import torch_npu", "--torch-npu",
                       PYTHONPATH=os.environ["PYTHONPATH"] + ":" + str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert code != 0 and "the real torch_npu is installed (%s" % tmp_path in output, output


def test_a_program_for_cuda_runs_with_transfer_to_npu():
    code, output = run(
        "import torch\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "assert torch.cuda.is_available() and torch.device('cuda:0').type == 'npu'\n"
        "model = torch.nn.Linear(4, 2).cuda()\n"
        "x = torch.ones(3, 4, device='cuda')\n"
        "with torch.cuda.stream(torch.cuda.Stream()):\n"
        "    torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())\n"
        "    y = model(x)\n"
        "torch.cuda.synchronize()\n"
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "    assert model(x).dtype == torch.bfloat16\n"
        "print(y.is_cuda, y.device, torch.cuda.memory_allocated() > 0, isinstance(y.device, torch.device))\n", "--torch-npu")
    assert code == 0 and "True npu:0 True True" in output, output

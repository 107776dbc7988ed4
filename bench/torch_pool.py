#!/usr/bin/env python3
"""The pool inside PyTorch, beside PyTorch's own allocators.

    python3 bench/torch_pool.py [--steps N] [--json] [--floor build/bench/bench_torch_floor.so]

Each allocator has a process of its own: native, expandable (segments), aclmem, and with --floor the least that an allocator
behind PyTorch's interface can do.  Rows are a hit (torch.empty and its end), the time of a training step of a small transformer with random weights,
and the share of held memory that is live at the peak.  A last row runs the same job with a limit of 1.05 times its
live bytes.  Without PyTorch or a GPU it says so and exits with 0.
"""
import argparse
import json
import os
import subprocess
import sys
import time

ALLOCATORS = ("native", "expandable", "aclmem")


def model_make(torch):
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device="cuda")
    return torch.nn.TransformerEncoder(layer, 12)


def steps_run(torch, model, optimizer, n):
    """Seconds of the quickest half of the steps, on average; batches differ in length from step to step."""
    times = []
    for step in range(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        batch = torch.randn(8, 256 + 64 * (step % 5), 1024, device="cuda")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    times = sorted(times[n // 4:])
    return sum(times[: len(times) // 2]) / (len(times) // 2)


def hit_ns(torch, size, n=20000):
    """torch.empty and its end: most of it is Python, so only differences between allocators mean something."""
    torch.empty(size, dtype=torch.uint8, device="cuda")
    start = time.perf_counter()
    for _ in range(n):
        torch.empty(size, dtype=torch.uint8, device="cuda")
    return (time.perf_counter() - start) * 1e9 / n


def floor_measure(torch, library):
    """The same with an allocator that does nothing: PyTorch's interface alone."""
    plugged = torch.cuda.memory.CUDAPluggableAllocator(library, "floor_malloc", "floor_free")
    torch.cuda.memory.change_current_allocator(plugged)
    return {"hit_512": hit_ns(torch, 512), "hit_4m": hit_ns(torch, 4 << 20)}


def child(name, steps, limit):
    if name == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    if name.endswith(".so"):
        print("RESULT " + json.dumps(floor_measure(torch, name)))
        return
    if name == "aclmem":
        import aclmem.torch

        aclmem.torch.install()
    if limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    result = {"hit_512": hit_ns(torch, 512), "hit_4m": hit_ns(torch, 4 << 20)}
    model = model_make(torch)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.cuda.reset_peak_memory_stats()
    result["step"] = steps_run(torch, model, optimizer, steps)
    result["peak_live"] = torch.cuda.max_memory_allocated()
    result["peak_held"] = torch.cuda.max_memory_reserved()
    print("RESULT " + json.dumps(result))


def run(name, steps, limit=0):
    """The child's figures, or None where it failed."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", name, "--steps", str(steps), "--limit",
                           str(limit)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT "):])
    if not limit:
        print("%s failed: %s" % (name, done.stderr.strip().splitlines()[-1:] or done.returncode), file=sys.stderr)
    return None


def rows_of(figures, steps):
    ours, theirs = figures["aclmem"], figures["expandable"]
    share = 100 * ours["peak_live"] / ours["peak_held"]
    limit = int(1.05 * ours["peak_live"])
    yield "training step, ms", 1000 * ours["step"], 1000 * theirs["step"], ours["step"] <= 1.02 * theirs["step"]
    yield "peak live / peak held, %", share, 100 * theirs["peak_live"] / theirs["peak_held"], share >= 99
    for key in ("hit_512", "hit_4m"):
        native = figures["native"][key]
        yield "torch.empty, %s, ns; beside native" % key[4:], ours[key], native, ours[key] <= 1.5 * native
        if "floor" in figures:
            floor = figures["floor"][key]
            yield "torch.empty, %s, ns; beside no allocator" % key[4:], ours[key], floor, ours[key] <= 1.1 * floor
    tight = run("aclmem", steps, limit) is not None
    yield "fits into 1.05 x live (1: yes); beside native", tight, run("native", steps, limit) is not None, tight


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--floor", metavar="LIBRARY", help="bench_torch_floor.so of the build")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child, chosen.steps, chosen.limit)
    try:
        import torch
    except ImportError:
        print("not measured: there is no PyTorch")
        return None
    if not torch.cuda.is_available():
        print("not measured: there is no GPU")
        return None
    figures = {name: run(name, chosen.steps) for name in ALLOCATORS}
    if chosen.floor:
        figures["floor"] = run(os.path.abspath(chosen.floor), chosen.steps)
    if None in figures.values():
        sys.exit(1)
    rows = list(rows_of(figures, chosen.steps))
    if chosen.json:
        print(json.dumps([{"what": what, "ours": ours, "limit": limit, "ok": bool(ok)} for what, ours, limit, ok in rows]))
        return None
    for what, ours, limit, ok in rows:
        print("%-44s %12.2f %12.2f  %s" % (what, ours, limit, "ok" if ok else "MISS"))
    return None


if __name__ == "__main__":
    main()

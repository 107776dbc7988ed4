#!/usr/bin/env python3
"""The pool inside PyTorch, beside PyTorch's own allocators.

    python3 bench/torch_pool.py [--steps N] [--json] [--library build/bench/bench_torch_floor.so]
    python3 bench/torch_pool.py --jobs LoRA,generation [--rounds N] [--in-turn]
    python3 bench/torch_pool.py --replay [TRACE]

Each allocator has a process of its own: native, expandable (segments), aclmem, and the least that an allocator behind
PyTorch's interface can do.  Three jobs run in each, with models of plain modules and random weights: training, training of
low-rank adapters (LoRA) on a frozen model, and generation with a cache of keys and values that grows token by token.
Rows are the time of a step, the share of held memory that is live at the peak, and a hit: a block that was freed a moment
ago, by torch.empty and by a loop without Python.  A last row runs the training with a limit of 1.05 times its live bytes.
With --jobs those alone run, with expandable segments and with the pool in turn, and the pages that moved or were made in a
step are told.  With --in-turn both processes live at the same time, on the same two processors, and take a step each in
turn, so that they have the same minutes of a machine whose speed changes; the median of the rounds counts.  With --alike
expandable segments are on both sides: what is measured then is the error of the method.  With --replay the allocators
alone are measured, without Python and without kernels: each plays the blocks of a recorded LoRA training, or of another
trace, warm and with caches that other code has filled between two calls.  Without PyTorch or a GPU it says so and exits
with 0.
"""
import argparse
import ctypes
import gc
import gzip
import json
import os
import subprocess
import sys
import time

ALLOCATORS = ("native", "expandable", "aclmem")
JOBS = ("training", "LoRA", "generation")
SIZES = {"512 B": 512, "4 MB": 4 << 20}
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "..", "build", "bench", "bench_torch_floor.so")
CYCLE = os.path.join(HERE, "traces", "lora_cycle.trace.gz")
CYCLE_STEPS = 5  # of CYCLE; each has a length of its own
COLD_BYTES = 1 << 20  # what other code reads between two calls, where caches are cold
COLD_CALLS = 12000  # so many of a trace are timed like that: a second or less
WARM_CALLS = 400000

# ---- jobs: each yields what makes steps alike, and the seconds and calls of a step ----


def calls(torch):
    """Pages that the pool moved and made, and its waits for queued work, so far; zeros for other allocators."""
    stats = torch.cuda.memory_stats()
    if "aclmem.pages_moved" not in stats:
        return 0, 0, 0
    return stats["aclmem.pages_moved"], stats["aclmem.pages_created"], stats["num_alloc_retries"]


is_in_turn = False  # steps begin when the parent says so


def timed(torch, step):
    """Seconds, then what calls() counted."""
    if is_in_turn:
        sys.stdin.readline()
    try:
        return timed_now(torch, step)
    finally:
        if is_in_turn:
            print("STEP", flush=True)


def timed_now(torch, step):
    before = calls(torch)
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return (seconds,) + tuple(now - then for now, then in zip(calls(torch), before))


def training(torch, n):
    """A small transformer; batches differ in length from step to step."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device="cuda")
    model = torch.nn.TransformerEncoder(layer, 12)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(length):
        batch = torch.randn(8, length, 1024, device="cuda")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for i in range(n):
        length = 256 + 64 * (i % 5)
        yield length, timed(torch, lambda: step(length))


def decoder_make(torch, n_layers=16, width=2048, n_heads=16, rank=0):
    """A decoder in bfloat16; with a rank its weights are frozen and each linear layer has an adapter of that rank."""
    nn = torch.nn
    kind = {"device": "cuda", "dtype": torch.bfloat16}

    class Linear(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.base = nn.Linear(n_in, n_out, bias=False, **kind)
            self.base.weight.requires_grad_(False)
            if rank:
                self.down = nn.Linear(n_in, rank, bias=False, **kind)
                self.up = nn.Linear(rank, n_out, bias=False, **kind)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x)) if rank else self.base(x)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1 = nn.LayerNorm(width, **kind)
            self.norm_2 = nn.LayerNorm(width, **kind)
            self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
            self.wide, self.narrow = Linear(width, 4 * width), Linear(4 * width, width)

        def forward(self, x, cache=None):
            """cache: None, or a list of the keys and values so far, which grow by those of x."""
            shape = (x.shape[0], x.shape[1], n_heads, width // n_heads)
            q, k, v = (t.reshape(shape).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
            if cache is not None:
                if cache:
                    k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
                cache[:] = [k, v]
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))

    return nn.ModuleList(Layer() for _ in range(n_layers)), kind


def lora(torch, n):
    layers, kind = decoder_make(torch, rank=16)
    optimizer = torch.optim.AdamW(p for p in layers.parameters() if p.requires_grad)

    def step(length):
        x = torch.randn(8, length, 2048, **kind)
        for layer in layers:
            x = layer(x)
        x.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for i in range(n):
        length = 200 + 72 * (i % 5)
        yield length, timed(torch, lambda: step(length))


def generation(torch, n):
    """Rounds of a prompt and tokens behind it; a step is 16 tokens, alike in all rounds."""
    layers, kind = decoder_make(torch)

    def tokens(x, caches, count):
        for _ in range(count):
            for layer, cache in zip(layers, caches):
                x = layer(x, cache)
            x = x[:, -1:].contiguous()
        return x

    with torch.no_grad():
        for _ in range(max(3, n // 8)):
            caches = [[] for _ in layers]
            x = tokens(torch.randn(16, 333, 2048, **kind), caches, 1)
            for i in range(8):
                yield i, timed(torch, lambda: tokens(x, caches, 16))


def step_seconds(times):
    """Alike steps go together: the quickest half of each kind, without its first; on average over the kinds."""
    kinds = {}
    for kind, (seconds, *_) in times:
        kinds.setdefault(kind, []).append(seconds)
    means = []
    for each in kinds.values():
        each = sorted(each[1:] or each)
        each = each[: (len(each) + 1) // 2]
        means.append(sum(each) / len(each))
    return sum(means) / len(means)


def step_calls(times):
    """On average over all steps but the first of each kind: moved, made, waits."""
    seen, later = set(), []
    for kind, (_, *counts) in times:
        if kind in seen:
            later.append(counts)
        seen.add(kind)
    return [sum(column) / len(later) for column in zip(*later)]


def job_run(torch, name, n):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    job = {"training": training, "LoRA": lora, "generation": generation}[name]
    times = list(job(torch, n))
    return {"step": step_seconds(times), "calls": step_calls(times), "peak_live": torch.cuda.max_memory_allocated(),
            "peak_held": torch.cuda.max_memory_reserved()}

# ---- hits ----


def empty_ns(torch, size, n=20000):
    """torch.empty and its end: most of it is Python, so only differences between allocators mean something."""
    torch.empty(size, dtype=torch.uint8, device="cuda")
    start = time.perf_counter()
    for _ in range(n):
        torch.empty(size, dtype=torch.uint8, device="cuda")
    return (time.perf_counter() - start) * 1e9 / n


class Operation(ctypes.Structure):
    """A block, or with size 0 its end."""
    _fields_ = [("size", ctypes.c_uint64), ("block", ctypes.c_uint64)]


def loops_load(path):
    """The loops without Python, or None where they were not built."""
    if not os.path.exists(path):
        return None
    library = ctypes.CDLL(path)
    for name, kinds in (("hit_allocator_ns", [ctypes.c_size_t] * 2),
                        ("hit_direct_ns", [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2),
                        ("hit_replay_us", [ctypes.POINTER(Operation)] + [ctypes.c_size_t] * 6)):
        if not hasattr(library, name):
            return None
        getattr(library, name).restype = ctypes.c_double
        getattr(library, name).argtypes = kinds
    return library


def hits_measure(torch, loops, pool=None):
    """Best of five for the loops; `pool` is libaclmem_torch.so, whose functions are called without PyTorch too."""
    hits = {}
    for name, size in SIZES.items():
        hits["empty " + name] = empty_ns(torch, size)
        if loops is not None:
            hits["loop " + name] = min(loops.hit_allocator_ns(size, 100000) for _ in range(5))
        if loops is not None and pool is not None:
            functions = [ctypes.cast(getattr(pool, f), ctypes.c_void_p) for f in ("aclmem_torch_malloc", "aclmem_torch_free")]
            hits["direct " + name] = min(loops.hit_direct_ns(*functions, size, 100000) for _ in range(5))
    return hits


# ---- a recorded sequence ----


def trace_load(path):
    """Operations, how many of them come before the rounds, and how many blocks: blocks that never end stay in all rounds."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        events = [line.split() for line in lines if line[:2] in ("a ", "f ")]
    ends = {event[1] for event in events if event[0] == "f"}
    numbers, first, later = {}, [], []
    for kind, name, *rest in events:
        if kind == "a":
            numbers[name] = len(numbers)
            (later if name in ends else first).append((int(rest[0]), numbers[name]))
        elif name in numbers:
            later.append((0, numbers[name]))
    return (Operation * len(first + later))(*(first + later)), len(first), len(numbers)


def replay_measure(torch, loops, path):
    """Microseconds of a round: {"warm": ..., "cold": ...}."""
    operations, n_first, n_blocks = trace_load(path)
    n = len(operations) - n_first
    figures = {}
    torch.empty(1, dtype=torch.uint8, device="cuda")  # the device is ready
    torch.cuda.synchronize()
    sys.stdin.readline()  # the others are ready, too, and wait
    for name, n_rounds, n_cold in (("warm", max(2, WARM_CALLS // n), 0), ("cold", 2, COLD_BYTES)):
        figures[name] = loops.hit_replay_us(operations, n_first, n, n_blocks, n_rounds, n_cold, COLD_CALLS)
        if figures[name] < 0:
            sys.exit("a block of the trace was refused" if figures[name] < -1 else "this PyTorch's allocator is not known")
    return figures


def oom_type(torch):
    """Which exception PyTorch makes of memory that is not there."""
    try:
        torch.empty(1 << 46, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return type(error).__name__
    return "none"

# ---- processes ----


def child(chosen):
    global is_in_turn
    is_in_turn = chosen.in_turn and not chosen.limit
    if chosen.child == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    pool = None
    loops = loops_load(chosen.library)
    if chosen.child == "floor":
        plugged = torch.cuda.memory.CUDAPluggableAllocator(chosen.library, "floor_malloc", "floor_free")
        torch.cuda.memory.change_current_allocator(plugged)
        print("RESULT " + json.dumps(hits_measure(torch, loops)))
        return
    if chosen.child == "aclmem":
        import aclmem.torch

        pool = aclmem.torch.install().library
    if chosen.replay:
        print("RESULT " + json.dumps(replay_measure(torch, loops, chosen.replay)))
        return
    if chosen.limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, chosen.limit / total))
        print("RESULT " + json.dumps(job_run(torch, "training", chosen.steps)))
        return
    result = {} if chosen.jobs else hits_measure(torch, loops, pool)
    for name in chosen.jobs or JOBS:
        result[name] = job_run(torch, name, chosen.steps)
    if pool is not None and not chosen.jobs:
        result["oom"] = oom_type(torch)
    print("RESULT " + json.dumps(result))


def run(name, chosen, limit=0):
    """The child's figures, or None where it failed."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--child", name, "--steps", str(chosen.steps),
                           "--limit", str(limit), "--library", chosen.library, "--jobs", ",".join(chosen.jobs)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT "):])
    if not limit:
        print("%s failed: %s" % (name, done.stderr.strip().splitlines()[-3:] or done.returncode), file=sys.stderr)
    return None


def step_take(process):
    """A step of a process that waits for its turn: the figures after its last one, else None."""
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # the reason is on its stderr
    for line in process.stdout:
        if line.startswith("STEP"):
            return None
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT "):])
    sys.exit("a job failed")


def processors_choose():
    """
    Two for both processes: the main thread and the one of the gradients.  Threads that move between processors make one
    process faster than the next one by up to a tenth.
    """
    all_here = sorted(os.sched_getaffinity(0))
    middle = len(all_here) // 2  # the first ones serve interrupts
    os.sched_setaffinity(0, all_here[middle:middle + 2])


def run_in_turn(names, chosen):
    """The figures of both; the processes live at the same time, and one of them works."""
    command = [sys.executable, os.path.abspath(__file__), "--in-turn", "--steps", str(chosen.steps), "--library",
               chosen.library, "--jobs", ",".join(chosen.jobs), "--child"]
    processes = [subprocess.Popen(command + [name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
                 for name in names]
    figures = [None for _ in names]
    while None in figures:
        for i, process in enumerate(processes):
            figures[i] = figures[i] or step_take(process)
    for process in processes:
        process.communicate()
    return figures


def job_rows(ours, theirs, names):
    for name in names:
        a, b = ours[name], theirs[name]
        share = 100 * a["peak_live"] / a["peak_held"]
        yield "%s, ms a step; expandable" % name, 1000 * a["step"], 1000 * b["step"], a["step"] <= 1.02 * b["step"]
        yield "%s, peak live / held, %%; expandable" % name, share, 100 * b["peak_live"] / b["peak_held"], share >= 99


def rounds_of(chosen):
    """Each round's figures, ours and theirs.  Which process begins changes: the first one is slower by a hundredth."""
    names = ("expandable" if chosen.alike else "aclmem", "expandable")
    if not chosen.in_turn:
        return [[run(name, chosen) for name in names] for _ in range(chosen.rounds)]
    processors_choose()
    return [run_in_turn(names[::order], chosen)[::order] for order in ((1, -1) * chosen.rounds)[:chosen.rounds]]


def jobs_rows(chosen):
    """The jobs alone; stderr has the rounds.  The quickest round counts, in turn the middle one, and the fullest."""
    rounds = rounds_of(chosen)
    if any(figures is None for each in rounds for figures in each):
        sys.exit(1)
    both = ({}, {})
    for name in chosen.jobs:
        ratios = sorted(rounds, key=lambda each: each[0][name]["step"] / each[1][name]["step"])
        for i in (0, 1):
            quickest = min((each[i] for each in rounds), key=lambda figures: figures[name]["step"])
            both[i][name] = dict((ratios[len(rounds) // 2][i] if chosen.in_turn else quickest)[name])
        both[0][name]["peak_held"] = max(each[0][name]["peak_held"] for each in rounds)
        print("%s, each round: %s" % (name, " ".join(
            "%.3f" % (each[0][name]["step"] / each[1][name]["step"]) for each in rounds)), file=sys.stderr)
    yield from job_rows(*both, chosen.jobs)
    for name in chosen.jobs:
        moved, made, waits = both[0][name]["calls"]
        yield "%s, a step: pages moved; made" % name, moved, made, True
        yield "%s, a step: waits for the GPU; none" % name, waits, 0, True


def replay_run(chosen, path):
    """The figures of all allocators; the processes start together and play one after the other."""
    command = [sys.executable, os.path.abspath(__file__), "--library", chosen.library, "--replay", path, "--child"]
    processes = {name: subprocess.Popen(command + [name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        universal_newlines=True) for name in ALLOCATORS}
    figures = {}
    for name, process in processes.items():
        for line in process.communicate("\n")[0].splitlines():
            if line.startswith("RESULT "):
                figures[name] = json.loads(line[len("RESULT "):])
    if len(figures) < len(ALLOCATORS):
        sys.exit(1)  # the reason is on stderr
    return figures


def replay_rows(chosen, path):
    figures = replay_run(chosen, path)
    is_cycle = os.path.abspath(path) == CYCLE
    what = "a LoRA step" if is_cycle else os.path.basename(path)
    parts = CYCLE_STEPS if is_cycle else 1
    for state in ("warm", "cold"):
        us = {name: figures[name][state] / parts for name in ALLOCATORS}
        for beside in ("expandable", "native"):
            yield ("allocator's time in %s, replayed, %s, us; %s" % (what, state, beside), us["aclmem"], us[beside],
                   us["aclmem"] <= 1.5 * us[beside])


def rows_of(figures, chosen):
    """Rows: the name, our figure, the figure beside it, and whether the budget is kept."""
    ours, native, theirs = figures["aclmem"], figures["native"], figures["expandable"]
    yield from job_rows(ours, theirs, JOBS)
    for size in SIZES:
        if "direct " + size in ours and native.get("loop " + size, 0) > 0:
            hit = native["loop " + size]
            yield "hit, %s, ns; native" % size, ours["direct " + size], hit, ours["direct " + size] <= 0.5 * hit
            yield "hit through PyTorch, %s, ns; native" % size, ours["loop " + size], hit, ours["loop " + size] <= 1.5 * hit
        empty = ours["empty " + size]
        yield "torch.empty, %s, ns; native" % size, empty, native["empty " + size], empty <= 1.5 * native["empty " + size]
        if "floor" in figures:
            floor = figures["floor"]["empty " + size]
            yield "torch.empty, %s, ns; no allocator" % size, empty, floor, empty <= 1.1 * floor
    yield "torch.OutOfMemoryError (1: yes)", ours["oom"] == "OutOfMemoryError", 1, ours["oom"] == "OutOfMemoryError"
    if loops_load(chosen.library) is not None:
        yield from replay_rows(chosen, CYCLE)
    limit = int(1.05 * ours["training"]["peak_live"])
    fits = run("aclmem", chosen, limit) is not None
    yield "training fits into 1.05 x live (1: yes); native", fits, run("native", chosen, limit) is not None, fits


def all_rows(chosen):
    names = ALLOCATORS + (("floor",) if os.path.exists(chosen.library) else ())
    if "floor" not in names:
        print("not measured: hits without Python, since there is no %s" % chosen.library, file=sys.stderr)
    figures = {name: run(name, chosen) for name in names}
    if None in figures.values():
        sys.exit(1)
    return rows_of(figures, chosen)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--library", "--floor", default=LIBRARY, help="bench_torch_floor.so of the build")
    parser.add_argument("--jobs", default="", help="some of %s, with commas, and nothing else" % ", ".join(JOBS))
    parser.add_argument("--rounds", type=int, default=2, help="of --jobs: how often each allocator runs")
    parser.add_argument("--replay", nargs="?", const=CYCLE, help="a trace, by default five steps of LoRA, and nothing else")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--in-turn", action="store_true", help="of --jobs: a step of each allocator in turn")
    parser.add_argument("--alike", action="store_true", help="of --jobs: expandable segments on both sides")
    parser.add_argument("--limit", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    chosen.library = os.path.abspath(chosen.library)
    chosen.jobs = [name for name in chosen.jobs.split(",") if name]
    if not set(chosen.jobs) <= set(JOBS):
        parser.error("--jobs takes some of " + ", ".join(JOBS))
    return chosen


def main():
    chosen = arguments()
    if chosen.child:
        return child(chosen)
    try:
        import torch
    except ImportError:
        print("not measured: there is no PyTorch")
        return None
    if not torch.cuda.is_available():
        print("not measured: there is no GPU")
        return None
    start = time.perf_counter()
    if chosen.replay:
        if loops_load(chosen.library) is None:
            sys.exit("%s has no loops without Python: it is built where there is a C++ compiler" % chosen.library)
        rows = list(replay_rows(chosen, chosen.replay))
    else:
        rows = list(jobs_rows(chosen) if chosen.jobs else all_rows(chosen))
    if chosen.json:
        print(json.dumps([{"what": what, "ours": ours, "limit": limit, "ok": bool(ok)} for what, ours, limit, ok in rows]))
        return None
    print("%-72s %12s %12s %7s" % ("what; beside", "aclmem", "beside", "ratio"))
    for what, ours, limit, ok in rows:
        ratio = "%.3f" % (ours / limit) if limit else ""
        print("%-72s %12.2f %12.2f %7s  %s" % (what, ours, limit, ratio, "ok" if ok else "MISS"))
    print("took %.0f s" % (time.perf_counter() - start))
    return None


if __name__ == "__main__":
    main()

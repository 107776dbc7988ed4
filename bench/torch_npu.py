#!/usr/bin/env python3
"""What an operator of the PyTorch device npu costs the program, beside the kernel of the CPU:

    PYTHONPATH=build/python python3 bench/torch_npu.py [--strict] [--json]

A row is an operator on small tensors, of which the kernel of the CPU takes about a microsecond.  `cpu` is a call on the CPU,
`npu` the call that queues the same operator, while the stream is blocked and so runs nothing beside the program; both are
measured in turn in one process, in this thread's own time, and the first quartile of the rounds counts, since others only
ever add.  Shapes are in the cache of inferences.  `limit` is cpu + 10 us.  With --strict a row over its limit fails the program.
"""
import json
import sys
import time

import torch

import aclmem.npu  # noqa: F401

ROUNDS, CALLS = 41, 500
BUDGET = 10.0  # us over the kernel of the CPU


def operators(device):
    """{name: a function that calls the operator once}."""
    a, b = torch.ones(16, 16, device=device), torch.ones(16, 16, device=device)
    weight = torch.ones(16, device=device)
    functional = torch.nn.functional
    return {
        "add": lambda: a + b,
        "mul by a number": lambda: a * 2.0,
        "add_": lambda: a.add_(b),
        "mm": lambda: a @ b,
        "softmax": lambda: a.softmax(-1),
        "sum": lambda: a.sum(),
        "cat": lambda: torch.cat((a, b)),
        "layer_norm": lambda: functional.layer_norm(a, (16,), weight, weight),
    }


def cost(call):
    """Microseconds of this thread for one call."""
    begun = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - begun) / CALLS / 1000


def queued_cost(call):
    """The same, behind an event, so that the stream's thread does not use the processor and its caches meanwhile."""
    gate, stream = torch.npu.ExternalEvent(), torch.npu.current_stream()
    gate.wait(stream)
    result = cost(call)
    gate.record(side)
    torch.npu.synchronize()
    return result


def rows():
    """(operator, us on the CPU, us to queue it)"""
    on_cpu, on_npu = operators("cpu"), operators("npu")
    samples = {name: ([], []) for name in on_cpu}
    for _ in range(ROUNDS):
        for name in on_cpu:
            samples[name][0].append(cost(on_cpu[name]))
            samples[name][1].append(queued_cost(on_npu[name]))
    for name, (cpu, npu) in samples.items():
        yield name, sorted(cpu)[ROUNDS // 4], sorted(npu)[ROUNDS // 4]


def main(words):
    is_over, results = False, []
    if "--json" not in words:
        print("%-16s %8s %8s %8s %8s   us for a call" % ("operator", "cpu", "npu", "limit", "of limit"))
    for name, cpu, npu in rows():
        limit = cpu + BUDGET
        is_over |= npu > limit
        results.append({"operator": name, "cpu_us": cpu, "npu_us": npu, "limit_us": limit, "ratio": npu / limit})
        if "--json" not in words:
            print("%-16s %8.2f %8.2f %8.2f %7.0f %%%s" % (name, cpu, npu, limit, 100 * npu / limit,
                                                        "   missed" if npu > limit else ""))
    if "--json" in words:
        print(json.dumps(results, indent=1))
    return 1 if is_over and "--strict" in words else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    side = torch.npu.Stream()
    sys.exit(main(sys.argv[1:]))

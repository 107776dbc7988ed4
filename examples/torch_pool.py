#!/usr/bin/env python3
"""A small model trained with aclmem's pool as PyTorch's allocator, on one NVIDIA GPU.

    python3 examples/torch_pool.py [STEPS]

Prints how much of the memory held was in use.  Without PyTorch, or without a GPU, it says so and does nothing.
"""
import sys

import aclmem.torch


def main():
    try:
        import torch
    except ImportError:
        print("there is no PyTorch here; nothing to show")
        return
    if not torch.cuda.is_available():
        print("there is no GPU here; nothing to show")
        return
    allocator = aclmem.torch.install()  # before the first tensor

    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    layers = [torch.nn.Linear(4096, 11008), torch.nn.GELU(), torch.nn.Linear(11008, 4096)]
    model = torch.nn.Sequential(*(layers * 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        batch = torch.randn(64 * (1 + step % 7), 4096, device="cuda")  # sizes differ from step to step
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()

    stats = allocator.stats()
    print("%.1f MB live, %.1f MB held at the peak: %.1f %% in use" % (
        stats.peak_live / 2**20, stats.peak_held / 2**20, 100 * stats.peak_live / stats.peak_held))
    print(torch.cuda.memory_summary())


if __name__ == "__main__":
    main()

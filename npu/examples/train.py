"""Trains a small classifier on the device npu, with mixed precision and pinned memory, and prints its losses.

    aclmem run python3 train.py
"""
import torch
from torch import nn

import aclmem.npu  # noqa: F401


def batches(n):
    generator = torch.Generator().manual_seed(0)
    for _ in range(n):
        points = torch.randn(64, 2, generator=generator)
        yield points, (points[:, 0] * points[:, 1] > 0).long()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.npu.amp.GradScaler()
    copies = torch.npu.Stream()
    for step, (points, labels) in enumerate(batches(60)):
        with torch.npu.stream(copies):  # copies run beside the work of the last step
            points = points.pin_memory().to("npu", non_blocking=True)
            labels = labels.pin_memory().to("npu", non_blocking=True)
        torch.npu.current_stream().wait_stream(copies)
        for tensor in (points, labels):
            tensor.record_stream(torch.npu.current_stream())
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(points), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 20 == 19:
            print("step %d: loss %.2f" % (step + 1, loss.item()))
    print("memory: %.1f MB reserved" % (torch.npu.max_memory_reserved() / 2**20))


if __name__ == "__main__":
    main()

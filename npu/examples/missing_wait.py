"""A side stream computes, and the main stream reads the result without waiting: the layer check reports it.

    aclmem run python3 missing_wait.py          reports the race
    aclmem run python3 missing_wait.py --fixed  reports nothing
"""
import sys

import torch

import aclmem.npu  # noqa: F401


def main(is_fixed):
    x = torch.ones(512, 512, device="npu")
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.mul_(2)
    if is_fixed:
        torch.npu.current_stream().wait_stream(side)
    print("mean:", x.mean().item())


if __name__ == "__main__":
    main("--fixed" in sys.argv)

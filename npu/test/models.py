"""Trains a small transformer and a residual block on the CPU and on the device, and generates tokens with a cache of keys and
values: the results must be equal.  Exit code 1 and a line for each difference.

    models.py [STEPS]

The work is spread over several streams, so that chaos seeds reorder it.
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn

import aclmem.npu  # noqa: F401

torch.set_num_threads(1)
WORDS, WIDTH, HEADS, LENGTH = 31, 32, 4, 12
failures = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x, cache=None):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = [k, v]
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.after(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(WIDTH, WORDS)

    def forward(self, words, start=0, caches=None):
        places = torch.arange(start, start + words.shape[1], device=words.device)
        x = self.words(words) + self.places(places)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return self.last(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.first, self.second = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        y = F.relu(self.first(self.one(x)))
        y = F.relu(x + self.second(self.two(y)))
        return self.last(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Feeder:
    """Copies each batch to the device on a side stream."""

    def __init__(self, device):
        self.device = device
        self.side = torch.npu.Stream() if device == "npu" else None

    def __call__(self, tensor):
        if self.side is None:
            return tensor
        with torch.npu.stream(self.side):
            moved = tensor.pin_memory().to("npu", non_blocking=True)
        torch.npu.current_stream().wait_stream(self.side)
        moved.record_stream(torch.npu.current_stream())
        return moved


def train(model, batches, device, optimizer):
    model = model.to(device)
    feed, optimizer = Feeder(device), optimizer(model.parameters())
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        logits = model(feed(inputs))
        loss = F.cross_entropy(logits.flatten(0, -2), feed(targets).flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses]


def generate(model, device, n):
    words = torch.tensor([[1, 2, 3]], device=device)
    caches = [[] for _ in model.blocks]
    result = []
    with torch.no_grad():
        for _ in range(n):
            start = 0 if not caches[0] else caches[0][0].shape[2]
            logits = model(words, start, caches)
            words = logits[:, -1].argmax(-1, keepdim=True)
            result.append(words)
    return torch.cat(result, 1).tolist()


def expect_close(what, got, want):
    if not torch.allclose(torch.tensor(got), torch.tensor(want), rtol=1e-4, atol=1e-4):
        failures.append("%s: %s instead of %s" % (what, got, want))


def main(steps):
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(WORDS, (4, LENGTH + 1), generator=generator) for _ in range(steps)]
    pictures = [(torch.randn(4, 4, 8, 8, generator=generator), torch.randint(3, (4,), generator=generator)) for _ in range(steps)]
    results = {}
    for device in ("cpu", "npu"):
        torch.manual_seed(1)
        transformer, residual = Transformer(), Residual()
        results[device] = (
            train(transformer, [(s[:, :-1], s[:, 1:]) for s in sentences], device, lambda p: torch.optim.AdamW(p, lr=1e-2)),
            train(residual, pictures, device, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
            generate(transformer, device, 10))
    expect_close("losses of the transformer", results["npu"][0], results["cpu"][0])
    expect_close("losses of the residual block", results["npu"][1], results["cpu"][1])
    if results["npu"][2] != results["cpu"][2]:
        failures.append("tokens: %s instead of %s" % (results["npu"][2], results["cpu"][2]))
    print("\n".join(failures) or "equal: %s" % results["npu"][2])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4))

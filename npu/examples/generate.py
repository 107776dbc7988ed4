"""Generates tokens with a paged cache of keys and values, with torch_npu's fused operators, on the CPU and on the device.

    aclmem run --torch-npu python3 generate.py
"""
import torch
import torch_npu

HEADS, SIZE, BLOCK, WORDS = 4, 16, 8, 50


class Layer(torch.nn.Module):
    """One layer of attention.  The cache has 6 pages of 8 tokens; the sequence uses them in the order of `table`."""

    def __init__(self):
        super().__init__()
        width = HEADS * SIZE
        self.words = torch.nn.Embedding(WORDS, width)
        self.gamma = torch.nn.Parameter(torch.ones(width))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.last = torch.nn.Linear(width, WORDS)

    def new_cache(self, device):
        self.keys, self.values = (torch.zeros(6, BLOCK, HEADS, SIZE, device=device) for _ in range(2))
        self.table = torch.tensor([[4, 1, 5]], device=device)

    def forward(self, word, position):
        x, _ = torch_npu.npu_rms_norm(self.words(word), self.gamma, 1e-6)
        q, k, v = self.qkv(x).view(1, 3, HEADS, SIZE).unbind(1)
        slot = self.table[0, position // BLOCK] * BLOCK + position % BLOCK
        torch_npu._npu_reshape_and_cache(k, v, self.keys, self.values, slot.view(1))
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q.unsqueeze(1), self.keys, self.values, input_layout="BSND", num_heads=HEADS, scale=SIZE**-0.5,
            block_table=self.table, block_size=BLOCK, actual_seq_lengths_kv=[position + 1])
        return self.last(out.flatten()).argmax()


def generate(model, device, n):
    model = model.to(device)
    model.new_cache(device)
    word, result = torch.tensor(1, device=device), []
    with torch.no_grad():
        for position in range(n):
            word = model(word, position)
            result.append(word)
    return torch.stack(result).tolist()  # the one wait for the device


def main():
    torch.manual_seed(0)
    model = Layer()
    on_cpu, on_npu = generate(model, "cpu", 20), generate(model, "npu", 20)
    print("tokens:", *on_npu)
    print("equal to the CPU's:", on_cpu == on_npu)


if __name__ == "__main__":
    main()

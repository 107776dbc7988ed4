"""torch.compile for the NPU is not provided; the import succeeds, as programs do it without condition."""

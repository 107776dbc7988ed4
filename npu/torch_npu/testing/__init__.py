"""torch_npu.testing: what its public tests import."""

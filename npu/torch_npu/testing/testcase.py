"""TestCase with assertRtolEqual, as torch_npu's tests use it."""
import os

import numpy
import torch
from torch.testing._internal.common_utils import TestCase as _TestCase, run_tests  # noqa: F401

import torch_npu  # noqa: F401


def set_npu_device():
    torch.npu.set_device(int(os.environ.get("SET_NPU_DEVICE", "0")))


class TestCase(_TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        set_npu_device()
        torch.manual_seed(int(os.environ.get("SEED", "666")))

    def assertRtolEqual(self, x, y, prec=1e-4, prec16=1e-3):
        x, y = (t.detach().cpu() if isinstance(t, torch.Tensor) else torch.as_tensor(numpy.asarray(t)) for t in (x, y))
        tolerance = prec16 if torch.float16 in (x.dtype, y.dtype) else prec
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance, check_dtype=False, equal_nan=True)

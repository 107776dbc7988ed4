"""torch_npu.multiprocessing.reductions is aclmem.npu.reductions."""
import sys

from aclmem.npu import reductions

sys.modules[__name__ + ".reductions"] = reductions

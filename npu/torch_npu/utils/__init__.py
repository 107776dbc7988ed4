"""torch_npu.utils: versions and names that programs import."""
import contextlib

from aclmem.npu.utils import get_cann_version  # noqa: F401


def set_thread_affinity(core_range=None):
    """No effect."""


def reset_thread_affinity():
    """No effect."""


@contextlib.contextmanager
def save_async(*args, **kwargs):
    raise NotImplementedError("torch_npu.utils.save_async: use torch.save")
    yield


def register_asd_hook(*args, **kwargs):
    """No effect: there are no silent errors of hardware to detect."""

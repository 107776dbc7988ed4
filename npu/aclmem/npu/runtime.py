"""torch.npu.npurt(): functions of the runtime, which return ACL's codes."""
import ctypes

from . import acl
from .lazy import _lazy_init

_INVALID = 100000


def npuHostRegister(ptr, size, flags):
    return acl.code("aclrtHostRegisterV2", ctypes.c_void_p(ptr), size, ctypes.c_uint32(flags)) if ptr else _INVALID


def npuHostUnregister(ptr):
    return acl.code("aclrtHostUnregister", ctypes.c_void_p(ptr)) if ptr else _INVALID


def npuStreamCreate(ptr):
    """Writes a new aclrtStream to the address."""
    return acl.code("aclrtCreateStream", ctypes.c_void_p(ptr)) if ptr else _INVALID


def npuStreamDestroy(handle):
    return acl.code("aclrtDestroyStream", ctypes.c_void_p(handle)) if handle else _INVALID


def npurt():
    """This module."""
    import sys

    _lazy_init()
    return sys.modules[__name__]

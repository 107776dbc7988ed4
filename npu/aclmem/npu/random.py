"""Random numbers: one generator for each device.  Its state is a seed and an offset."""
import torch

from . import _C
from .devices import _get_device_index, current_device, device_count
from .lazy import _lazy_call, _lazy_init, is_initialized


def _generator(device):
    _lazy_init()
    return _C.default_generator(_get_device_index(device))


def _default_generators():
    return tuple(_C.default_generator(i) for i in range(device_count())) if is_initialized() else ()


def get_rng_state(device="npu"):
    return _generator(device).get_state()


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="npu"):
    """Sets the state now, or at initialisation."""
    state = new_state.clone()
    _lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states):
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def _get_rng_state_offset(device="npu"):
    return int(_generator(device).get_state().view(torch.int64)[1])


def _set_rng_state_offset(offset, device="npu"):
    if offset % 4:
        raise RuntimeError("offset must be a multiple of 4")

    def call():
        generator = _generator(device)
        state = generator.get_state()
        state.view(torch.int64)[1] = offset
        generator.set_state(state)

    _lazy_call(call)


def manual_seed(seed):
    seed = int(seed)
    _lazy_call(lambda: _generator(None).manual_seed(seed))


def manual_seed_all(seed):
    seed = int(seed)
    _lazy_call(lambda: [_generator(i).manual_seed(seed) for i in range(device_count())])


def seed():
    _lazy_call(lambda: _generator(None).seed())


def seed_all():
    def call():
        value = _generator(0).seed()
        for i in range(1, device_count()):
            _generator(i).manual_seed(value)

    _lazy_call(call)


def initial_seed():
    _lazy_init()
    return _generator(current_device()).initial_seed()

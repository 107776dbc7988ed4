"""The seven steps of virtual memory, in Python."""
import os
import re
import subprocess
import sys

import acl
import facts


def test_seven_steps(world):
    size = 4 * world.MB
    prop = {
        "handleType": acl.ACL_MEM_HANDLE_TYPE_NONE,
        "allocationType": acl.ACL_MEM_ALLOCATION_TYPE_PINNED,
        "memAttr": acl.ACL_HBM_MEM_HUGE,
        "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE},
        "reserve": 0,
    }
    before, total, ret = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    assert ret == 0 and 0 < before <= total
    assert acl.rt.mem_get_allocation_granularity(prop, acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM) == (2 * world.MB, 0)

    vir_ptr, ret = acl.rt.reserve_mem_address(size, 0, 0, 1)
    assert ret == 0 and vir_ptr % (2 * world.MB) == 0 and vir_ptr > 0
    handle, ret = acl.rt.malloc_physical(size, prop, 0)
    assert ret == 0 and handle > 0
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0] == before - size
    assert acl.rt.map_mem(vir_ptr, size, 0, handle, 0) == 0
    data = bytes(range(256)) * 64
    world.filled(vir_ptr + size - len(data), data)
    assert world.copied(vir_ptr + size - len(data), len(data)) == data
    assert acl.rt.unmap_mem(vir_ptr) == 0
    assert acl.rt.memset(vir_ptr, size, 0, size) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert "nothing is mapped" in acl.get_recent_err_msg()
    assert acl.rt.free_physical(handle) == 0
    assert acl.rt.release_mem_address(vir_ptr) == 0
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0] == before


def example(*program):
    env = dict(os.environ)
    if program[0] != sys.executable:
        env.pop("LD_PRELOAD", None)  # a sanitizer for Python; the program has its own
    done = subprocess.run(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          timeout=120)
    return done.returncode, done.stdout


def steady(given):
    """Without what depends on the machine, and on where addresses are free."""
    status, said = given
    return status, re.sub(r"\d+ MB free|0x[0-9a-f]+", "", said)


def test_the_example_says_what_the_one_in_c_says():
    in_python = example(sys.executable, os.path.join(facts.ROOT, "examples", "seven_steps.py"))
    assert in_python[0] == 0, in_python[1]
    assert steady(in_python) == steady(example(os.path.join(os.path.dirname(facts.PACKAGE), "..", "bin", "seven_steps")))

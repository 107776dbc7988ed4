"""Dicts for structs, and sequences for arrays."""
import pytest

import acl


def test_missing_keys_are_zero(world):
    full = {"handleType": 0, "allocationType": 0, "memAttr": acl.ACL_HBM_MEM_HUGE,
            "location": {"id": 1, "type": 1}, "reserve": 0}
    short = {"memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 1, "type": 1}}
    for prop in (full, short):
        handle, ret = acl.rt.malloc_physical(2 * world.MB, prop, 0)
        assert ret == 0
        assert acl.rt.mem_get_allocation_properties_from_handle(handle) == (full, 0)


def test_what_comes_out_can_go_in(world):
    prop, ret = acl.rt.mem_get_allocation_properties_from_handle(world.handle())
    assert ret == 0 and acl.rt.malloc_physical(2 * world.MB, prop, 0)[1] == 0


def test_every_field_reaches_its_place(world):
    """A reserved field that is not 0 is refused, with its value."""
    prop = dict(world.PROP, reserve=0xFEDCBA9876543210)
    assert acl.rt.malloc_physical(2 * world.MB, prop, 0) == (0, acl.ACL_ERROR_INVALID_PARAM)
    assert "0xfedcba9876543210" in acl.get_recent_err_msg() or str(0xFEDCBA9876543210) in acl.get_recent_err_msg()


def test_an_unknown_key_is_named(world):
    with pytest.raises(TypeError, match=r"prop has the key 'memattr', which is not a field of aclrtPhysicalMemProp"):
        acl.rt.malloc_physical(1, {"memattr": 4}, 0)
    with pytest.raises(TypeError, match=r"prop\.location has the key 'device'"):
        acl.rt.malloc_physical(1, {"location": {"device": 4}}, 0)


def test_a_wrong_value_is_named(world):
    with pytest.raises(TypeError, match=r"prop\.location\.id must be an int, not str"):
        acl.rt.malloc_physical(1, {"location": {"id": "0"}}, 0)
    with pytest.raises(OverflowError, match=r"prop\.location\.id must be from 0 to 4294967295, not 4294967296"):
        acl.rt.malloc_physical(1, {"location": {"id": 1 << 32}}, 0)
    with pytest.raises(OverflowError, match=r"prop\.memAttr must be from -2147483648 to 2147483647"):
        acl.rt.malloc_physical(1, {"memAttr": 1 << 31}, 0)
    with pytest.raises(TypeError, match=r"prop\.location must be a dict, not int"):
        acl.rt.malloc_physical(1, {"location": 0}, 0)
    with pytest.raises(TypeError, match=r"desc\[1\]\.location\.id must be an int, not NoneType"):
        acl.rt.mem_set_access(1, 1, [{}, {"location": {"id": None}}])


def test_a_union_takes_one_key(world):
    attribute = {"attr": acl.ACL_RT_MEM_ATTR_MODULE_ID, "value": {"moduleId": 33}}
    assert acl.rt.malloc_with_cfg(64, 0, {"attrs": [attribute]})[1] == 0
    with pytest.raises(TypeError, match=r"cfg\.attrs\[0\]\.value has 2 keys"):
        acl.rt.malloc_with_cfg(64, 0, {"attrs": [{"attr": 1, "value": {"moduleId": 33, "deviceId": 0}}]})
    with pytest.raises(OverflowError, match=r"value\.moduleId must be from 0 to 65535"):
        acl.rt.malloc_with_cfg(64, 0, {"attrs": [{"attr": 1, "value": {"moduleId": 1 << 16}}]})


def test_the_number_of_entries_is_implied_or_must_agree(world):
    attribute = {"attr": acl.ACL_RT_MEM_ATTR_DEVICE_ID, "value": {"deviceId": 0}}
    for cfg in ({"attrs": [attribute]}, {"attrs": [attribute], "numAttrs": 1}, {"attrs": []}, {}, None):
        assert acl.rt.malloc_with_cfg(64, 0, cfg)[1] == 0
        assert acl.rt.malloc_host_with_cfg(64, cfg)[1] == 0
    with pytest.raises(ValueError, match=r"cfg\.attrs has 1 entries, but numAttrs has 2"):
        acl.rt.malloc_with_cfg(64, 0, {"attrs": [attribute], "numAttrs": 2})
    assert acl.rt.malloc_with_cfg(64, 0, {"numAttrs": 2})[1] == acl.ACL_ERROR_INVALID_PARAM


def test_byte_arrays_are_bytes_or_sequences(world):
    address = world.mapped()
    access = {"flags": acl.ACL_RT_MEM_ACCESS_FLAGS_READWRITE, "location": {"id": 0, "type": 1}}
    for rsv in (bytes(12), bytearray(12), [0] * 12, (0, 0)):
        assert acl.rt.mem_set_access(address, 2 * world.MB, [dict(access, rsv=rsv)]) == 0
    assert acl.rt.mem_set_access(address, 2 * world.MB, [dict(access, rsv=b"\1" + bytes(11))]) != 0
    with pytest.raises(ValueError, match=r"desc\[0\]\.rsv must have 12 bytes, not 13"):
        acl.rt.mem_set_access(address, 2 * world.MB, [dict(access, rsv=bytes(13))])
    with pytest.raises(ValueError, match=r"desc\[0\]\.rsv has 13 entries, and takes 12"):
        acl.rt.mem_set_access(address, 2 * world.MB, [dict(access, rsv=[0] * 13)])
    with pytest.raises(OverflowError, match=r"desc\[0\]\.rsv\[1\] must be from 0 to 255"):
        acl.rt.mem_set_access(address, 2 * world.MB, [dict(access, rsv=[0, 256])])


def test_sequences_that_go_together_have_one_length(world):
    with pytest.raises(ValueError, match=r"sizes has 1 entries, but dsts has 2"):
        acl.rt.memcpy_batch([1, 2], [1, 2], [1, 2], [1], [], [])
    with pytest.raises(TypeError, match=r"srcs\[1\] must be an address as an int, or None, not str"):
        acl.rt.memcpy_batch([1, 2], [1, 2], [1, "2"], [1, 2], [], [])


def test_any_sequence_will_do(world):
    good = world.device_memory()
    for addresses in ([good, good], (good, good), range(good, good + 2), memoryview(bytes(2)).cast("B")):
        assert acl.rt.check_mem_type(addresses, acl.ACL_RT_MEM_TYPE_DEV, 0)[1] in (0, acl.ACL_ERROR_RT_PARAM_INVALID)


class Spoiler:
    """Empties the list that it stands in when it is asked for its value."""

    def __init__(self, home):
        self.home = home

    def __index__(self):
        self.home.clear()
        return 1


def test_a_list_that_changes_under_way_is_refused(world):
    home = []
    home += [Spoiler(home), 2, 3]
    with pytest.raises(ValueError, match="changed while it was read"):
        acl.rt.check_mem_type(home, acl.ACL_RT_MEM_TYPE_DEV, 0)


def test_a_dict_that_changes_under_way_does_no_harm(world):
    prop = dict(world.PROP)
    prop["handleType"] = Spoiler(prop)
    handle, ret = acl.rt.malloc_physical(2 * world.MB, prop, 0)
    assert (handle == 0) == (ret != 0)


def test_outputs_of_a_failed_call_are_empty(world):
    assert acl.rt.mem_get_allocation_properties_from_handle(1) == ({}, acl.ACL_ERROR_RT_INVALID_HANDLE)
    assert acl.rt.get_mem_usage_info(99, 8)[0] == []
    assert acl.sys.get_version_str("no such package")[0] == ""
    assert acl.rt.malloc(1 << 60, 0) == (0, acl.ACL_ERROR_RT_MEMORY_ALLOCATION)
    assert acl.rt.device_get_pci_bus_id(0, 5)[0] == ""
    assert acl.rt.device_get_pci_bus_id(0, -5)[0] == ""


def test_fixed_arrays_come_out_whole(world):
    attributes, ret = acl.rt.pointer_get_attributes(world.device_memory())
    assert ret == 0 and attributes["rsv"] == [0, 0, 0, 0]
    assert attributes["location"] == {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}
    uuid, ret = acl.rt.device_get_uuid(0)
    assert ret == 0 and isinstance(uuid["bytes"], bytes) and len(uuid["bytes"]) == 16
    version, ret = acl.sys.get_cann_version(acl.ACL_PKG_NAME_CANN)
    assert ret == 0 and version["version"] == "8.5.0" and version["majorVersion"] == "8"

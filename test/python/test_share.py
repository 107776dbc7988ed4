"""Memory that two Python processes share: by a number for physical memory, by a key for a block."""
import json
import os
import subprocess
import sys

import pytest

import acl
import facts
import sharer

MB = 1 << 20
SIZE = 2 * MB
rt = acl.rt


def needs(function):
    return pytest.mark.skipif(function in facts.UNSUPPORTED,
                              reason="this libascendcl.so does not share yet: %s gives 207000" % function)


class Other:
    """A second Python process."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-B", sharer.__file__], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, universal_newlines=True)

    def call(self, name, *arguments):
        print(json.dumps([name, arguments]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, "the other process ended: %s" % self.process.wait()
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


@pytest.fixture
def other(world):
    made = Other()
    yield made
    made.end()


@pytest.fixture
def pid(other):
    started, device, _, (pid, ret) = other.call("start", 0)
    assert (started, device, ret) == (0, 0, 0)
    return pid


def swapped(world, other, address, there):
    """Each side sees what the other wrote."""
    world.filled(address, b"from the exporter")
    assert other.call("read", there, 17) == ["from the exporter", 0]
    assert other.call("write", there, "from the importer") == 0
    assert world.copied(address, 17) == b"from the importer"


@needs("aclrtMemExportToShareableHandle")
def test_physical_memory_with_a_list_of_processes(world, other, pid):
    handle = world.handle()
    address = world.reserved()
    world.must(rt.map_mem(address, SIZE, 0, handle, 0))
    number = world.must(rt.mem_export_to_shareable_handle(handle, 0, 0))
    assert other.call("rt.mem_import_from_shareable_handle", number, 0) == [0, acl.ACL_ERROR_RT_NO_PERMISSION]
    assert "aclrtMemSetPidToShareableHandle" in other.call("get_recent_err_msg")
    world.must(rt.mem_set_pid_to_shareable_handle(number, [pid]))
    there, ret = other.call("rt.mem_import_from_shareable_handle", number, 0)
    assert ret == 0, other.call("get_recent_err_msg")
    there_at, ret = other.call("mapped", there, SIZE)
    assert ret == 0, other.call("get_recent_err_msg")
    swapped(world, other, address, there_at)
    # What was imported lives on without its exporter's handle.
    world.must(rt.unmap_mem(address))
    world.must(rt.free_physical(handle))
    assert other.call("read", there_at, 17) == ["from the importer", 0]
    assert other.call("rt.unmap_mem", there_at) == other.call("rt.free_physical", there) == 0
    assert other.call("finalize") == 0


@needs("aclrtMemExportToShareableHandle")
def test_physical_memory_for_anybody(world, other, pid):
    handle = world.handle()
    number = world.must(rt.mem_export_to_shareable_handle(
        handle, acl.ACL_MEM_HANDLE_TYPE_NONE, acl.ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
    address = world.reserved()
    world.must(rt.map_mem(address, SIZE, 0, handle, 0))
    there, ret = other.call("rt.mem_import_from_shareable_handle", number, 0)
    assert ret == 0, other.call("get_recent_err_msg")
    swapped(world, other, address, other.call("mapped", there, SIZE)[0])


@needs("aclrtMemExportToShareableHandleV2")
def test_physical_memory_by_the_second_kind_of_handle(world, other, pid):
    handle = world.handle()
    number = world.must(rt.mem_export_to_shareable_handle_v2(
        handle, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT))
    assert isinstance(number, int)
    world.must(rt.mem_set_pid_to_shareable_handle_v2(number, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, [pid]))
    address = world.reserved()
    world.must(rt.map_mem(address, SIZE, 0, handle, 0))
    there, ret = other.call("rt.mem_import_from_shareable_handle_v2", number, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0)
    assert ret == 0, other.call("get_recent_err_msg")
    swapped(world, other, address, other.call("mapped", there, SIZE)[0])


@needs("aclrtIpcMemGetExportKey")
def test_a_block_by_key(world, other, pid):
    block = world.device_memory(SIZE)
    key = world.must(rt.ipc_mem_get_export_key(block, SIZE, acl.ACL_IPC_HANDLE_SIZE, 0))
    assert isinstance(key, str) and 0 < len(key) < acl.ACL_IPC_HANDLE_SIZE
    world.must(rt.ipc_mem_set_import_pid(key, [pid]))
    there, ret = other.call("rt.ipc_mem_import_by_key", key, 0)
    assert ret == 0, other.call("get_recent_err_msg")
    swapped(world, other, block, there)
    assert other.call("rt.ipc_mem_close", key) == 0
    world.must(rt.ipc_mem_close(key))
    world.must(rt.free(block))


@needs("aclrtMemExportToShareableHandle")
def test_a_process_that_is_not_listed_is_refused(world, other, pid):
    number = world.must(rt.mem_export_to_shareable_handle(world.handle(), 0, 0))
    world.must(rt.mem_set_pid_to_shareable_handle(number, [os.getpid()]))
    assert other.call("rt.mem_import_from_shareable_handle", number, 0)[1] == acl.ACL_ERROR_RT_NO_PERMISSION


def test_two_processes_talk(world, other):
    """The handshake itself, so that the tests above fail for their own reasons only."""
    assert other.call("init") == 0
    assert other.call("rt.get_device_count") == [2, 0]


@needs("aclrtNotifyGetExportKey")
def test_a_notify_by_key(world, other, pid):
    notify = world.must(rt.create_notify(0))
    key = world.must(rt.notify_get_export_key(notify, acl.ACL_IPC_HANDLE_SIZE, 0))
    world.must(rt.notify_set_import_pid(notify, [pid]))
    there, ret = other.call("rt.notify_import_by_key", key, 0)
    assert ret == 0, other.call("get_recent_err_msg")
    stream = world.stream()
    world.must(rt.wait_and_reset_notify(notify, stream, 0))
    assert rt.stream_query(stream) == (acl.ACL_STREAM_STATUS_NOT_READY, 0)
    assert other.call("rt.record_notify", there, 0) == other.call("rt.synchronize_device") == 0
    world.must(rt.synchronize_stream(stream))
    assert other.call("rt.destroy_notify", there) == 0


@needs("aclrtIpcGetEventHandle")
def test_an_event_by_handle(world, other, pid):
    event = world.must(rt.create_event_ex_with_flag(acl.ACL_EVENT_IPC))
    handle = world.must(rt.ipc_get_event_handle(event))
    assert list(handle) == ["reserved"] and len(handle["reserved"]) == acl.ACL_IPC_EVENT_HANDLE_SIZE
    there, ret = other.call("opened_event", handle["reserved"].decode("latin-1"))
    assert ret == 0, other.call("get_recent_err_msg")
    world.must(rt.record_event(event, 0))
    assert other.call("rt.stream_wait_event", 0, there) == other.call("rt.synchronize_device") == 0
    assert other.call("rt.query_event_status", there) == [acl.ACL_EVENT_RECORDED_STATUS_COMPLETE, 0]
    assert other.call("rt.destroy_event", there) == 0

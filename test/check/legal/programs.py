"""Correct Python programs: programs.py NAME.  test_python.py runs each under `aclmem run --check all`."""
import sys
import threading

import acl

SIZE = 4096


def must(result):
    """The values of a call that succeeded."""
    values = result if isinstance(result, tuple) else (result,)
    assert values[-1] == 0, values
    return values[0] if len(values) == 2 else values[:-1]


def block():
    return must(acl.rt.malloc(SIZE, acl.ACL_MEM_MALLOC_HUGE_FIRST))


def stream_and_event():
    stream, event, at = must(acl.rt.create_stream()), must(acl.rt.create_event()), block()
    must(acl.rt.memset_async(at, SIZE, 1, SIZE, stream))
    must(acl.rt.record_event(event, stream))
    must(acl.rt.synchronize_event(event))
    must(acl.rt.free(at))
    must(acl.rt.destroy_event(event))
    must(acl.rt.destroy_stream(stream))


def pinned_memory():
    stream, at, host = must(acl.rt.create_stream()), block(), must(acl.rt.malloc_host(SIZE))
    must(acl.rt.memcpy_async(at, SIZE, host, SIZE, 1, stream))
    must(acl.rt.synchronize_stream(stream))
    must(acl.rt.free_host(host))
    must(acl.rt.free(at))
    must(acl.rt.destroy_stream(stream))


def threads():
    context = must(acl.rt.get_context())

    def work():
        must(acl.rt.set_context(context))
        for _ in range(20):
            stream_and_event()

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def started_again():
    for _ in range(3):
        stream_and_event()
        must(acl.rt.reset_device(0))
        must(acl.finalize())
        must(acl.init())
        must(acl.rt.set_device(0))


PROGRAMS = [stream_and_event, pinned_memory, threads, started_again]

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(" ".join(program.__name__ for program in PROGRAMS))
        sys.exit(0)
    must(acl.init())
    must(acl.rt.set_device(0))
    next(program for program in PROGRAMS if program.__name__ == sys.argv[1])()
    must(acl.rt.reset_device(0))
    must(acl.finalize())

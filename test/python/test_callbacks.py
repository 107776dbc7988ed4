"""Functions of the program: who runs them, what becomes of their exceptions, how long they are kept."""
import _thread
import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

import acl
import facts
from test_wrong import Index

rt = acl.rt


class Reporter:
    """A thread in process_report for one stream, until it is stopped."""

    def __init__(self, stream):
        self.stream = stream
        self.codes = []
        self.is_stopping = False
        self.thread, ret = acl.util.start_thread(self.run, [20])
        assert ret == 0
        assert rt.subscribe_report(self.thread, stream) == 0

    def run(self, arguments):
        (timeout,) = arguments
        while not self.is_stopping:
            self.codes.append(rt.process_report(timeout))

    def stop(self):
        self.is_stopping = True
        assert rt.unsubscribe_report(self.thread, self.stream) == 0
        assert acl.util.stop_thread(self.thread) == 0


@pytest.fixture
def reporter(world):
    made = Reporter(world.stream())
    yield made
    made.stop()


@contextlib.contextmanager
def unraisable():
    """What goes to sys.unraisablehook, which pytest has its own for."""
    caught, before = [], sys.unraisablehook
    sys.unraisablehook = lambda info: caught.append((info.exc_type, str(info.exc_value)))
    yield caught
    sys.unraisablehook = before


def test_callbacks_run_in_the_thread_that_is_subscribed(reporter):
    ran = []
    for i in range(10):
        block = acl.ACL_CALLBACK_BLOCK if i % 2 else acl.ACL_CALLBACK_NO_BLOCK
        assert rt.launch_callback(lambda a: ran.append((a, threading.get_ident())), [i], block, reporter.stream) == 0
    done = threading.Event()
    assert rt.launch_callback(lambda _: done.set(), None, acl.ACL_CALLBACK_BLOCK, reporter.stream) == 0
    assert rt.synchronize_stream(reporter.stream) == 0
    assert done.is_set()
    assert sorted(a for a, _ in ran) == [[i] for i in range(10)]
    assert {thread for _, thread in ran} == {reporter.thread}


def test_the_argument_is_the_object_itself(reporter):
    data, seen = [1, 2], []
    assert rt.launch_callback(seen.append, data, acl.ACL_CALLBACK_BLOCK, reporter.stream) == 0
    assert rt.synchronize_stream(reporter.stream) == 0
    assert seen[0] is data


def test_host_functions_run_in_order_in_other_threads(world):
    stream, ran, threads = world.stream(), [], set()
    for i in range(100):
        assert rt.launch_host_func(stream, lambda i: (ran.append(i), threads.add(threading.get_ident())), i) == 0
    assert rt.synchronize_stream(stream) == 0
    assert ran == list(range(100))
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("wait", [
    lambda w, s, e: rt.synchronize_stream(s),
    lambda w, s, e: rt.synchronize_stream_with_timeout(s, -1),
    lambda w, s, e: rt.synchronize_device(),
    lambda w, s, e: rt.synchronize_device_with_timeout(-1),
    lambda w, s, e: rt.synchronize_event(e),
    lambda w, s, e: rt.synchronize_event_with_timeout(e, -1),
    lambda w, s, e: rt.free_with_dev_sync(w.device_memory()),
    lambda w, s, e: rt.free_host_with_dev_sync(w.host_memory()),
    lambda w, s, e: rt.memcpy_async(w.device_memory(), 9, acl.util.bytes_to_ptr(b"pageable."), 9, 1, s),
    lambda w, s, e: rt.destroy_stream(s),
    lambda w, s, e: rt.reset_device(0),
    lambda w, s, e: acl.finalize(),
], ids=["stream", "stream_timeout", "device", "device_timeout", "event", "event_timeout", "free", "free_host",
        "pageable_copy", "destroy_stream", "reset_device", "finalize"])
def test_a_call_that_waits_lets_the_function_run_that_it_waits_for(world, wait):
    """With the interpreter's lock kept this would never end."""
    stream, event, ran = world.stream(), world.event(), []
    ready, opened = threading.Event(), threading.Event()
    assert rt.launch_host_func(stream, lambda _: ran.append(opened.wait()), None) == 0
    assert rt.record_event(event, stream) == 0
    opener = threading.Thread(target=lambda: (ready.wait(), opened.set()))
    opener.start()
    ready.set()
    assert wait(world, stream, event) == 0
    assert ran == [True]
    opener.join()


def test_process_report_lets_other_threads_run(world):
    stream, ran, ready = world.stream(), [], threading.Event()
    assert rt.subscribe_report(threading.get_ident(), stream) == 0

    def launch():
        ready.wait()
        assert rt.set_device(0) == 0
        assert rt.launch_callback(ran.append, 1, acl.ACL_CALLBACK_BLOCK, stream) == 0

    other = threading.Thread(target=launch)
    other.start()
    ready.set()
    assert rt.process_report(-1) == 0
    other.join()
    assert ran == [1]
    assert rt.process_report(1) == acl.ACL_ERROR_RT_REPORT_TIMEOUT


def test_an_exception_is_reported_and_the_stream_goes_on(reporter):
    def fail(what):
        raise KeyError(what)

    after = []
    with unraisable() as caught:
        assert rt.launch_callback(fail, "one", acl.ACL_CALLBACK_BLOCK, reporter.stream) == 0
        assert rt.launch_callback(after.append, "two", acl.ACL_CALLBACK_BLOCK, reporter.stream) == 0
        assert rt.synchronize_stream(reporter.stream) == 0
    assert after == ["two"] and caught == [(KeyError, "'one'")]


def test_an_exception_in_a_host_function_is_reported(world):
    stream = world.stream()
    with unraisable() as caught:
        assert rt.launch_host_func(stream, lambda _: 1 / 0, None) == 0
        assert rt.synchronize_stream(stream) == 0
    assert [kind for kind, _ in caught] == [ZeroDivisionError]


def test_a_function_may_call_back(world):
    stream, given = world.stream(), []
    assert rt.launch_host_func(stream, lambda _: given.append(rt.get_device_count()), None) == 0
    assert rt.synchronize_stream(stream) == 0
    assert given == [(2, 0)]


class Token:
    """Something that can be watched."""

    def __call__(self, _):
        pass


def test_a_function_is_kept_until_it_has_run(world):
    stream, opened = world.stream(), threading.Event()
    function, data = Token(), Token()
    alive = weakref.ref(function), weakref.ref(data)
    assert rt.launch_host_func(stream, lambda _: opened.wait(), None) == 0
    assert rt.launch_host_func(stream, function, data) == 0
    del function, data
    gc.collect()
    assert all(r() is not None for r in alive)
    opened.set()
    assert rt.synchronize_stream(stream) == 0
    gc.collect()
    assert all(r() is None for r in alive)


def test_a_function_that_could_not_be_queued_is_let_go(world):
    function = Token()
    alive = weakref.ref(function)
    assert rt.launch_callback(function, None, acl.ACL_CALLBACK_BLOCK, world.stream()) \
        == acl.ACL_ERROR_RT_STREAM_NO_CB_REG
    assert rt.launch_host_func(12345, function, None) != 0
    del function
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("drop", ["stream_abort", "stream_stop", "destroy_stream_force"])
def test_a_function_that_is_dropped_with_its_stream_is_let_go(world, drop):
    """A value that is not there yet holds two streams; what stands behind it in one of them is dropped."""
    gate = world.filled(world.device_memory(), bytes(8))
    dropped, kept = world.stream(), world.stream()
    alive = []
    for stream in (dropped, kept):
        function = Token()
        alive.append(weakref.ref(function))
        assert rt.value_wait(gate, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream) == 0
        assert rt.launch_host_func(stream, function, None) == 0
        del function
    assert getattr(rt, drop)(dropped) == 0
    gc.collect()
    assert [r() is not None for r in alive] == [False, True]
    assert rt.value_write(gate, 1, 0, 0) == 0
    assert rt.synchronize_stream(kept) == 0
    gc.collect()
    assert [r() is not None for r in alive] == [False, False]


def test_a_callback_that_does_not_block_outlives_its_stream(world):
    stream, ran = world.stream(), []
    other = world.stream()
    for s in (stream, other):
        assert rt.subscribe_report(threading.get_ident(), s) == 0
    assert rt.launch_callback(ran.append, 1, acl.ACL_CALLBACK_NO_BLOCK, stream) == 0
    assert rt.synchronize_stream(stream) == 0
    assert rt.destroy_stream(stream) == 0
    assert rt.process_report(1000) == 0
    assert ran == [1]


def test_callbacks_that_nobody_came_for_go_with_the_runtime(world):
    stream, function = world.stream(), Token()
    alive = weakref.ref(function)
    assert rt.subscribe_report(threading.get_ident(), stream) == 0
    assert rt.launch_callback(function, None, acl.ACL_CALLBACK_NO_BLOCK, stream) == 0
    assert rt.synchronize_stream(stream) == 0
    del function
    assert acl.init() == acl.ACL_ERROR_REPEAT_INITIALIZE
    assert acl.finalize_reference() == (1, 0)
    gc.collect()
    assert alive() is not None
    assert acl.finalize_reference() == (0, 0)
    gc.collect()
    assert alive() is None


def test_two_thousand_functions_from_ten_threads(world):
    ran, lock = [], threading.Lock()

    def note(value):
        with lock:
            ran.append(value)

    def launch(number):
        assert rt.set_device(0) == 0
        stream, ret = rt.create_stream()
        assert ret == 0
        for i in range(200):
            assert rt.launch_host_func(stream, note, (number, i)) == 0
        assert rt.synchronize_stream(stream) == 0
        assert rt.destroy_stream(stream) == 0

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ran) == [(n, i) for n in range(10) for i in range(200)]
    for n in range(10):
        assert [i for number, i in ran if number == n] == list(range(200))


def test_threads_are_started_with_the_list_and_stopped_by_waiting():
    seen, opened = [], threading.Event()
    thread, ret = acl.util.start_thread(lambda a: (seen.append((a, threading.get_ident())), opened.wait()), [1, "two"])
    assert ret == 0 and thread > 0
    opened.set()
    assert acl.util.stop_thread(Index(thread)) == 0
    assert seen == [([1, "two"], thread)]
    assert acl.util.stop_thread(thread) == acl.ACL_ERROR_INVALID_PARAM
    assert acl.util.stop_thread(1) == acl.ACL_ERROR_INVALID_PARAM


def test_a_thread_cannot_stop_itself():
    codes, started = [], threading.Event()
    thread, ret = acl.util.start_thread(
        lambda _: (started.wait(), codes.append(acl.util.stop_thread(threading.get_ident()))), None)
    started.set()
    assert ret == 0 and acl.util.stop_thread(thread) == 0
    assert codes == [acl.ACL_ERROR_INVALID_PARAM]


def run(code):
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=120)
    return done.returncode, done.stdout


def test_the_end_of_python_does_not_wait_for_streams_and_threads():
    """A function that never ends, one behind it, and a thread in process_report."""
    assert run("import acl, threading\n"
               "assert acl.init() == acl.rt.set_device(0) == 0\n"
               "begun = threading.Event()\n"
               "a, _ = acl.rt.create_stream(); b, _ = acl.rt.create_stream()\n"
               "acl.rt.launch_host_func(a, lambda _: (begun.set(), threading.Event().wait()), None)\n"
               "acl.rt.launch_host_func(a, print, 'never')\n"
               "thread, _ = acl.util.start_thread(lambda _: acl.rt.process_report(-1), None)\n"
               "acl.rt.subscribe_report(thread, b)\n"
               "begun.wait()\n"
               "print('over')\n") == (0, "over\n")


def test_an_exception_is_printed_and_the_process_lives():
    status, said = run("import acl\n"
                       "def bad(x): raise RuntimeError('told')\n"
                       "acl.init(); acl.rt.set_device(0)\n"
                       "acl.rt.launch_host_func(0, bad, None)\n"
                       "print(acl.rt.synchronize_stream(0), acl.finalize())\n")
    assert status == 0 and "RuntimeError: told" in said and said.endswith("0 0\n")


def test_ctrl_c_in_a_callback_reaches_the_caller_of_process_report(world):
    stream, ran = world.stream(), []
    me = threading.get_ident()
    world.must(rt.subscribe_report(me, stream))
    world.must(rt.launch_callback(lambda _: signal.raise_signal(signal.SIGINT), None, acl.ACL_CALLBACK_NO_BLOCK, stream))
    world.must(rt.launch_callback(ran.append, "later", acl.ACL_CALLBACK_NO_BLOCK, stream))
    world.must(rt.synchronize_stream(stream))
    with unraisable() as caught, pytest.raises(KeyboardInterrupt):
        while not ran:
            assert rt.process_report(-1) == 0
    while not ran:  # it is raised once, and the functions after it still run
        assert rt.process_report(-1) == 0
    assert not caught
    world.must(rt.unsubscribe_report(me, stream))


@pytest.mark.parametrize("name", ["free", "free_physical", "free_host", "synchronize_stream"])
def test_what_may_take_long_lets_other_threads_run(world, name):
    """With switches by time put off, another thread gets its turn in calls that give up the lock, and nowhere else."""
    ran, before = [], sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        _thread.start_new_thread(ran.append, (1,))
        for _ in range(5000000):  # as many only where it fails
            getattr(rt, name)(None)
            if ran:
                break
    finally:
        sys.setswitchinterval(before)
    acl.get_recent_err_msg()
    assert ran


def manual_programs():
    with open(os.path.join(facts.ROOT, "docs", "PYTHON.md"), encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), flags=re.M | re.S)


def test_the_program_of_the_manual_runs():
    assert run(manual_programs()[0]) == (0, "['done']\n")


def test_waiting_in_turns_can_be_interrupted():
    """As the manual says, on a stream that waits for what nobody does."""
    waiting = textwrap.indent(manual_programs()[1], "    ")
    assert run("import acl, os, signal, threading\n"
               "acl.init(); acl.rt.set_device(0)\n"
               "stream, _ = acl.rt.create_stream(); notify, _ = acl.rt.create_notify(0)\n"
               "acl.rt.wait_and_reset_notify(notify, stream, 0)\n"
               "try:\n"
               "    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()\n" + waiting +
               "except KeyboardInterrupt:\n"
               "    print('interrupted', acl.rt.stream_abort(stream), acl.finalize())\n") == (0, "interrupted 0 0\n")

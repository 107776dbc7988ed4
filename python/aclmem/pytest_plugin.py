"""A plugin of pytest: findings of the layer check fail the test that made them.

    pytest --aclmem-check

entry_points.txt registers the plugin, in a wheel, a package, an installed tree and a build.  docs/CHECK.md has the
options, the markers and the fixture.
"""
import ctypes
import fnmatch
import json
import os
import re
import shutil
import tempfile
import warnings

import pytest

UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
         "t": 1 << 40, "tb": 1 << 40}

MARKERS = (
    'aclmem_limit(size): the test fails when it holds more device memory than this at once, as in "64 MB"',
    "aclmem_no_leaks: the test fails when something that it made is still there after its fixtures",
    'aclmem_ignore(*kinds): findings of these kinds do not fail the test, as in "leak.*"',
    'aclmem_options(**options): options of the runtime that aclmem_devices starts, as in devices=4, memory="1G"',
)


def size_of(text):
    """"64 MB" -> 67108864"""
    found = re.match(r"\s*(\d+(?:\.\d*)?)\s*([a-z]*)\s*$", str(text).lower())
    if not found or found.group(2) not in UNITS:
        raise pytest.UsageError('aclmem_limit: %r is no size; it takes "64 MB", "1.5 GB", or a number of bytes' % (text,))
    return int(float(found.group(1)) * UNITS[found.group(2)])


class Library:
    """The functions of libascendcl.so that begin and end a session of findings."""

    def __init__(self):
        try:
            if not os.environ.get("ACLMEM_OVER"):  # over another library, the layers are preloaded under its name
                import acl  # noqa: F401: whatever library the module takes is the one that tests use

            self.library = ctypes.CDLL("libascendcl.so")
        except (ImportError, OSError):
            import aclmem

            self.library = ctypes.CDLL(os.path.join(aclmem.root(), "lib64", "libascendcl.so"))
        self.library.aclmem_check_begin.argtypes = [ctypes.c_uint64]
        self.library.aclmem_check_findings.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
        self.library.aclmem_check_end.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.free = ctypes.CDLL(None).free
        self.free.argtypes = [ctypes.c_void_p]

    def must(self, ret):
        if ret != 0:
            message = self.library.aclGetRecentErrMsg() or b""
            raise pytest.UsageError("--aclmem-check: %s" % message.decode(errors="replace"))

    def begin(self, limit):
        self.must(self.library.aclmem_check_begin(limit))

    def taken(self, function, *args):
        text = ctypes.c_void_p()
        self.must(function(*args, ctypes.byref(text)))
        found = json.loads(ctypes.string_at(text.value).decode())
        self.free(text)
        return found

    def findings(self):
        """Those since the last time."""
        return self.taken(self.library.aclmem_check_findings)

    def end(self, leaks):
        return self.taken(self.library.aclmem_check_end, leaks)


class Children:
    """Findings of processes that tests start: files in the folder of ACLMEM_FINDINGS, which grow."""

    def __init__(self, folder):
        self.folder = folder
        self.read = {}  # name of a file -> bytes that were read

    def new(self):
        """The findings since the last call."""
        found = []
        for name in sorted(os.listdir(self.folder)):
            if re.match(r"%d-\d+$" % os.getpid(), name) or not re.match(r"\d+-\d+$", name):
                continue
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.read.get(name, 0))
                data = file.read()
            data = data[: data.rfind(b"\n") + 1]  # the last line may be half written
            self.read[name] = self.read.get(name, 0) + len(data)
            for line in data.splitlines():
                record = json.loads(line.decode(errors="replace"))
                if record.get("record") == "finding":
                    found.append(dict(record, pid=int(name.split("-")[0])))
        return found


def shown(path):
    """The path as pytest shows it: relative where it is below the current folder."""
    near = os.path.relpath(path) if os.path.isabs(path) else path
    return path if near.startswith(os.pardir) else near


def frame_text(frame):
    if "file" in frame:
        return "%s  %s:%d" % (frame["function"], shown(frame["file"]), frame["line"])
    return "%s  (%s+0x%x)" % (frame.get("function", ""), frame.get("module", "?"), frame["offset"])


def stack_of(call):
    """The frames of the test: without the frames of pytest and of this file.  Another process has [function, file, line]."""
    frames = call["stack"]
    if "python" in call:
        frames = [dict(zip(("function", "file", "line"), frame)) for frame in call["python"]]
    runners = re.compile(r"/(_pytest|pluggy|pytest)/|^<frozen runpy>|^%s$" % re.escape(__file__))
    return [frame for frame in frames if not runners.search(frame.get("file", ""))]


def finding_text(finding):
    where = ", in process %d" % finding["pid"] if "pid" in finding else ""
    lines = ["aclmem: %s: %s%s" % (finding["kind"], finding["message"], where)]
    for call in finding["calls"]:
        lines.append("    %s: %s" % (call["what"], call["function"]))
        stack = stack_of(call)
        lines += ["        #%d %s" % (i, frame_text(frame)) for i, frame in enumerate(stack)]
    if finding.get("advice"):
        lines.append("    what to do: %s" % finding["advice"])
    return "\n".join(lines)


class Plugin:
    """A session of findings for each test, with its fixtures."""

    def __init__(self, folder, made_folder):
        self.library = Library()
        self.children = Children(folder)
        self.made_folder = made_folder  # to be removed
        self.texts = {}  # of the test that runs: phase -> text

    def text_of(self, item, found):
        """Those of the findings that count, as text."""
        ignored = [kind for marker in item.iter_markers("aclmem_ignore") for kind in marker.args]
        found = found + self.children.new()
        return "\n\n".join(finding_text(f) for f in found if not any(fnmatch.fnmatch(f["kind"], k) for k in ignored))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        limit = item.get_closest_marker("aclmem_limit")
        if limit is not None and len(limit.args) != 1:
            raise pytest.UsageError('%s: aclmem_limit takes one size: aclmem_limit("64 MB")' % item.nodeid)
        limit = size_of(limit.args[0]) if limit is not None else 0
        item.runtest = self.checked(item, item.runtest)
        self.texts = {}
        self.library.begin(limit)
        yield
        del item.runtest

    def checked(self, item, runtest):
        """The test itself; it fails where it succeeded with findings."""

        def run():
            try:
                runtest()
            finally:
                self.texts["call"] = self.text_of(item, self.library.findings())
            if self.texts["call"]:
                pytest.fail(self.texts["call"], pytrace=False)

        return run

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item):
        yield
        leaks = item.get_closest_marker("aclmem_no_leaks") is not None
        self.texts["teardown"] = self.text_of(item, self.library.end(leaks))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        text = self.texts.get(report.when)
        if not text:
            return
        if report.when == "teardown" and report.passed:
            report.outcome = "failed"
            report.longrepr = text
        elif text not in str(report.longrepr):  # it failed by itself, too
            report.sections.append(("aclmem findings", text))

    def pytest_unconfigure(self):
        if self.made_folder:
            shutil.rmtree(self.made_folder, True)


def pytest_addoption(parser):
    group = parser.getgroup("aclmem", "aclmem: mistakes with device memory")
    group.addoption("--aclmem-check", action="store_true",
                    help="findings of the layer check fail the test that made them")
    group.addoption("--aclmem-kinds", default="default", metavar="LIST",
                    help="the kinds of findings of --aclmem-check, as in `aclmem run --check`: default, all, leak, no-race")


def pytest_configure(config):
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if not config.getoption("--aclmem-check") or config.getoption("collectonly", False):
        return
    layers = [name for name in os.environ.get("ACLMEM_LAYERS", "").split(",") if name]
    if "check" not in layers:
        os.environ["ACLMEM_LAYERS"] = ",".join(layers + ["check"])
    os.environ["ACLMEM_CHECK"] = config.getoption("--aclmem-kinds")
    folder = os.environ.get("ACLMEM_FINDINGS")
    made = None if folder else tempfile.mkdtemp(prefix="aclmem-pytest-")
    if made:
        os.environ["ACLMEM_FINDINGS"] = made
    config.pluginmanager.register(Plugin(folder or made, made), "aclmem_check")


@pytest.fixture
def aclmem_devices(request, monkeypatch):
    """Fresh devices for this test: the runtime is started for it, device 0 is set, and it ends with the test.

    The value is the list of device ids.  The marker aclmem_options(devices=4, memory="1G") sets options.
    """
    import acl

    plugin = request.config.pluginmanager.get_plugin("aclmem_check")
    if acl.finalize() == 0:
        left = plugin.library.findings() if plugin is not None else []
        warnings.warn("\n".join(["aclmem_devices: the runtime was up before this test, and is started anew"]
                                + [finding_text(finding) for finding in left]))
    acl.get_recent_err_msg()
    for marker in reversed(list(request.node.iter_markers("aclmem_options"))):
        for name, value in marker.kwargs.items():
            monkeypatch.setenv("ACLMEM_" + name.upper(), str(value))
    for ret in (acl.init(), acl.rt.set_device(0)):
        if ret != 0:
            pytest.fail("aclmem_devices: %s" % acl.get_recent_err_msg(), pytrace=False)
    count, ret = acl.rt.get_device_count()
    yield list(range(count))
    acl.finalize()

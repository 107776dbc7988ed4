"""The plugin of pytest: small files with planted mistakes, and their twins without."""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

PLANTED = '''
import subprocess, sys, unittest
import acl, pytest

MB = 1 << 20


def take(size=MB):
    block, ret = acl.rt.malloc(size, 0)
    assert ret == 0, acl.get_recent_err_msg()
    return block


def free_twice():
    block = take()
    acl.rt.free(block)
    acl.rt.free(block)  # again


@pytest.fixture
def block(aclmem_devices):
    block = take()
    yield block
    acl.rt.free(block)


def test_double_free(aclmem_devices):
    free_twice()


@pytest.mark.parametrize("n", [1, 2])  # equal findings of two tests
def test_each(aclmem_devices, n):
    free_twice()


def test_own_failure(aclmem_devices):
    free_twice()
    assert False, "its own"


@pytest.mark.xfail(strict=True)
def test_expected(aclmem_devices):
    free_twice()


@pytest.mark.aclmem_ignore("double-*")
def test_accepted(aclmem_devices):
    free_twice()


class TestCase(unittest.TestCase):
    def test_unittest(self):
        acl.init()
        acl.rt.set_device(0)
        free_twice()
        acl.finalize()


def test_leak(aclmem_devices):
    take()


@pytest.mark.aclmem_no_leaks
def test_no_leaks(block):
    take()  # left


@pytest.mark.aclmem_no_leaks
def test_no_leaks_good(block):
    acl.rt.free(take())


@pytest.mark.aclmem_limit("64 MB")
def test_limit(aclmem_devices):
    blocks = [take(40 * MB), take(40 * MB)]  # too much
    for block in blocks:
        acl.rt.free(block)


@pytest.mark.aclmem_limit("64 MB")
def test_limit_good(block):
    for i in range(3):
        acl.rt.free(take(40 * MB))


def mapped(size):
    """Memory whose handle is freed: the mapping alone holds it."""
    prop = {"memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}}
    address, ret = acl.rt.reserve_mem_address(size, 0, None, 1)
    assert ret == 0
    handle, ret = acl.rt.malloc_physical(size, prop, 0)
    assert ret == 0
    assert acl.rt.map_mem(address, size, 0, handle, 0) == 0
    assert acl.rt.free_physical(handle) == 0
    return address


def unmap(address):
    assert acl.rt.unmap_mem(address) == 0
    assert acl.rt.release_mem_address(address) == 0


@pytest.mark.aclmem_limit("6 MB")
def test_mapped(aclmem_devices):
    for address in [mapped(4 * MB), mapped(4 * MB)]:
        unmap(address)


@pytest.mark.aclmem_limit("6 MB")
def test_mapped_good(aclmem_devices):
    unmap(mapped(4 * MB))
    unmap(mapped(4 * MB))


@pytest.mark.aclmem_options(devices=3, memory="1G")
def test_devices(aclmem_devices):
    assert aclmem_devices == [0, 1, 2]
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM)[1] == 1 << 30


def test_other_devices(aclmem_devices):
    assert len(aclmem_devices) == 2


def test_child():
    code = "import acl; acl.init(); acl.rt.set_device(0); acl.rt.malloc(4096, 0)"
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)


def test_nothing():
    pass
'''

FAILED = {  # test -> what its failure says
    "test_double_free": r"double-free: .*#0 free_twice  test_planted\.py:17\n.*#1 test_double_free  test_planted\.py:28\n",
    "test_each[1]": r"double-free: .*test_each",
    "test_each[2]": r"double-free: .*test_each",
    "test_own_failure": r"its own",
    "test_unittest": r"double-free: .*#1 test_unittest",
    "test_limit": r"over-limit: with this call the test holds 80.0 MB of device memory, and its limit is 64.0 MB\n.*"
                  r"#1 test_limit  test_planted\.py:75\n",
    "test_mapped": r"over-limit: with this call the test holds 8.0 MB",
    "test_child": r"leak.block: 1 block of 4.0 KB is still there at the end of the process, in process \d+\n.*"
                  r"#0 <module>  <string>:1",
}
IN_TEARDOWN = {
    "test_leak": r"leak.block: .*still there at aclFinalize\n.*#0 take  test_planted\.py:9\n.*test_leak",
    "test_no_leaks": r"leak.block: .*still there at aclFinalize\n.*test_no_leaks",
}


def run(folder, *options, text=PLANTED, **environment):
    path = os.path.join(str(folder), "test_planted.py")
    with open(path, "w") as file:
        file.write(text)
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--junit-xml=out.xml"]
    return subprocess.run(command + list(options) + [path], cwd=str(folder), env=dict(os.environ, **environment),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)


def outcomes(folder):
    """(test, tag) -> text; a test that passed has the tag "passed"."""
    found = {}
    for case in xml.etree.ElementTree.parse(os.path.join(str(folder), "out.xml")).iter("testcase"):
        told = [child for child in case if child.tag in ("failure", "error", "skipped")]
        found.update({(case.get("name"), child.tag): child.text or "" for child in told})
        if not told:
            found[case.get("name"), "passed"] = ""
    return found


def test_findings_fail_the_test_that_made_them(tmp_path):
    done = run(tmp_path, "--aclmem-check")
    found = outcomes(tmp_path)
    assert done.returncode == 1, done.stdout
    for name, tag in list(found):
        wanted = FAILED.get(name, "") if tag == "failure" else IN_TEARDOWN.get(name, "") if tag == "error" else None
        if wanted is None:
            assert name not in FAILED and name not in IN_TEARDOWN, done.stdout
        else:
            assert wanted and re.search(wanted, found[name, tag], re.DOTALL), (name, tag, done.stdout)
    assert {name for name, tag in found if tag == "failure"} == set(FAILED)
    assert {name for name, tag in found if tag == "error"} == set(IN_TEARDOWN)
    assert {name for name, tag in found if tag == "skipped"} == {"test_expected"}
    assert done.stdout.count("aclmem findings") == 1, done.stdout  # beside its own failure
    assert "_pytest" not in done.stdout and "pytest_plugin" not in done.stdout, done.stdout


def test_the_plugin_may_be_named_too(tmp_path):
    done = run(tmp_path, "-p", "aclmem.pytest_plugin", "--aclmem-check", text="def test_nothing():\n    pass\n")
    assert done.returncode == 0, done.stdout


def test_without_the_option_nothing_is_checked(tmp_path):
    done = run(tmp_path, "-W", "error")
    failed = {name for name, tag in outcomes(tmp_path) if tag != "passed"}
    assert failed == {"test_own_failure", "test_expected"}, done.stdout  # that one is strict and passes


LEAVES = '''
import acl, pytest


@pytest.mark.aclmem_no_leaks
def test_leaves():
    acl.init()
    acl.rt.set_device(0)
    acl.rt.malloc(4096, 0)


def test_next(aclmem_devices):
    pass


def test_last():
    acl.finalize()
'''


def test_leaks_at_the_end_of_a_test_are_told_once(tmp_path):
    done = run(tmp_path, "--aclmem-check", text=LEAVES)
    found = outcomes(tmp_path)
    assert [key for key in found if key[1] != "passed"] == [("test_leaves", "error")], done.stdout
    assert "still there at the end of the test" in found["test_leaves", "error"]
    assert "the runtime was up before this test" in done.stdout  # a warning


def test_a_wrong_limit_is_an_error_of_usage(tmp_path):
    for marker in ('"64 apples"', "", '"1 MB", "2 MB"'):
        text = "import pytest\n@pytest.mark.aclmem_limit(%s)\ndef test_it(): pass\n" % marker
        done = run(tmp_path, "--aclmem-check", text=text)
        assert done.returncode != 0 and "aclmem_limit" in done.stdout, done.stdout


def test_a_runtime_that_is_up_without_the_layer_is_refused(tmp_path):
    (tmp_path / "early.py").write_text("import acl\nacl.init()\n")
    done = run(tmp_path, "-p", "early", "--aclmem-check", PYTHONPATH="%s:%s" % (tmp_path, os.environ["PYTHONPATH"]))
    assert done.returncode != 0 and "the layer check is not on" in done.stdout, done.stdout


def test_kinds_are_chosen(tmp_path):
    run(tmp_path, "--aclmem-check", "--aclmem-kinds=leak")
    assert {name for name, tag in outcomes(tmp_path) if tag == "failure"} == {"test_own_failure", "test_expected", "test_child"}
    assert {name for name, tag in outcomes(tmp_path) if tag == "error"} == set(IN_TEARDOWN)

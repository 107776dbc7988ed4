"""Every function with wrong arguments: too many, too few, of the wrong type, out of range."""
import os
import re

import pytest

import acl
import facts

# A value of the right type for an annotation of the stubs.  Most mean nothing: the call gets as far as a code.
GOOD = {
    "int": 0,
    "int | None": None,
    "float": 0.0,
    "str | None": None,
    "int | bytes": 0,
    "Any": None,
    "bytes | bytearray | memoryview": b"",
    "tuple[int, ...]": (1,),
    "Callable[[Any], object]": print,
    "Callable[[int], object] | None": print,
}
# Those that do something that a test has to wait for, or that would change the process for later tests.
UNSAFE = {"finalize", "finalize_reference", "rt.reset_device", "rt.reset_device_force", "rt.launch_host_func",
          "rt.launch_callback", "util.start_thread", "rt.process_report"}
# Types that are never right.
WRONG = {
    "int": ["1", 1.5, None, b"1", [1], {}, object()],
    "int | None": ["1", 1.5, b"1", [1], {}, object()],
    "float": ["1", None, [1.0], {}, object()],
    "str | None": [1, b"text", 1.5, ["a"], {}, object()],
    "int | bytes": ["1", 1.5, None, {}, object()],
    "bytes | bytearray | memoryview": ["1", 1.5, None, 1, object()],
    "tuple[int, ...]": [1, [1], "1", None, (1.5,), ("1",)],
    "Callable[[Any], object]": [1, "print", None, []],
    "Callable[[int], object] | None": [1, "print", []],
    "dict": [1, "x", [1], [("id", 1)], object(), {"no_such_field": 1}, {1: 1}],
    "sequence": [1, "x", 1.5, {}, {"id": 1}, object()],
}
TOO_LARGE = 1 << 64
# What fits into the types of C, as the messages tell it.
RANGES = {(0, (1 << n) - 1) for n in (16, 32, 63, 64)} | {(-(1 << n - 1), (1 << n - 1) - 1) for n in (32, 64)}


class Index:
    """A number by its __index__ alone."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def kind(annotation):
    if annotation.startswith("_acl"):
        return "dict"
    return "sequence" if annotation.startswith("Sequence[") else annotation


def good(annotation):
    if annotation.startswith("_acl"):
        return {}
    return [] if annotation.startswith("Sequence[") else GOOD[annotation]


def good_arguments(path):
    arguments = [good(annotation) for _, annotation in facts.arguments(path)]
    if path == "util.ptr_to_numpy":
        arguments[0] = 4096  # an array over nothing, which nobody looks at
    return arguments


CASES = [(path, i) for path in facts.PATHS for i in range(len(facts.arguments(path)))]
NUMBERS = [(p, i) for p, i in CASES if facts.arguments(p)[i][1] in ("int", "int | None", "int | bytes")]


@pytest.mark.parametrize("path", facts.PATHS)
def test_a_wrong_number_of_arguments_is_a_type_error(world, path):
    function, arguments = facts.resolve(path), good_arguments(path)
    with pytest.raises(TypeError, match=path.rpartition(".")[2]):
        function(*arguments, None)
    if arguments and path not in ("init", "rt.set_exception_info_callback"):  # their last one may be left out
        with pytest.raises(TypeError, match=path.rpartition(".")[2]):
            function(*arguments[:-1])
    with pytest.raises(TypeError):
        function(*arguments, no_such_name=1)


@pytest.mark.parametrize("path, i", CASES)
def test_a_wrong_type_is_a_type_error_that_names_the_argument(world, path, i):
    name, annotation = facts.arguments(path)[i]
    if annotation == "Any" and path != "util.numpy_to_ptr":
        assert name in ("user_data_list", "args", "args_list")  # anything goes
        return
    wrong = WRONG["Callable[[Any], object]" if annotation == "Any" else kind(annotation)]
    for value in wrong:
        arguments = good_arguments(path)
        arguments[i] = value
        with pytest.raises(TypeError, match=r"acl\.%s\(\).*\b%s\b" % (path, name)):
            facts.resolve(path)(*arguments)


@pytest.mark.parametrize("path, i", NUMBERS)
def test_a_number_out_of_range_is_an_overflow_error_that_names_the_argument(world, path, i):
    name, _ = facts.arguments(path)[i]

    def refused(value):
        arguments = good_arguments(path)
        arguments[i] = value
        with pytest.raises(OverflowError, match=r"acl\.%s\(\): %s must be from" % (path, name)) as caught:
            facts.resolve(path)(*arguments)
        return tuple(int(n) for n in re.search(r"from (-?\d+) to (\d+),", str(caught.value)).groups())

    least, most = refused(TOO_LARGE)
    assert (least, most) in RANGES
    for value in (-TOO_LARGE, 1 << 4000, 10**5000, least - 1, most + 1, Index(most + 1), Index(least - 1)):
        assert refused(value) == (least, most)


@pytest.mark.parametrize("path", [p for p in sorted(facts.C_FUNCTION) if p not in UNSAFE])
def test_values_that_mean_nothing_give_a_code_and_no_exception(world, path):
    given = facts.resolve(path)(*good_arguments(path))
    expected = facts.ast.unparse(facts.STUBS[path].returns)
    if not expected.startswith("tuple"):
        assert isinstance(given, (int, float, str, type(None)))
        return
    *outputs, ret = given
    assert isinstance(ret, int) and len(given) == len(facts.STUBS[path].returns.slice.elts)
    kinds = {"int": int, "float": float, "str": str, "list": list, "_acl": dict}
    for output, node in zip(outputs, facts.STUBS[path].returns.slice.elts):
        text = facts.ast.unparse(node)
        assert isinstance(output, next(k for prefix, k in kinds.items() if text.startswith(prefix)))
        if ret != 0 and path not in ("rt.memcpy_batch", "rt.memcpy_batch_async"):
            assert not output  # 0 or empty


def test_whatever_has_an_index_is_a_number(world):
    assert acl.rt.set_device(Index(1)) == 0
    assert acl.rt.get_device() == (1, 0)
    address = world.device_memory()
    assert acl.rt.free(Index(address)) == 0
    assert acl.rt.set_device(True) == 0


def test_an_exception_of_an_index_is_passed_on(world):
    with pytest.raises(KeyError, match="mine"):
        acl.rt.set_device(Index(KeyError("mine")))
    with pytest.raises(KeyError, match="mine"):
        acl.rt.free(Index(KeyError("mine")))
    with pytest.raises(KeyError, match="mine"):
        acl.rt.malloc_physical(1, {"location": {"id": Index(KeyError("mine"))}}, 0)


def test_large_addresses_are_unsigned(world):
    top = (1 << 64) - 1
    assert acl.rt.free(top) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert "0xffffffffffffffff" in acl.get_recent_err_msg()
    assert acl.rt.pointer_get_attributes(1 << 63)[0]["location"]["type"] == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


def test_none_is_the_null_pointer(world):
    assert acl.rt.free(None) == acl.rt.free(0) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert acl.rt.malloc_physical(1, None, 0) == (0, acl.ACL_ERROR_INVALID_PARAM)
    assert "prop is NULL" in acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(None) == 0


def test_text_with_a_null_character_is_refused(world):
    with pytest.raises(ValueError, match="null character"):
        acl.sys.get_version_str("run\0time")


def test_init_takes_a_file(tmp_path):
    path = tmp_path / "acl.json"
    path.write_text('{"aclmem": {"devices": "3"}}' if "ACLMEM_DEVICES" not in os.environ else "{}")
    assert acl.init(str(path)) == 0, acl.get_recent_err_msg()
    assert acl.rt.get_device_count() == (3, 0)
    assert acl.finalize() == 0
    assert acl.init(None) == 0
    assert acl.finalize() == 0
    assert acl.init(str(tmp_path / "none.json")) == acl.ACL_ERROR_INVALID_FILE
    assert acl.get_recent_err_msg()


def test_an_index_that_is_none_is_a_type_error_that_names_the_argument(world):
    """As that of a numpy array, which has an __index__ and refuses."""
    for call in (lambda v: acl.rt.malloc(v, 0), lambda v: acl.rt.free(v),
                 lambda v: acl.rt.malloc_physical(1, {"location": {"id": v}}, 0)):
        with pytest.raises(TypeError, match=r"acl\.rt\.\w+\(\): (size|dev_ptr|prop\.location\.id) must be .*, not Index"):
            call(Index(TypeError("only scalars have an index")))


def test_a_handle_that_was_not_given_is_empty(world):
    export = acl.rt.mem_export_to_shareable_handle_v2
    assert export(0, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT) == (0, acl.ACL_ERROR_INVALID_PARAM)
    assert export(0, 0, acl.ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) == (b"", acl.ACL_ERROR_INVALID_PARAM)

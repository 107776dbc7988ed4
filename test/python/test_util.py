"""acl.util: addresses of Python's objects, and objects over addresses."""
import subprocess
import sys

import pytest

import acl

util = acl.util


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy", reason="numpy is not installed")


def test_bytes_are_not_copied():
    data = b"some bytes"
    assert util.ptr_to_bytes(util.bytes_to_ptr(data), len(data)) == data
    room = bytearray(b"before")
    address = util.bytes_to_ptr(room)
    room[:] = b"after."
    assert util.bytes_to_ptr(room) == address and util.ptr_to_bytes(address, 6) == b"after."
    room += b"x"  # its buffer is not held


def test_bytes_come_back_as_a_copy():
    room = bytearray(b"before")
    copy = util.ptr_to_bytes(util.bytes_to_ptr(room), 6)
    room[:] = b"after."
    assert copy == b"before" and isinstance(copy, bytes)
    assert util.ptr_to_bytes(0, 0) == b"" == util.ptr_to_bytes(None, 0)
    with pytest.raises(ValueError, match="ptr must not be 0"):
        util.ptr_to_bytes(0, 1)
    with pytest.raises(OverflowError, match="size must be from 0 to 9223372036854775807"):
        util.ptr_to_bytes(1, 1 << 63)


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]])
def test_what_is_no_buffer_has_no_address(data):
    with pytest.raises(TypeError, match="bytes must be bytes or another buffer"):
        util.bytes_to_ptr(data)


TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
         "float64", "complex64", "complex128", "longdouble", "intc", "uintc", "longlong", "ulonglong"]


@pytest.mark.parametrize("name", TYPES)
def test_an_array_goes_to_the_device_and_back(world, numpy, name):
    sent = numpy.arange(60).reshape(3, 4, 5).astype(name)
    device = world.device_memory(sent.nbytes)
    world.must(acl.rt.memcpy(device, sent.nbytes, util.numpy_to_ptr(sent), sent.nbytes, 1))
    host = world.host_memory(sent.nbytes)
    world.must(acl.rt.memcpy(host, sent.nbytes, device, sent.nbytes, 2))
    back = util.ptr_to_numpy(host, sent.shape, sent.dtype.num)
    assert back.dtype == sent.dtype and back.shape == sent.shape and (back == sent).all()
    assert util.numpy_to_ptr(back) == host


def test_an_array_over_memory_is_that_memory(world, numpy):
    host = world.host_memory(16)
    array = util.ptr_to_numpy(host, (4,), numpy.dtype("int32").num)
    array[:] = [1, 2, 3, 4]
    assert util.ptr_to_bytes(host, 16) == array.tobytes()
    again = util.ptr_to_numpy(host, (2, 2), numpy.dtype("int32").num)
    again[1, 1] = 99
    assert array[3] == 99 and array.flags.writeable and not array.flags.owndata


def test_shapes(numpy):
    room = numpy.zeros(8, "int8")
    address = util.numpy_to_ptr(room)
    number = room.dtype.num
    assert util.ptr_to_numpy(address, (), number).shape == ()
    assert util.ptr_to_numpy(address, (0, 5), number).size == 0
    assert util.ptr_to_numpy(address, (numpy.int64(2), 4), number).shape == (2, 4)
    with pytest.raises(OverflowError, match=r"shape\[1\] must be from"):
        util.ptr_to_numpy(address, (2, -1), number)
    with pytest.raises(OverflowError, match="shape is larger than memory"):
        util.ptr_to_numpy(address, (1 << 40, 1 << 40), number)
    with pytest.raises(ValueError, match="ptr must not be 0"):
        util.ptr_to_numpy(None, (1,), number)


@pytest.mark.parametrize("name", ["O", "S5", "U5", "V5", "M8[s]", "m8[s]"])
def test_types_that_are_no_plain_memory_are_refused(numpy, name):
    with pytest.raises(ValueError, match="numpy_type is %d" % numpy.dtype(name).num):
        util.ptr_to_numpy(4096, (1,), numpy.dtype(name).num)


def test_a_number_of_no_type_is_refused(numpy):
    with pytest.raises(ValueError, match="numpy_type is 1000"):
        util.ptr_to_numpy(4096, (1,), 1000)


def test_only_an_array_in_the_order_of_its_indices_has_an_address(numpy):
    whole = numpy.arange(10)
    assert util.numpy_to_ptr(whole[2:5]) == util.numpy_to_ptr(whole) + 16
    assert util.numpy_to_ptr(numpy.zeros((1, 4)).T)  # one row is in both orders
    table = numpy.arange(12).reshape(3, 4)
    for array in (whole[::2], whole[::-1], table.T, table[:, 1:], numpy.asfortranarray(table)):
        with pytest.raises(ValueError, match=r"array is not C-contiguous.*numpy\.ascontiguousarray"):
            util.numpy_to_ptr(array)
        copy = numpy.ascontiguousarray(array)
        assert util.ptr_to_bytes(util.numpy_to_ptr(copy), copy.nbytes) == array.tobytes()


def test_an_array_or_bytes_in_place_of_an_address_are_told_what_gives_it(world, numpy):
    """Also an array of one number, which Python would take for that number."""
    address = world.device_memory(64)
    named = r"acl\.rt\.memcpy\(\): src must be an address as an int, or None, not %s; acl\.util\.%s"
    for array in (numpy.zeros(64, "int8"), numpy.array([4096]), numpy.array(4096), numpy.zeros(0)):
        with pytest.raises(TypeError, match=named % ("ndarray", "numpy_to_ptr")):
            acl.rt.memcpy(address, 64, array, 64, 1)
    for data in (b"x" * 64, bytearray(64), memoryview(b"x" * 64)):
        with pytest.raises(TypeError, match=named % (type(data).__name__, "bytes_to_ptr")):
            acl.rt.memcpy(address, 64, data, 64, 1)
    with pytest.raises(TypeError, match=r"or None, not str$"):
        acl.rt.memcpy(address, 64, "text", 64, 1)


def test_a_number_of_numpy_has_no_address(numpy):
    """It has an __array_interface__, but of a copy that is gone when the call returns."""
    for value in (numpy.float32(3), numpy.int64(5), numpy.bool_(True)):
        with pytest.raises(TypeError, match=r"array must be a numpy array, not %s" % type(value).__name__):
            util.numpy_to_ptr(value)
    assert util.numpy_to_ptr(numpy.array(3.0)) > 0  # an array without dimensions is one


def test_device_memory_is_an_array_where_the_program_may_touch_it(numpy, monkeypatch, request):
    monkeypatch.setenv("ACLMEM_ISOLATE", "0")
    world = request.getfixturevalue("world")
    device = world.filled(world.device_memory(8), b"12345678")
    array = util.ptr_to_numpy(device, (2, 4), numpy.dtype("uint8").num)
    assert array.tobytes() == b"12345678"
    array[:] = 65
    assert world.copied(device, 8) == b"A" * 8


def test_numpys_numbers_are_numbers(world, numpy):
    address = world.device_memory(64)
    assert acl.rt.memset(numpy.uint64(address), numpy.int32(64), numpy.int8(1), numpy.uint16(64)) == 0
    assert world.copied(address, 64) == b"\1" * 64


def test_without_numpy_the_rest_works():
    code = ("import sys; sys.modules['numpy'] = None\n"
            "import acl; print(acl.util.bytes_to_ptr(b'x') > 0)\n"
            "try: acl.util.ptr_to_numpy(4096, (1,), 1)\n"
            "except ImportError as e: print('refused')\n")
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True\nrefused\n")

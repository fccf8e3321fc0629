"""Device arrays of the executor: Numba's interface, checked against NumPy, outside and inside emulation."""

import gc

import ml_dtypes
import numpy as np
import pytest
from numba import cuda
from numba.cuda.cudadrv import dummyarray
from numba.cuda.cudadrv.devicearray import DeviceNDArray, DeviceNDArrayBase, is_cuda_ndarray

from refkit.cpu import DeviceArray, DeviceRecord, emulate, memory
from refkit.cpu.transfers import auto_device, from_interface


def device(array: np.ndarray) -> DeviceArray:
    return DeviceArray.copy_of(np.asarray(array))


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_a_copy_has_the_attributes_of_the_array_and_memory_of_its_own():
    host = ramp(3, 4)
    d = device(host)
    assert isinstance(d, DeviceNDArray)
    assert is_cuda_ndarray(d)
    assert (d.shape, d.strides, d.dtype, d.ndim, d.size) == ((3, 4), (16, 4), np.float32, 2, 12)
    assert (d.nbytes, d.itemsize, d.alloc_size, len(d)) == (48, 4, 48, 3)
    host[0, 0] = 99
    assert d[0, 0] == 0


@pytest.mark.parametrize(
    "source",
    [
        np.broadcast_to(ramp(4), (3, 4)),
        np.broadcast_to(ramp(3, 1), (3, 4)),
        np.broadcast_to(ramp(2, 4)[:, ::2], (3, 2, 2)),
        ramp(6, 8)[::2, 1::3],
        ramp(6, 8)[::-1, ::-2],
        ramp(2, 3, 4).transpose(1, 2, 0),
        np.broadcast_to(np.float32(7), (2, 3)),
        ramp(0, 3),
        np.float32(5) * np.ones(()),
    ],
    ids=["rows", "columns", "broadcast slice", "strided", "reversed", "permuted", "constant", "empty", "scalar"],
)
def test_any_source_is_copied_compactly_element_by_element(source):
    d, new = auto_device(source)
    assert new
    assert d.is_c_contiguous()
    assert d.alloc_size == source.size * source.itemsize
    np.testing.assert_array_equal(d.copy_to_host(), source)


def test_fortran_order_is_kept():
    d = device(np.asfortranarray(ramp(3, 4)))
    assert d.strides == (4, 12)
    assert (d.is_f_contiguous(), d.is_c_contiguous()) == (True, False)
    assert d._numba_type_.layout == "F"
    back = d.copy_to_host()
    assert back.flags.f_contiguous
    np.testing.assert_array_equal(back, ramp(3, 4))


def test_memory_is_aligned_found_by_address_and_freed_with_its_last_view():
    d = device(ramp(100))
    start = d.device_ctypes_pointer.value
    assert start % memory.ALIGNMENT == 0
    view = d[10:20]
    assert view.device_ctypes_pointer.value == start + 40
    del d
    gc.collect()
    assert memory.find(start + 399) is not None
    assert memory.find(start + 400) is None
    np.testing.assert_array_equal(view.copy_to_host(), ramp(100)[10:20])
    del view
    gc.collect()
    assert memory.find(start) is None


@pytest.mark.parametrize(
    "index", [3, -1, np.int64(2), slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(4, 4)]
)
def test_indexing_a_vector(index):
    host = ramp(5)
    got = device(host)[index]
    want = host[index]
    if isinstance(want, np.ndarray):
        assert isinstance(got, DeviceArray)
        np.testing.assert_array_equal(got.host, want)
        assert got.strides == want.strides
    else:
        assert type(got) is type(want)
        assert got == want


@pytest.mark.parametrize("index", [(1,), (slice(None), 2), (slice(1, None), slice(None, None, 2)), (2, 3), (-1, -1)])
def test_indexing_a_matrix(index):
    host = ramp(3, 4)
    got = device(host)[index]
    np.testing.assert_array_equal(getattr(got, "host", got), host[index])


BROADCAST = {
    "rows": np.broadcast_to(ramp(4), (3, 4)),
    "columns": np.broadcast_to(ramp(3, 1), (3, 4)),
    "both": np.broadcast_to(np.float32(7), (3, 4)),
    "three": np.broadcast_to(ramp(2, 1, 4), (2, 3, 4)),
    "none": ramp(6, 8)[::2, ::2],
}


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize(
    "index",
    [
        0,
        slice(1, None),
        slice(None),
        (slice(None), slice(1, 3)),
        (1, slice(None)),
        (slice(0, 2), 1),
        (slice(None, None, -1), slice(None, None, 2)),
    ],
    ids=str,
)
def test_a_slice_of_a_broadcast_axis_has_one_element_as_numba_counts(name, index):
    """What is compared with is Numba's own arithmetic of views, which a GPU's arrays go by."""
    host = BROADCAST[name]
    view = dummyarray.Array.from_desc(0, host.shape, host.strides, 4)[index]
    got = DeviceArray.wrap(host)[index]
    assert got.shape == view.shape
    assert got.host.ctypes.data - host.ctypes.data == view.extent.begin
    longer = [(s, t) for n, s, t in zip(got.shape, got.strides, view.strides) if n > 1]
    assert all(own == numbas for own, numbas in longer)


def test_a_row_is_not_assigned_to_a_broadcast_axis():
    """On a GPU the left side has one element, and four do not fit it."""
    d = DeviceArray((3, 4), (4, 0), np.float32)
    with pytest.raises(ValueError, match="broadcast"):
        d[1, :] = ramp(4)
    d[1, :] = 5
    np.testing.assert_array_equal(d.host[1], np.full(4, 5))


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (None, TypeError),
        (Ellipsis, TypeError),
        ([0, 1], TypeError),
        (np.array([True, False, True]), TypeError),
        (True, TypeError),
        ((0, 0, 0), IndexError),
        (3, IndexError),
        (-4, IndexError),
    ],
)
def test_what_numba_cannot_index_with_is_refused(index, error):
    d = device(ramp(3, 4))
    with pytest.raises(error):
        d[index]
    with pytest.raises(error):
        d[index] = 0


def test_assignment_writes_through_views_broadcasts_and_converts():
    host = ramp(3, 4)
    d = device(host)
    d[0, 1] = 50
    d[1:, ::2] = np.array([7.5, 8.5])
    d[2] = device(ramp(4) + 100)
    host[0, 1], host[1:, ::2], host[2] = 50, [7.5, 8.5], ramp(4) + 100
    np.testing.assert_array_equal(d.copy_to_host(), host)
    whole = device(ramp(3, dtype="int32"))
    whole[:] = 2.9
    np.testing.assert_array_equal(whole.copy_to_host(), [2, 2, 2])
    with pytest.raises(ValueError, match="Can't assign 2-D array to 1-D self"):
        d[0] = np.ones((1, 4))
    with pytest.raises(ValueError, match="broadcast"):
        d[0] = np.ones(3)


def test_reshape_and_ravel_share_memory_or_refuse():
    d = device(ramp(3, 4))
    assert d.reshape(2, -1).shape == (2, 6)
    assert d.reshape((4, 3)).shape == (4, 3)
    d.reshape(12)[5] = -1
    d.ravel()[0] = -2
    assert (d[1, 1], d[0, 0]) == (-1, -2)
    f = device(np.asfortranarray(ramp(3, 4)))
    assert f.reshape(12, order="F").shape == (12,)
    for refused in (lambda: d[:, 1:3].reshape(6), lambda: d[:, 1:3].ravel(), lambda: f.reshape(12), f.ravel):
        with pytest.raises(NotImplementedError, match="requires copying"):
            refused()
    with pytest.raises(ValueError, match="reshape"):
        d.reshape(5)


def test_transpose_is_a_copy_of_a_matrix():
    d = device(ramp(3, 4))
    t = d.T
    assert t.shape == (4, 3)
    assert t.is_c_contiguous()
    np.testing.assert_array_equal(t.copy_to_host(), ramp(3, 4).T)
    t[0, 0] = 77
    assert d[0, 0] == 0
    assert d.transpose((0, 1)) is d
    with pytest.raises(NotImplementedError, match="non-2D"):
        device(ramp(2, 2, 2)).transpose()
    with pytest.raises(ValueError, match="invalid axes"):
        d.transpose((0, 0))


def test_squeeze_and_split():
    d = device(ramp(1, 3, 1))
    assert d.squeeze().shape == (3,)
    assert d.squeeze(axis=0).shape == (3, 1)
    with pytest.raises(ValueError, match="squeeze"):
        d.squeeze(axis=1)
    pieces = list(device(ramp(10)).split(4))
    assert [piece.shape for piece in pieces] == [(4,), (4,), (2,)]
    np.testing.assert_array_equal(pieces[2].copy_to_host(), [8, 9])
    with pytest.raises(ValueError, match="1d"):
        list(d.split(1))
    with pytest.raises(ValueError, match="unit stride"):
        list(device(ramp(10))[::2].split(2))


def test_bfloat16_is_numbas_type_and_its_bits_are_uint16():
    d = device(np.array([1.0, -2.5], ml_dtypes.bfloat16))
    assert str(d._numba_type_.dtype) == "__nv_bfloat16"
    bits = d.view(np.uint16)
    np.testing.assert_array_equal(bits.copy_to_host(), [0x3F80, 0xC020])
    bits[0] = 0x4000
    assert d[0] == ml_dtypes.bfloat16(2.0)
    assert d.view(np.uint32).shape == (1,)
    with pytest.raises(ValueError, match="C-contiguous"):
        device(ramp(4, 4))[:, ::2].view(np.uint8)
    with pytest.raises(ValueError, match="divisor"):
        device(np.zeros(3, np.uint8)).view(np.uint16)


def test_copy_to_host_checks_its_target_as_numba_does():
    d = device(ramp(3, 4))
    target = np.zeros((3, 4), np.float32)
    assert d.copy_to_host(target) is target
    np.testing.assert_array_equal(target, ramp(3, 4))
    flat = np.zeros((1, 3, 4), np.float32)
    np.testing.assert_array_equal(d.copy_to_host(flat)[0], ramp(3, 4))
    with pytest.raises(TypeError, match="incompatible dtype"):
        d.copy_to_host(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="incompatible shape"):
        d.copy_to_host(np.zeros((4, 3), np.float32))
    with pytest.raises(ValueError, match="incompatible strides"):
        d.copy_to_host(np.zeros((4, 3), np.float32).T)
    with pytest.raises(NotImplementedError, match="negative strides"):
        d[::-1].copy_to_host()
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        d.copy_to_host(read_only)


def test_copy_to_device_from_host_and_device():
    d = device(np.zeros((3, 4), np.float32))
    d.copy_to_device(np.asfortranarray(ramp(3, 4)))
    np.testing.assert_array_equal(d.copy_to_host(), ramp(3, 4))
    d.copy_to_device(np.broadcast_to(ramp(4), (3, 4)))
    np.testing.assert_array_equal(d.copy_to_host(), np.broadcast_to(ramp(4), (3, 4)))
    d.copy_to_device(device(ramp(3, 4) + 1))
    np.testing.assert_array_equal(d.copy_to_host(), ramp(3, 4) + 1)
    d[1:2].copy_to_device(device(ramp(4)))
    np.testing.assert_array_equal(d[1].copy_to_host(), ramp(4))
    with pytest.raises(TypeError, match=r"incompatible dtype: float32 vs\. float64"):
        d.copy_to_device(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="incompatible shape"):
        d.copy_to_device(np.zeros((4, 3), np.float32))
    with pytest.raises(ValueError, match="non-contiguous"):
        d[:, ::2].copy_to_device(np.zeros((3, 2), np.float32))


def test_implicit_conversion_copies():
    d = device(ramp(3))
    host = np.asarray(d)
    assert host.dtype == np.float32
    host[0] = 9
    assert d[0] == 0
    assert np.asarray(d, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        d.__array__(copy=False)


def test_bind_shares_memory_and_changes_the_stream_only():
    d = device(ramp(3))
    bound = d.bind("a stream")
    assert (bound.stream, d.stream) == ("a stream", 0)
    bound[0] = 4
    assert d[0] == 4
    assert bound[1:].stream == "a stream"


def test_cuda_array_interface_round_trip():
    d = device(ramp(6, 4))
    part = d[::2, 1:]
    interface = part.__cuda_array_interface__
    assert interface["shape"] == (3, 3)
    assert interface["strides"] == (32, 4)
    assert interface["typestr"] == "<f4"
    assert interface["stream"] is None
    assert d.__cuda_array_interface__["strides"] is None
    consumer = from_interface(part)
    consumer[0, 0] = -5
    assert d[0, 1] == -5


def test_memory_that_is_not_the_executors_is_refused():
    foreign = np.zeros(4, np.float32)

    class Producer:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (foreign.ctypes.data, False), "version": 3}  # noqa: RUF012

    with pytest.raises(ValueError, match="is not device memory of the CPU executor"):
        from_interface(Producer())
    d = device(ramp(4))
    with pytest.raises(ValueError, match="leaves its allocation of 16 bytes"):
        DeviceArray((5,), (4,), np.float32, gpu_data=d.gpu_data)
    with pytest.raises(ValueError, match="leaves its allocation"):
        DeviceArray((2,), (-4,), np.float32, gpu_data=d.gpu_data)


def test_new_arrays_of_given_strides():
    d = DeviceArray((2, 3), (-12, 4), np.float32)
    d[:, :] = ramp(2, 3)
    np.testing.assert_array_equal(d.host, ramp(2, 3))
    assert (d.alloc_size, d.strides) == (24, (-12, 4))
    broadcast = DeviceArray((5, 3), (0, 4), np.float32)
    assert broadcast.alloc_size == 12
    assert broadcast._numba_type_.layout == "A"
    assert broadcast.flags == {"C_CONTIGUOUS": False, "F_CONTIGUOUS": False}
    with pytest.raises(ValueError, match="strides not match ndim"):
        DeviceArray((2, 3), (4,), np.float32)
    with pytest.raises(TypeError, match="shape elements must be integers, got float"):
        DeviceArray((2.0,), (4,), np.float32)
    with pytest.raises(ValueError, match="negative dimensions"):
        DeviceArray((-2,), (4,), np.float32)


def test_empty_arrays():
    d = device(ramp(0, 4))
    assert (d.size, d.nbytes, d.device_ctypes_pointer.value) == (0, 0, 0)
    assert d.copy_to_host().shape == (0, 4)
    assert d[:, 1:].shape == (0, 3)
    assert d._numba_type_.layout == "C"


def test_wrap_shares_the_hosts_memory():
    host = ramp(6, 4)
    d = DeviceArray.wrap(host[1::2, ::-1])
    d[0, 0] = -1
    assert host[1, 3] == -1
    assert memory.find(host[3, 2:].ctypes.data) is not None


def test_records():
    dtype = np.dtype([("a", "f4"), ("b", "i4", (3,)), ("c", [("d", "i2")])], align=True)
    host = np.zeros(2, dtype)
    host["a"] = [1.5, 2.5]
    d = device(host)
    record = d[1]
    assert isinstance(record, DeviceRecord)
    assert record["a"] == np.float32(2.5)
    record["a"] = 9
    record["b"][1] = 4
    record["c"]["d"] = 3
    back = d.copy_to_host()
    np.testing.assert_array_equal(back["a"], [1.5, 9])
    np.testing.assert_array_equal(back["b"], [[0, 0, 0], [0, 4, 0]])
    np.testing.assert_array_equal(back["c"]["d"], [0, 3])
    assert record._numba_type_ == d._numba_type_.dtype
    alone, new = auto_device(host[0])
    assert new
    assert isinstance(alone, DeviceRecord)
    assert alone.copy_to_host()["a"] == np.float32(1.5)


def test_a_gpu_launch_refuses_an_array_of_the_executor():
    with pytest.raises(TypeError, match="a GPU cannot read it"):
        _ = device(ramp(3))._strided_memory_view_shim


def test_nothing_of_numbas_that_needs_a_driver_is_inherited():
    """Every public method of Numba's device arrays is replaced, so that arrays also live on after emulation."""
    inherited = {
        name for base in (DeviceNDArray, DeviceNDArrayBase) for name in vars(base) if not name.startswith("__")
    }
    ours = {name for owner in DeviceArray.__mro__ for name in vars(owner) if owner.__module__.startswith("refkit")}
    assert inherited - ours <= {"_do_getitem", "_do_setitem"}


def test_packed_and_aligned_records_of_one_layout_have_types_of_their_own():
    fields = [("x", np.float16), ("y", np.float16)]
    packed, aligned = (DeviceArray.copy_of(np.zeros(1, np.dtype(fields, align=align))) for align in (False, True))
    assert not packed._numba_type_.dtype.aligned
    assert aligned._numba_type_.dtype.aligned


class OldInterface:
    """What another library may keep of an array: its address, and not the array."""

    def __init__(self, array):
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__)


def test_memory_that_has_been_freed_is_refused():
    with emulate():
        array = cuda.to_device(np.arange(64, dtype=np.float32))
        old = OldInterface(array)
        assert cuda.as_cuda_array(old)[5] == 5
        del array
        gc.collect()
        with pytest.raises(ValueError, match="has been freed"):
            cuda.as_cuda_array(old)

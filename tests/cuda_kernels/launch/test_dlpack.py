import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

from refkit.cuda_kernels.launch import FLOATS, launcher, read, write

from .capsules import Exported, bits

pytestmark = pytest.mark.cpu

NUMPY = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
NUMPY += ["complex64", "complex128"]
BFLOAT16 = 4
FLOAT8 = {"float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11}
FLOAT8 |= {"float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14}
FLOAT32_CODE = 2


@launcher(x=read("T", dtypes=(*NUMPY, "bfloat16", *FLOAT8)))
def taken(x, *, stream=None):
    return x


@launcher(x=read("T", "C"))
def matrix(x, *, stream=None):
    return x


@launcher(x=read("T"), y=write("T"))
def copy_to(x, y, *, stream=None):
    copy_kernel[1, 32, stream](x, y)


@cuda.jit
def copy_kernel(x, y):
    i = cuda.threadIdx.x
    if i < y.shape[0]:
        y[i] = float32(x[i])


@pytest.mark.parametrize("dtype", NUMPY)
def test_every_dtype_of_numpys_own_export(dtype):
    array = np.array([0, 1, 2, 3, 5]).astype(dtype)
    got = taken(array)
    assert got.dtype == np.dtype(dtype)
    assert got.device_ctypes_pointer.value == array.ctypes.data
    np.testing.assert_array_equal(got.copy_to_host(), array)


@pytest.mark.parametrize(("dtype", "code"), [("bfloat16", BFLOAT16), *FLOAT8.items()])
@pytest.mark.parametrize("version", [(0, 8), (1, 0), (1, 3)])
def test_formats_that_numpy_does_not_export(dtype, code, version):
    dtype = np.dtype(getattr(ml_dtypes, dtype))
    got = taken(Exported(bits(dtype, 1, 2, 0.5), code, version=version))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.copy_to_host().astype(float), [1, 2, 0.5])


def test_an_array_of_jax():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed: pip install 'refkit-cuda[jax]'")
    got = taken(jnp.asarray([1.0, 2.0, 3.0], jnp.bfloat16))
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got.copy_to_host().astype(float), [1, 2, 3])


@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[::2, 1:], np.s_[:, ::-1], np.s_[1:2, ::3]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_shape_and_strides(view, order):
    array = np.asarray(np.arange(24, dtype=np.float32).reshape(4, 6), order=order)[view]
    got = matrix(array)
    assert (got.shape, got.strides) == (array.shape, array.strides)
    np.testing.assert_array_equal(got.host, array)


def test_strides_left_out_mean_c_order():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = matrix(Exported(array, FLOAT32_CODE, strides=False))
    assert got.strides == (16, 4)
    np.testing.assert_array_equal(got.copy_to_host(), array)


@pytest.mark.parametrize("version", [(0, 8), (1, 0)])
def test_a_byte_offset_counts(version):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[1:]
    np.testing.assert_array_equal(matrix(Exported(array, FLOAT32_CODE, offset=16, version=version)).host, array)


def test_an_array_without_elements():
    got = matrix(np.zeros((0, 4), np.float16))
    assert (got.shape, got.dtype) == ((0, 4), np.float16)


def test_kernels_read_and_write_the_librarys_own_memory():
    x, y = Exported(bits(ml_dtypes.bfloat16, 1, 2, 3), BFLOAT16), np.zeros(3, np.float32)
    copy_to(x, y)
    np.testing.assert_array_equal(y, [1, 2, 3])


def test_the_memory_lives_as_long_as_the_device_array_or_a_view_of_it():
    array = np.arange(4, dtype=np.float32)
    gone = weakref.ref(array)
    view = taken(array)[1:]
    del array
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(view.copy_to_host(), [1, 2, 3])
    del view
    gc.collect()
    assert gone() is None


def test_the_newest_known_version_is_asked_for_and_libraries_without_versions_are_not():
    new, old = (Exported(np.zeros(3, np.float32), FLOAT32_CODE, version=version) for version in ((1, 0), (0, 8)))
    taken(new)
    taken(old)
    assert new.calls == [{"stream": None, "max_version": (1, 0)}]
    assert old.calls == [{"stream": None}]


# ------------------------------------------------------------------------------------------------ what is refused


def refused(error, match, *arrays):
    with pytest.raises(error, match=match):
        copy_to(*arrays)


def test_a_read_only_array_may_be_an_input_but_no_output():
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    y = np.zeros(3, np.float32)
    copy_to(frozen, y)
    np.testing.assert_array_equal(y, 1)
    refused(ValueError, "^copy_to: y is read-only, expected memory that a kernel may write", y, frozen)


@pytest.mark.parametrize(
    ("device", "place"),
    [
        ((2, 1), "on GPU 1"),
        ((3, 0), "in page-locked CPU memory"),
        ((10, 0), "on a ROCm device"),
        ((8, 0), "on a device of DLPack type 8"),
    ],
)
def test_memory_of_another_device(device, place):
    array = Exported(np.zeros(3, np.float32), FLOAT32_CODE, device=device)
    refused(ValueError, f"^copy_to: x lies {place}, expected CPU memory", array, np.zeros(3, np.float32))
    assert not array.calls


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": (2, 0)}, "DLPack version 2 is not known, expected 1"),
        ({"name": b"used_dltensor"}, "is not a DLPack capsule that can still be read"),
        ({"lanes": 4}, "dtype code 2, 32 bits, 4 lanes has no NumPy dtype"),
        ({"bits": 24}, "dtype code 2, 24 bits, 1 lanes has no NumPy dtype"),
    ],
)
def test_what_cannot_be_read(changes, why):
    array = Exported(np.zeros(3, np.float32), FLOAT32_CODE, **changes)
    refused(TypeError, f"^copy_to: x is not exported through DLPack: .*{why}", array, np.zeros(3, np.float32))


@pytest.mark.parametrize("code", [3, 17, 99])
def test_dtypes_without_a_name_in_numpy(code):
    array = Exported(np.zeros(3, np.uint8), code)
    refused(TypeError, f"DLPack dtype code {code}, 8 bits, 1 lanes has no NumPy dtype", array, np.zeros(3, np.float32))


def test_a_format_that_only_ml_dtypes_has(monkeypatch):
    from refkit.cuda_kernels.launch import dlpack

    def without_ml_dtypes(name):
        raise TypeError(f"data type {name!r} not understood")

    monkeypatch.setattr(dlpack.np, "dtype", without_ml_dtypes)
    with pytest.raises(BufferError, match="dtype bfloat16 needs the package ml_dtypes"):
        dlpack._dtype.__wrapped__(BFLOAT16, 16, 1)


def test_what_the_library_says_is_passed_on():
    class NeedsDetach(Exported):
        def __dlpack__(self, **keywords):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    array = NeedsDetach(np.zeros(3, np.float32), FLOAT32_CODE)
    refused(
        TypeError, "^copy_to: x is not exported through DLPack: Can't export.*detach", array, np.zeros(3, np.float32)
    )
    refused(
        TypeError,
        "^copy_to: x is not exported through DLPack",
        np.zeros(3, ml_dtypes.bfloat16),
        np.zeros(3, np.float32),
    )


def test_the_declared_formats_still_count():
    assert "float64" not in FLOATS
    refused(
        TypeError,
        "^copy_to: x has dtype float64, expected float32, bfloat16 or float16",
        np.zeros(3),
        np.zeros(3, np.float32),
    )

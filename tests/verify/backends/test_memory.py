"""Both backends place a slab alike: the launcher sees its shape, strides and values, and the whole image comes back."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.verify.backends import LaunchFault, open_backend
from refkit.verify.slabs import Slab


@cuda.jit
def add_one(x, y):
    row = cuda.blockIdx.x
    for col in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, col] = x[row, col] + 1


@cuda.jit
def spin(x):
    while x[0, 0] >= 0:
        x[0, 1] += 1


@pytest.fixture(params=[pytest.param("cpu", marks=pytest.mark.cpu), pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request):
    if request.param == "cuda" and not cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    opened = open_backend(request.param, timeout=2.0)
    with opened.active():
        yield opened


@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "offset", "broadcast"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, ml_dtypes.bfloat16])
def test_an_array_arrives_in_its_layout_and_its_image_comes_back(backend, layout, dtype):
    array = np.broadcast_to(np.arange(5), (3, 5)).astype(dtype)
    slab = Slab.place(array, layout)
    handle = backend.upload(slab)
    assert handle.array.shape == (3, 5)
    assert tuple(handle.array.strides) == slab.strides
    assert handle.array.dtype == np.dtype(dtype)
    image = backend.download(handle)
    assert image.dtype == np.uint8
    assert np.array_equal(image, slab.image)


def test_a_launch_writes_only_its_elements(backend):
    source = Slab.place(np.arange(6, dtype=np.float32).reshape(2, 3), "transposed")
    target = Slab.poisoned((2, 3), np.dtype(np.float32), "strided")
    x, y = backend.upload(source, any_strides=True), backend.upload(target, any_strides=True)
    backend.launch(lambda: add_one[2, 32](x.array, y.array))
    image = backend.download(y)
    assert target.elements(image).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert not target.guard_violations(image)
    assert np.array_equal(backend.download(x), source.image)


def test_two_signatures_serve_every_layout(backend):
    handles = [
        backend.upload(Slab.place(np.zeros((3, 4), np.float32), layout), any_strides=strided)
        for layout, strided in (("contiguous", False), ("offset", False), ("strided", True), ("contiguous", True))
    ]
    types = [handle.array._numba_type_ for handle in handles]
    assert [kind.layout for kind in types] == ["C", "C", "A", "A"]
    assert types[2] == types[3]
    # A launcher may slice and reshape without a further compilation.
    assert handles[3].array[1:]._numba_type_.layout == "A"


def test_empty_arrays_arrive(backend):
    handle = backend.upload(Slab.place(np.zeros((0, 4), np.float32), "contiguous"))
    assert handle.array.shape == (0, 4)
    assert backend.download(handle).size > 0


def test_what_the_launcher_raises_is_a_fault(backend):
    def fails():
        raise OSError("no")

    with pytest.raises(LaunchFault, match="the launcher raised OSError: no") as caught:
        backend.launch(fails)
    assert not caught.value.fatal


def test_a_launch_configuration_that_no_device_takes_is_a_fault(backend):
    handle = backend.upload(Slab.place(np.zeros((2, 3), np.float32), "contiguous"))
    with pytest.raises(LaunchFault) as caught:
        backend.launch(lambda: add_one[1, 4096](handle.array, handle.array))
    assert caught.value.kind == "configuration"


@pytest.mark.cpu
def test_a_loop_without_end_is_stopped():
    backend = open_backend("cpu", timeout=0.5)
    with backend.active():
        handle = backend.upload(Slab.place(np.zeros((1, 2), np.float32), "contiguous"))
        with pytest.raises(LaunchFault) as caught:
            backend.launch(lambda: spin[1, 1](handle.array))
    assert caught.value.kind == "no_progress"
    assert __file__ in str(caught.value)

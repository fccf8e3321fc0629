"""Launchers on a GPU with the arrays and streams of torch and CuPy; the memory is theirs, and nobody waits."""

import gc
import weakref

import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.launch import FLOATS, INTEGERS, add_into, launcher, read, write
from refkit.cuda_kernels.layer_norm import layer_norm_block
from refkit.cuda_kernels.linear import linear_dw_split_k_workspace, linear_dx_tiled, linear_tiled
from refkit.cuda_kernels.scatter_add import scatter_add_sorted

if not cuda.is_available():
    pytest.skip("no NVIDIA GPU", allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Grid size")]


@pytest.fixture(autouse=True)
def _on_the_cpu():
    """Takes the place of the folder's fixture: here nothing is emulated."""


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@launcher(x=read("T", dtypes=(*FLOATS, *INTEGERS, "bool", "float8_e4m3fn", "float8_e5m2")))
def seen(x, *, stream=None):
    return x


@launcher(x=read("T"), y=write("T"))
def copied(x, y, *, stream=None):
    copy_kernel[(y.shape[0] + 127) // 128, 128, stream](x, y)


@launcher(x=add_into("T"))
def incremented(x, pauses=0, *, stream=None):
    increment_kernel[(x.shape[0] + 127) // 128, 128, stream](x, pauses)


@cuda.jit
def copy_kernel(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i]


@cuda.jit
def increment_kernel(x, pauses):
    """Adds 1 after some pauses of about a millisecond, so that work that does not wait for it shows."""
    i = cuda.grid(1)
    for _ in range(pauses):
        cuda.nanosleep(1_000_000)
    if i < x.shape[0]:
        x[i] += 1


PAUSES = 200
LONG = 200_000_000
"""Clocks that torch holds a stream up by: about 0.1 s."""

# --------------------------------------------------------------------------------------------------------- torch


@pytest.mark.parametrize(
    "name", ["float32", "float16", "bfloat16", "int32", "int64", "bool", "float8_e4m3fn", "float8_e5m2"]
)
def test_a_torch_tensor_is_seen_where_it_lies(torch, name):
    tensor = torch.tensor([0.0, 1.0, 2.0, 4.0], device="cuda").to(getattr(torch, name))
    array = seen(tensor)
    assert array.dtype.name == name
    assert array.device_ctypes_pointer.value == tensor.data_ptr()
    assert (array.shape, array.strides) == ((4,), (tensor.element_size(),))
    expected = tensor.to(torch.float32).cpu().numpy()
    np.testing.assert_array_equal(array.copy_to_host().astype(np.float32), expected)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_a_linear_layer_on_torch_tensors_of_any_strides(torch, name):
    dtype = getattr(torch, name)
    generator = torch.Generator("cuda").manual_seed(0)

    def integers(*shape):
        return torch.randint(-3, 4, shape, device="cuda", generator=generator).to(dtype)

    x, w, b, dy = integers(70, 33), integers(50, 33).T, integers(50), integers(70, 100)[:, ::2]
    y, dx, dw = torch.empty(70, 50, device="cuda", dtype=dtype), torch.empty_like(x), torch.ones(33, 50, device="cuda")
    linear_tiled(x, w, b, y)
    linear_dx_tiled(dy, w, dx)
    linear_dw_split_k_workspace(x, dy, dw, split_k=3)
    wide = [tensor.double() for tensor in (x, w, b, dy)]
    assert torch.equal(y, (wide[0] @ wide[1] + wide[2]).to(dtype))
    assert torch.equal(dx, (wide[3] @ wide[1].T).to(dtype))
    assert torch.equal(dw, (1 + wide[0].T @ wide[3]).float())


def test_layer_norm_agrees_with_torch(torch):
    x, gamma = torch.randn(300, 257, device="cuda"), torch.randn(257, device="cuda")
    y, mean, rstd = torch.empty_like(x), torch.empty(300, device="cuda"), torch.empty(300, device="cuda")
    layer_norm_block(x, gamma, None, 1e-5, y, mean, rstd)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(x, (257,), gamma), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mean, x.mean(dim=1), rtol=1e-5, atol=1e-6)


def test_scatter_add_agrees_with_torch(torch):
    index = torch.randint(0, 40, (500,), device="cuda")
    dy, dx = torch.randint(-3, 4, (500, 9), device="cuda").float(), torch.ones(40, 9, device="cuda")
    expected = dx.clone().index_add_(0, index, dy)
    scatter_add_sorted(dx, index, dy)
    assert torch.equal(dx, expected)


@pytest.mark.parametrize("as_handle", [False, True])
def test_a_launch_on_a_torch_stream_comes_after_and_before_what_torch_does_there(torch, as_handle):
    stream = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    incremented(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        x.fill_(5)
        incremented(x, stream=stream.cuda_stream if as_handle else stream)
        y = x * 2
    stream.synchronize()
    assert torch.equal(y, torch.full_like(y, 12))


def test_a_launch_waits_for_what_torch_still_has_to_do_on_its_own_stream(torch):
    mine, theirs = cuda.stream(), torch.cuda.Stream()
    x, y = torch.zeros(1000, device="cuda"), torch.zeros(1000, device="cuda")
    copied(x, y)
    torch.cuda.synchronize()
    with torch.cuda.stream(theirs):
        torch.cuda._sleep(LONG)
        x.fill_(5)
        copied(x, y, stream=mine)
    assert not theirs.query()
    mine.synchronize()
    assert torch.equal(y.cpu(), torch.full((1000,), 5.0))


def test_a_launcher_returns_before_the_kernel_ends(torch):
    stream = torch.cuda.Stream()
    x = torch.zeros(1, device="cuda")
    incremented(x)
    torch.cuda.synchronize()
    incremented(x, PAUSES, stream=stream)
    assert not stream.query()
    stream.synchronize()
    assert x.item() == 2


def test_a_cpu_tensor_is_refused(torch):
    x, y = torch.zeros(3), torch.zeros(3, device="cuda")
    with pytest.raises(ValueError, match=r"^copied: x lies in CPU memory, expected memory of GPU \d"):
        copied(x, y)
    with pytest.raises(ValueError, match=r"^copied: y lies in CPU memory"):
        copied(y, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"^copied: x lies in (page-locked )?CPU memory"):
        copied(x.pin_memory(), y)


def test_a_tensor_of_another_gpu_is_refused(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    x, y = torch.zeros(3, device="cuda:1"), torch.zeros(3, device="cuda:0")
    with cuda.gpus[0], pytest.raises(ValueError, match=r"^copied: x lies on GPU 1, expected GPU 0, the current device"):
        copied(x, y)
    with cuda.gpus[1]:
        other = cuda.device_array(3, np.float32)
    with cuda.gpus[0], pytest.raises(ValueError, match=r"^copied: x lies on GPU 1, expected GPU 0, the current device"):
        copied(other, y)


def test_a_tensor_that_requires_grad_is_refused_in_torchs_words(torch):
    with pytest.raises(TypeError, match=r"^copied: x is not exported through DLPack: .*detach"):
        copied(torch.zeros(3, device="cuda", requires_grad=True), torch.zeros(3, device="cuda"))


def test_views_of_one_packed_tensor(torch):
    packed = torch.zeros(10, 12, device="cuda")

    @launcher(dq=write("T", "C"), dk=write("T", "C"), dv=write("T", "C"))
    def attention(dq, dk, dv, *, stream=None):
        return True

    q, k, v = packed.chunk(3, dim=1)
    assert attention(q, k, v)
    with pytest.raises(ValueError, match=r"^attention: dk overlaps dv"):
        attention(q, k, packed[:, 7:11])
    with pytest.raises(ValueError, match=r"^copied: y overlaps x"):
        copied(packed[0], packed[0])


def test_the_tensor_lives_as_long_as_the_device_array_or_a_view_of_it(torch):
    tensor = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    view = seen(tensor)[10:]
    del tensor
    gc.collect()
    assert torch.cuda.memory_allocated() == held
    assert view.copy_to_host().min() == 1
    del view
    gc.collect()
    assert torch.cuda.memory_allocated() < held


# ------------------------------------------------------------------------------------------- Numba and the interface


class Foreign:
    """An array of another library, known by its interface alone."""

    def __init__(self, array, **changes):
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, **self.changes}


def test_an_array_interface_is_taken_and_its_object_held():
    x, y = Foreign(cuda.to_device(np.arange(5, dtype=np.float32))), cuda.device_array(5, np.float32)
    gone = weakref.ref(x)
    copied(x, y)
    np.testing.assert_array_equal(y.copy_to_host(), np.arange(5))
    view = seen(x)[2:]
    del x
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(view.copy_to_host(), [2, 3, 4])


def test_an_array_interface_over_host_memory_is_refused():
    host, y = np.zeros(3, np.float32), cuda.device_array(3, np.float32)
    with pytest.raises(ValueError, match=r"^copied: x lies at 0x[0-9a-f]+, in no GPU's memory; expected memory of GPU"):
        copied(Foreign(y, data=(host.ctypes.data, False)), y)


def test_the_stream_of_an_array_interface_is_waited_for():
    theirs, mine = cuda.stream(), cuda.stream()
    x, y = cuda.to_device(np.zeros(5, np.float32)), cuda.device_array(5, np.float32)
    copied(x, y)
    incremented(x)
    cuda.synchronize()
    incremented(x, PAUSES, stream=theirs)
    copied(Foreign(x, stream=int(theirs.handle)), y, stream=mine)
    mine.synchronize()
    np.testing.assert_array_equal(y.copy_to_host(), 2)


def test_managed_arrays_of_numba():
    x, y = cuda.managed_array(3, np.float32), cuda.device_array(3, np.float32)
    x[...] = 7
    copied(x, y)
    np.testing.assert_array_equal(y.copy_to_host(), 7)


# ----------------------------------------------------------------------------------------------------------- CuPy


def test_cupy_arrays_and_streams(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, y = cupy.arange(5, dtype=cupy.float32), cupy.empty(5, cupy.float32)
        copied(x, y, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(y), np.arange(5))
    with pytest.raises(ValueError, match=r"^copied: y overlaps x"):
        copied(x, x)

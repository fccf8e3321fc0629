"""Host code under emulation, with a recorder in place of the launch: what reaches it, and what Numba is left as."""

import asyncio
import gc
import pickle
import subprocess
import sys
import threading
import time
import types as python_types
import warnings
from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
from numba import cuda
from numba.cuda import device_array, stream, synchronize, to_device
from numba.cuda.cudadrv import devicearray, devices, driver, nvvm
from numba.cuda.cudadrv.devicearray import MappedNDArray
from numba.cuda.cudadrv.error import CudaSupportError
from numba.cuda.dispatcher import CUDADispatcher, ForAll
from numba.cuda.np.numpy_support import carray
from numba.cuda.random import create_xoroshiro128p_states

import refkit.cpu
from refkit.cpu import DeviceArray, DeviceRecord, LaunchConfigurationError, Settings, Unsupported, emulate, is_active

Pair = namedtuple("Pair", ["first", "second"])


class Recorder:
    """Stands where the executor's launch stands; keeps what it was given and writes what it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.effect = lambda *arguments: None

    def __call__(self, dispatcher, grid, block, dynamic_shared_bytes, arguments, settings, *, cooperative=False):
        self.calls.append((dispatcher, grid, block, dynamic_shared_bytes, arguments, settings))
        self.effect(*arguments)

    @property
    def arguments(self) -> tuple:
        return self.calls[-1][4]

    @property
    def settings(self) -> Settings:
        return self.calls[-1][5]


@pytest.fixture
def launches(monkeypatch):
    recorder = Recorder()
    module = python_types.ModuleType("refkit.cpu.launch")
    module.launch = recorder
    monkeypatch.setitem(sys.modules, "refkit.cpu.launch", module)
    return recorder


@cuda.jit
def kernel(x, y, factor):
    y[0] = x[0] * factor


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


PATCHED = (
    [(CUDADispatcher, name) for name in ("configure", "call", "compile", "specialize", "overloads", "inspect_asm")]
    + [(ForAll, "__call__"), (devicearray, "DeviceNDArray"), (devicearray, "auto_device"), (nvvm, "is_available")]
    + [(driver, "_to_core_stream")]
)


def numba_state() -> list:
    singletons = [type(driver.driver), type(devices._runtime), type(devices.gpus)]
    return singletons + [vars(owner).get(name) for owner, name in PATCHED] + [sorted(vars(CUDADispatcher))]


# --- entering and leaving ---


def test_numba_is_left_exactly_as_it_was():
    before = numba_state()
    with emulate():
        assert numba_state() != before
        assert is_active()
    assert numba_state() == before
    assert not is_active()
    with pytest.raises(ZeroDivisionError), emulate():
        _ = 1 / 0
    assert numba_state() == before


def test_contexts_nest_and_one_object_can_be_entered_again(launches):
    outer, inner = (
        emulate(schedule=1),
        emulate(schedule=2, sanitize=["race"], workers=3, timeout=0.5, always_raise=False),
    )
    seen = []

    def launch():
        kernel[1, 1](ramp(1), ramp(1), 1)
        seen.append(launches.settings)

    before = numba_state()
    with outer:
        launch()
        with inner:
            launch()
            with outer, inner:
                launch()
            launch()
        launch()
    assert [settings.schedule for settings in seen] == [1, 2, 2, 2, 1]
    assert seen[1] == Settings(frozenset({"race"}), 2, 3, 0.5, False)
    assert numba_state() == before


def test_emulate_decorates(launches):
    @emulate(schedule=7)
    def host():
        kernel[1, 1](ramp(1), ramp(1), 1)
        return is_active()

    assert host()
    assert launches.settings.schedule == 7
    assert not is_active()


def test_threads_share_the_programs_context_and_have_their_own(launches):
    seen = {}
    before = numba_state()

    def worker(name, settings):
        if settings is None:
            seen[name] = refkit.cpu.active.settings().schedule
        else:
            with emulate(schedule=settings):
                barrier.wait()
                seen[name] = refkit.cpu.active.settings().schedule
                barrier.wait()

    barrier = threading.Barrier(2)
    with emulate(schedule=10):
        bare = threading.Thread(target=worker, args=("bare", None))
        bare.start()
        bare.join()
        pair = [threading.Thread(target=worker, args=(number, number)) for number in (1, 2)]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        seen["main"] = refkit.cpu.active.settings().schedule
    assert seen == {"bare": 10, 1: 1, 2: 2, "main": 10}
    assert numba_state() == before


def test_overlapping_contexts_of_two_threads_restore_after_the_last():
    before = numba_state()
    entered, leave = threading.Event(), threading.Event()

    def other():
        with emulate():
            entered.set()
            leave.wait()

    with emulate():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
    assert is_active()
    leave.set()
    thread.join()
    assert numba_state() == before


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"sanitize": ("race", "speed")},
            ValueError,
            "no sanitizer speed; there are barrier, memory, race, uninitialized",
        ),
        ({"sanitize": "race"}, TypeError, "expected a collection"),
        ({"schedule": -1}, ValueError, "schedule=-1"),
        ({"optimise": 0}, ValueError, "optimise=0: expected 1 to 3"),
        ({"schedule": True}, ValueError, "schedule=True"),
        ({"workers": 0}, ValueError, "workers=0"),
        ({"timeout": 0}, ValueError, "timeout=0"),
    ],
)
def test_wrong_settings_are_named(wrong, error, message):
    with pytest.raises(error, match=message):
        emulate(**wrong)


def test_the_simulator_is_refused(monkeypatch):
    monkeypatch.setattr("numba.core.config.ENABLE_CUDASIM", True)
    with pytest.raises(RuntimeError, match="NUMBA_ENABLE_CUDASIM"), emulate():
        pass
    assert not is_active()


# --- the host API ---


def test_functions_imported_before_are_reached():
    with emulate():
        d = to_device(ramp(3))
        assert isinstance(d, DeviceArray)
        assert isinstance(device_array((2, 3), np.float32), DeviceArray)
        assert repr(stream()).startswith("<CUDA stream")
        synchronize()


def test_arrays_outlive_emulation():
    with emulate():
        d = cuda.to_device(ramp(3))
    d[0] = 5
    np.testing.assert_array_equal(d[:2].copy_to_host(), [5, 1])


def test_to_device_copies_and_keeps_what_is_already_there():
    host = ramp(3)
    with emulate():
        d = cuda.to_device(host)
        host[0] = 9
        assert d[0] == 0
        assert cuda.to_device(d) is d
        other = cuda.to_device(host, to=d)
        assert other is d
        assert d[0] == 9
        broadcast = cuda.to_device(np.broadcast_to(ramp(4)[:, None], (4, 5)))
        np.testing.assert_array_equal(broadcast.copy_to_host(), np.broadcast_to(ramp(4)[:, None], (4, 5)))
        assert cuda.to_device([1.0, 2.0]).shape == (2,)
        assert cuda.to_device(3).shape == ()
        assert cuda.to_device(ramp(4), copy=False).shape == (4,)


def test_allocation_functions():
    with emulate():
        assert cuda.device_array(5).dtype == np.float64
        assert cuda.device_array((2, 3), np.float32, order="F").strides == (4, 8)
        assert cuda.device_array((2, 3), np.int8, strides=(16, 2)).strides == (16, 2)
        assert cuda.device_array((2,), ml_dtypes.bfloat16).view(np.uint16).dtype == np.uint16
        like = cuda.device_array_like(np.asfortranarray(ramp(2, 3)))
        assert (like.strides, like.dtype) == ((4, 8), np.float32)
        assert cuda.device_array_like(cuda.to_device(ramp(4))).shape == (4,)
        pinned = cuda.pinned_array((2, 3), np.int32)
        pinned[:] = 4
        assert pinned.flags.c_contiguous
        assert cuda.pinned_array_like(ramp(2)).dtype == np.float32
        assert cuda.mapped_array_like(ramp(2)).shape == (2,)
        with pytest.raises(TypeError, match="shape must be an integer"):
            cuda.device_array(2.5)


@pytest.mark.parametrize("make", ["mapped_array", "managed_array"])
def test_mapped_and_managed_arrays_share_memory_with_the_kernel(launches, make):
    def effect(x, y, factor):
        x[0] = 42

    launches.effect = effect
    with emulate():
        host = getattr(cuda, make)(3, np.float32)
        host[:] = 1
        kernel[1, 1](host, host, 1)
        assert isinstance(host, np.ndarray)
        assert isinstance(host, MappedNDArray) == (make == "mapped_array")
        assert host[0] == 42
        assert cuda.as_cuda_array(host)[0] == 42


def test_mapped_context_shares_the_hosts_array():
    host = ramp(4)
    with emulate():
        with cuda.mapped(host) as d:
            d[1] = 7
        with cuda.mapped(host, ramp(2)) as both:
            assert len(both) == 2
        with cuda.pinned(host):
            pass
    assert host[1] == 7


def test_cuda_array_interface_consumers():
    with emulate():
        d = cuda.to_device(ramp(4))

        class Producer:
            __cuda_array_interface__ = d.__cuda_array_interface__

        assert cuda.is_cuda_array(d)
        assert cuda.is_cuda_array(Producer())
        assert not cuda.is_cuda_array(ramp(4))
        view = cuda.as_cuda_array(Producer())
        view[0] = 8
        assert d[0] == 8
        with pytest.raises(TypeError, match="cuda array interface"):
            cuda.as_cuda_array(ramp(4))


def test_device_and_context_queries(capsys):
    with emulate():
        device = cuda.get_current_device()
        assert device.name == "refkit CPU executor"
        assert device.compute_capability == (9, 0)
        assert (device.WARP_SIZE, device.MAX_THREADS_PER_BLOCK) == (32, 1024)
        assert device.MULTIPROCESSOR_COUNT > 0
        assert device.MAX_SHARED_MEMORY_PER_BLOCK == 49_152
        with pytest.raises(Unsupported, match="NUMA_ID"):
            _ = device.NUMA_ID
        with pytest.raises(AttributeError, match="no attribute WARPS"):
            _ = device.WARPS
        assert cuda.is_available()
        assert cuda.is_supported_version()
        assert cuda.cuda_error() is None
        assert cuda.is_bfloat16_supported()
        assert len(cuda.gpus) == len(cuda.list_devices()) == 1
        assert cuda.gpus.current.id == 0
        with cuda.gpus[0]:
            assert cuda.current_context().device.id == 0
        assert cuda.select_device(0).id == 0
        with pytest.raises(IndexError):
            cuda.select_device(1)
        free, total = cuda.current_context().get_memory_info()
        assert 0 < free <= total
        assert cuda.detect()
        assert "refkit CPU executor" in capsys.readouterr().out
        context = cuda.current_context()
        context.synchronize()
        memory = context.memalloc(64)
        driver.device_memset(memory, 3, 64)
        assert DeviceArray((64,), (1,), np.uint8, gpu_data=memory).host.tolist() == [3] * 64
        context.reset()
        cuda.close()
        with cuda.defer_cleanup(), cuda.profiling():
            pass
        cuda.profile_start()
        cuda.profile_stop()


def test_streams_and_events():
    with emulate():
        s = cuda.stream()
        assert s != cuda.stream()
        assert repr(cuda.default_stream()) == "<Default CUDA stream>"
        assert repr(cuda.legacy_default_stream()) == "<Legacy default CUDA stream>"
        assert repr(cuda.per_thread_default_stream()) == "<Per-thread default CUDA stream>"
        assert repr(cuda.external_stream(12345)) == "<External CUDA stream 12345>"
        with s.auto_synchronize():
            d = cuda.to_device(ramp(3), stream=s)
            host = d.copy_to_host(stream=s)
        np.testing.assert_array_equal(host, ramp(3))
        first, second = cuda.event(), cuda.event(timing=True)
        first.record(s)
        second.record(s)
        second.wait(s)
        second.synchronize()
        assert second.query()
        assert 0 <= cuda.event_elapsed_time(first, second) == first.elapsed_time(second) < 1000
        untimed = cuda.event(timing=False)
        untimed.record()
        with pytest.raises(driver.CudaAPIError, match="timing=False"):
            cuda.event_elapsed_time(untimed, second)
        with pytest.raises(driver.CudaAPIError, match="never recorded"):
            cuda.event_elapsed_time(first, cuda.event())


def test_stream_callbacks_run_in_order_on_another_thread():
    order = []
    lock = threading.Lock()

    def callback(on, status, argument):
        if argument == "a":
            time.sleep(0.02)
        with lock:
            order.append((on, status, argument, threading.current_thread() is not threading.main_thread()))

    with emulate():
        s = cuda.stream()
        with lock:  # as on a device, the callback may need what the caller holds
            s.add_callback(callback, "a")
            s.add_callback(callback, "b")
        s.synchronize()
        assert order == [(s, 0, "a", True), (s, 0, "b", True)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            s.add_callback(lambda *_: 1 / 0)
            cuda.synchronize()
        assert "Exception in stream callback: division by zero" in str(caught[-1].message)


def test_async_done():
    async def wait():
        s = cuda.stream()
        return await s.async_done() is s

    with emulate():
        assert asyncio.run(wait())


def test_random_states_and_transpose_helper(launches):
    with emulate():
        states = create_xoroshiro128p_states(4, seed=1)
        assert states.shape == (4,)
        assert len({int(state["s0"]) for state in states.copy_to_host()}) == 4
        from numba.cuda.kernels.transpose import transpose

        out = transpose(cuda.to_device(ramp(3, 4)))
        assert out.shape == (4, 3)
        assert launches.calls[-1][0].py_func.__name__ == "kernel"


def test_what_is_not_emulated_says_so():
    with emulate():
        d = cuda.to_device(ramp(2))
        with pytest.raises(NotImplementedError, match="inter-process"):
            d.get_ipc_handle()
        with pytest.raises(Unsupported, match="driver call cuModuleLoad is not emulated"):
            driver.driver.cuModuleLoad("x")
        with pytest.raises(
            Unsupported, match=r"inspect_asm\(\) needs a kernel compiled for a GPU.*kernel kernel, .*test_emul"
        ):
            kernel.inspect_asm()
        for name in ("inspect_sass", "get_regs_per_thread", "get_shared_mem_per_block", "inspect_llvm"):
            with pytest.raises(Unsupported, match=name):
                getattr(kernel, name)()


# --- launches ---


def test_a_launch_gets_dimensions_shared_bytes_and_settings(launches):
    with emulate(sanitize={"memory"}):
        d = cuda.to_device(ramp(3))
        s = cuda.stream()
        kernel[(2, 3), (4, 5, 6), s, 128](d, d, 2.5)
        kernel[np.int64(7), 32](d, d, 1)
        kernel.configure(1, 2)(d, d, 1)
    dispatcher, grid, block, shared, arguments, settings = launches.calls[0]
    assert dispatcher is kernel
    assert (grid, block, shared) == ((2, 3, 1), (4, 5, 6), 128)
    assert arguments == (d, d, 2.5)
    assert arguments[0] is d
    assert settings.sanitize == {"memory"}
    assert [call[1:3] for call in launches.calls[1:]] == [((7, 1, 1), (32, 1, 1)), ((1, 1, 1), (2, 1, 1))]
    assert all(type(extent) is int for call in launches.calls for extent in (*call[1], *call[2]))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ((1, 1025), r"block.x = 1025 exceeds the limit of 1024"),
        ((1, (33, 32)), r"block \(33, 32, 1\) has 1056 threads; the limit is 1024"),
        ((1, (1, 1, 65)), r"block.z = 65 exceeds the limit of 64"),
        (((1, 65_536), 1), r"grid.y = 65536 exceeds the limit of 65535"),
        (((1, 1, 65_536), 1), r"grid.z = 65536 exceeds the limit of 65535"),
        ((2**31, 1), r"grid.x = 2147483648 exceeds the limit of 2147483647"),
        ((0, 1), r"grid.x = 0 in grid \(0, 1, 1\): every dimension must be at least 1"),
        ((1, (1, 0)), r"block.y = 0"),
        ((1, -1), r"block.x = -1"),
        ((1, 1, 0, 49_153), r"49153 bytes of dynamic shared memory; the limit is 49152"),
    ],
)
def test_limits_of_a_launch(launches, configuration, message):
    with emulate(), pytest.raises(LaunchConfigurationError, match=message) as caught:
        kernel[configuration](ramp(1), ramp(1), 1)
    assert caught.value.kernel == "kernel"
    assert caught.value.file == __file__
    assert isinstance(caught.value, ValueError)
    assert launches.calls == []


def test_largest_legal_launches_pass(launches):
    with emulate():
        for configuration in ((2**31 - 1, 1), ((1, 65_535, 65_535), 1024), (1, (1, 1, 64)), (1, 1, 0, 49_152)):
            kernel[configuration](ramp(1), ramp(1), 1)
    assert len(launches.calls) == 4


def test_launch_bounds_hold(launches):
    bounded = cuda.jit(launch_bounds=(128, 2))(kernel.py_func)
    with emulate():
        bounded[1, 128](ramp(1), ramp(1), 1)
        with pytest.raises(LaunchConfigurationError, match="129 threads; the kernel's launch_bounds allow 128"):
            bounded[1, 129](ramp(1), ramp(1), 1)


def test_wrong_calls(launches):
    with emulate():
        with pytest.raises(TypeError, match="kernel: not enough arguments: expected 3, got 1"):
            kernel[1, 1](ramp(1))
        with pytest.raises(TypeError, match="too many arguments: expected 3, got 4"):
            kernel[1, 1](1, 2, 3, 4)
        with pytest.raises(ValueError, match="launch configuration was not specified"):
            kernel(1, 2, 3)
        with pytest.raises(ValueError, match="griddim and blockdim"):
            kernel[1, 1, 1, 1, 1]
        with pytest.raises(TypeError, match="sequence of integers"):
            kernel[1.5, 1]
        with pytest.raises(TypeError, match="Expected a Stream object or 0, got 'fast'"):
            kernel[1, 1, "fast"]
        with pytest.raises(RuntimeError, match="Cannot compile a device function as a kernel"):
            cuda.jit(device=True)(kernel.py_func)[1, 1](1, 2, 3)
    assert launches.calls == []


def test_host_arrays_are_copied_there_and_back(launches):
    x, y = ramp(4), np.zeros(4, np.float32)

    def effect(dx, dy, factor):
        assert isinstance(dx, DeviceArray)
        assert not np.shares_memory(dx.host, x)
        dy[:] = dx.host * 2
        assert y[1] == 0

    launches.effect = effect
    with emulate():
        kernel[1, 1](x, y, 1)
    np.testing.assert_array_equal(y, x * 2)


def test_the_same_host_array_twice_is_two_device_arrays(launches):
    x = ramp(4)
    with emulate():
        kernel[1, 1](x, x, 1)
    assert not np.shares_memory(launches.arguments[0].host, launches.arguments[1].host)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2, 1:],
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: np.broadcast_to(a[0], (5, 6)),
        lambda a: a[:0],
    ],
    ids=["strided", "transposed", "reversed", "broadcast", "empty"],
)
def test_host_arrays_keep_their_strides_and_so_their_type(launches, view):
    base = ramp(4, 6)
    host = view(base)
    launches.effect = lambda dx, dy, factor: dx.host.__iadd__(1) if 0 not in dx.strides else None
    before = host.copy()
    with emulate():
        kernel[1, 1](host, host.copy(), 1)
    device = launches.arguments[0]
    assert device.shape == host.shape
    assert host.size == 0 or device.strides == host.strides
    np.testing.assert_array_equal(host, before if 0 in host.strides or not host.flags.writeable else before + 1)


def test_read_only_host_arrays_are_not_written_back(launches):
    x = ramp(4)
    x.flags.writeable = False

    def effect(dx, dy, factor):
        dx[0] = 99

    launches.effect = effect
    with emulate():
        kernel[1, 1](x, ramp(4), 1)
    assert x[0] == 0


def test_a_failed_launch_writes_nothing_back(launches):
    x = ramp(4)

    def effect(dx, dy, factor):
        dx[0] = 99
        raise refkit.cpu.Deadlock("stuck", kernel="kernel")

    launches.effect = effect
    with emulate(), pytest.raises(refkit.cpu.Deadlock):
        kernel[1, 1](x, ramp(4), 1)
    assert x[0] == 0


def test_in_out_and_inout_hints(launches):
    a, b, c = ramp(3), ramp(3), ramp(3)

    def effect(da, db, dc):
        for device in (da, db, dc):
            device[0] = 50

    launches.effect = effect
    with emulate():
        kernel[1, 1](cuda.In(a), cuda.Out(b), cuda.InOut(c))
        np.testing.assert_array_equal(launches.arguments[2].host, [50, 1, 2])
        np.testing.assert_array_equal(launches.arguments[0].host, [50, 1, 2])
        d = cuda.to_device(a)
        kernel[1, 1](cuda.In(d), b, c)
        assert launches.arguments[0] is d
    assert (a[0], b[0], c[0]) == (0, 50, 50)


def test_scalars_tuples_and_records(launches):
    record = np.zeros(1, [("a", "f4"), ("b", "i4", (2,))])[0]
    host = ramp(2)

    def effect(scalars, pair, item):
        item["a"] = 3
        item["b"][1] = 7
        pair.first[0] = 11

    launches.effect = effect
    with emulate():
        kernel[1, 1]((True, 2.5, np.int8(3), 1 + 2j), Pair(host, (np.float16(1), ramp(1))), record)
    scalars, pair, item = launches.arguments
    assert scalars == (True, 2.5, np.int8(3), 1 + 2j)
    assert isinstance(pair, Pair)
    assert isinstance(pair.second[1], DeviceArray)
    assert isinstance(item, DeviceRecord)
    assert host[0] == 11
    assert record["a"] == 3
    assert record["b"].tolist() == [0, 7]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, NotImplementedError, r"argument 1 \(y\): a kernel cannot take None of type none"),
        ("text", NotImplementedError, r"argument 1 \(y\): a kernel cannot take 'text'"),
        ((1, None), NotImplementedError, r"argument 1 \(y\)\[1\]"),
        (object(), TypeError, r"argument 1 \(y\): numba-cuda has no type for object"),
        (np.zeros(2, object), TypeError, "device memory cannot hold Python objects: dtype object"),
        (np.zeros(2, ml_dtypes.float8_e4m3fn), TypeError, r"no type for dtype float8_e4m3fn"),
    ],
)
def test_arguments_that_no_kernel_takes(launches, value, error, message):
    with emulate(), pytest.raises(error, match=message):
        kernel[1, 1](ramp(1), value, 1)


def test_forall_covers_the_tasks(launches):
    with emulate():
        kernel.forall(1000)(ramp(1), ramp(1), 1)
        kernel.forall(1000, tpb=64, sharedmem=16)(ramp(1), ramp(1), 1)
        kernel.forall(0)(ramp(1), ramp(1), 1)
        with pytest.raises(ValueError, match="negative task count"):
            kernel.forall(-1)
    assert [(call[1][0] * call[2][0] >= 1000, call[2], call[3]) for call in launches.calls] == [
        (True, (256, 1, 1), 0),
        (True, (64, 1, 1), 16),
    ]


def test_pre_launch_callbacks_see_the_kernel(launches):
    seen = []
    with emulate():
        configured = kernel[1, 1]
        configured.pre_launch_callbacks.append(
            lambda kernel, config: seen.append((kernel.argument_types[2], config.griddim))
        )
        configured(ramp(1), ramp(1), 1.5)
        assert kernel[1, 1].pre_launch_callbacks == []
    assert [(str(kind), grid) for kind, grid in seen] == [("float64", (1, 1, 1))]


def test_extensions_prepare_arguments(launches):
    class Wrapped:
        def __init__(self, array):
            self.array = array
            self._numba_type_ = array._numba_type_

    class Unwrap:
        @staticmethod
        def prepare_args(kind, value, stream, retr):
            retr.append(lambda: done.append(True))
            return (kind, value.array) if isinstance(value, Wrapped) else (kind, value)

    done = []
    extended = cuda.jit(extensions=[Unwrap])(kernel.py_func)
    with emulate():
        d = cuda.to_device(ramp(2))
        extended[1, 1](Wrapped(d), d, 1)
    assert launches.arguments[0] is d
    assert done == [True] * 3


# --- signatures, specialisation, and keeping code for the CPU and the GPU apart ---


def test_eager_signatures_need_no_driver_and_convert_their_scalars(launches):
    with emulate():

        @cuda.jit("void(float32[:], int32, float32, complex64)")
        def eager(x, count, factor, phase):
            pass

        assert eager.specialized
        eager[1, 1](ramp(2), 3, 2, 1)
        _, count, factor, phase = launches.arguments
        assert (type(count), type(factor), type(phase)) == (np.int32, np.float32, np.complex64)
        with pytest.raises(
            TypeError, match=r"eager: No matching definition .*\(array\(float64, 1d, C\).*; there are \(array\(fl"
        ):
            eager[1, 1](np.zeros(2), 3, 2, 1)
        with pytest.raises(TypeError, match="No matching definition"):
            eager[1, 1](ramp(2), 3.5, 2, 1)
        with pytest.raises(TypeError, match="void return type"):
            cuda.jit("float32(float32)")(lambda x: x)


def test_an_address_is_taken_where_a_pointer_is_declared():
    with emulate():

        @cuda.jit("void(CPointer(float32), int32)")
        def doubled(pointer, count):
            x = carray(pointer, (count,))
            for i in range(count):
                x[i] *= 2

        d = cuda.to_device(np.arange(3, dtype=np.float32))
        doubled[1, 1](d.__cuda_array_interface__["data"][0], 2)
        assert d.copy_to_host().tolist() == [0, 2, 2]
        with pytest.raises(TypeError, match="No matching definition"):
            doubled[1, 1](1.5, 2)


def test_several_signatures_take_the_closest(launches):
    with emulate():

        @cuda.jit(["void(float32[:], int64)", "void(float32[:], float64)", "void(float64[:], float64)"])
        def eager(x, factor):
            pass

        for value, kind in ((3, np.int64), (3.0, np.float64), (np.float32(3), np.float64), (np.int16(3), np.int64)):
            eager[1, 1](ramp(2), value)
            assert type(launches.arguments[1]) is kind
        assert len(eager.overloads) == 3


def test_specialize(launches):
    with emulate():
        special = kernel.specialize(ramp(1), ramp(1), 1.5)
        assert special.specialized
        assert kernel.specialize(ramp(1), ramp(1), 1.5) is special
        special[1, 1](ramp(1), ramp(1), 2)
        assert type(launches.arguments[2]) is np.float64
        with pytest.raises(RuntimeError, match="already specialized"):
            special.specialize(1)
    assert kernel.specializations == {}


def test_nothing_compiled_under_emulation_is_left_in_the_dispatcher(launches):
    @cuda.jit(device=True)
    def increment(x):
        return x + 1

    lazy = cuda.jit(kernel.py_func)
    with emulate():
        increment.compile_device((cuda.float32,))
        lazy[1, 1](ramp(1), ramp(1), 1)
        lazy[1, 1](ramp(1), ramp(1), 1.5)
        assert len(increment.overloads) == 1
        assert len(lazy.overloads) == 2
        with emulate(sanitize=["memory"]):
            assert len(increment.overloads) == 0
        assert len(increment.overloads) == 1
    assert len(increment.overloads) == 0
    assert len(lazy.overloads) == 0
    assert "get_call_template" not in vars(increment)


def test_eager_device_functions_are_compiled_for_each_way_of_compiling():
    with emulate():

        @cuda.jit("float32(float32)", device=True)
        def increment(x):
            return x + 1

        assert len(increment.overloads) == 1
    with emulate(sanitize=["race"]):
        assert len(increment.overloads) == 0
        template, _, _, _ = increment.get_call_template((cuda.float32,), {})
        assert [str(case.return_type) for case in template.cases] == ["float32"]
        assert len(increment.overloads) == 1


def test_a_kernel_declared_under_emulation_is_compiled_for_the_gpu_when_launched_there(monkeypatch):
    built = []

    class Built:
        def __init__(self, function, kinds, **options):
            built.append((function.__name__, tuple(map(str, kinds)), options["fastmath"]))

        def bind(self):
            built.append("bound")

        def launch(self, args, griddim, blockdim, stream, sharedmem):
            built.append((args, griddim))

        regs_per_thread = 17

    with emulate():

        @cuda.jit("void(int32)", fastmath=True)
        def eager(x):
            pass

        with pytest.raises(Unsupported, match="regs_per_thread"):
            _ = next(iter(eager.overloads.values())).regs_per_thread
    assert built == []
    monkeypatch.setattr("numba.cuda.dispatcher._Kernel", Built)
    monkeypatch.setattr(driver, "_to_core_stream", lambda stream: stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager[1, 1](5)
        eager[2, 1](6)
    assert built == [("eager", ("int32",), True), "bound", ((5,), (1, 1, 1)), ((6,), (2, 1, 1))]
    assert eager.get_regs_per_thread() == 17


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.skipif(driver.driver.initialization_error is None, reason="a driver is installed")
def test_a_configuration_kept_past_emulation_is_configured_anew(launches):
    with emulate():
        kept = kernel[3, 4]
    with pytest.raises(Exception, match=r"(?i)cuda|driver"):
        kept(ramp(1), ramp(1), 1)
    with emulate():
        kept(ramp(1), ramp(1), 1)
    assert launches.calls[0][1:3] == ((3, 1, 1), (4, 1, 1))
    assert len(launches.calls) == 1


@pytest.mark.skipif(driver.driver.initialization_error is None, reason="a driver is installed")
def test_without_a_driver_numba_refuses_again_after_emulation():
    with emulate():
        cuda.to_device(ramp(1))
    with pytest.raises(CudaSupportError):
        cuda.to_device(ramp(1))
    assert not cuda.is_available()


def test_the_launch_module_is_imported_by_the_first_launch_only():
    """Importing refkit.cpu must stay cheap: the compiler half is loaded when it is first needed."""
    code = "import sys, refkit.cpu; print('refkit.cpu.launch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- faults ---


def test_faults_name_their_place_and_survive_pickling():
    fault = refkit.cpu.Deadlock(
        "no thread can go on", kernel="k", file="k.py", line=12, threads=(((0, 0, 0), (1, 0, 0), "k.py:12"),)
    )
    assert str(fault) == "no thread can go on (kernel k, k.py:12)"
    assert str(refkit.cpu.NoProgress("too long")) == "too long"
    copy = pickle.loads(pickle.dumps(fault))
    assert type(copy) is refkit.cpu.Deadlock
    assert (copy.message, copy.line, copy.threads, str(copy)) == (fault.message, 12, fault.threads, str(fault))
    raised = refkit.cpu.KernelException(
        "IndexError: 3", exception=IndexError(3), thread=((0, 0, 0), (2, 0, 0)), kernel="k"
    )
    copy = pickle.loads(pickle.dumps(raised))
    assert isinstance(copy.exception, IndexError)
    assert copy.thread == ((0, 0, 0), (2, 0, 0))


def test_what_was_declared_for_a_gpu_before_emulation_is_compiled_again_for_the_cpu(launches):
    """Stands in for a machine with a GPU: the dispatchers hold results compiled earlier and compile no more."""

    @cuda.jit(device=True)
    def increment(x):
        return x + 1

    eager = cuda.jit(kernel.py_func)
    with emulate():
        result = increment.compile_device((cuda.float32,))
    increment.__dict__["overloads"][(cuda.float32,)] = result
    increment.disable_compile()
    eager.__dict__["overloads"][(cuda.float32[:], cuda.float32[:], cuda.float32)] = python_types.SimpleNamespace(
        entry_point=None
    )
    eager.disable_compile()
    with emulate(sanitize=["race"]):
        template, _, _, _ = increment.get_call_template((cuda.float32,), {})
        assert len(template.cases) == len(increment.overloads) == 1
        assert increment.overloads[(cuda.float32,)] is not result
        eager[1, 1](ramp(2), ramp(2), 3)
        assert type(launches.arguments[2]) is np.float32


def test_releases_of_gpu_resources_reach_the_real_driver(monkeypatch):
    released = []
    monkeypatch.setitem(vars(driver.driver), "cuMemFree", released.append)
    monkeypatch.setitem(vars(driver.driver), "cuMemcpyHtoD", released.append)
    with emulate():
        driver.driver.cuMemFree(1234)
        cuda.to_device(ramp(2))
    assert released == [1234]


def test_compiled_device_functions_leave_numbas_tables_with_their_dispatcher():
    def definitions():
        return set(CUDADispatcher.targetdescr.target_context._defns)

    with emulate():
        keep = cuda.jit(device=True)(lambda x: x)
        keep.compile_device((cuda.float32,))
        before = definitions()
        gone = cuda.jit(device=True)(lambda x: x + 1)
        gone.compile_device((cuda.float32,))
        with emulate(sanitize=["race"]):
            gone.compile_device((cuda.float32,))
        assert len(definitions() - before) == 2
    del gone
    gc.collect()
    assert definitions() <= before

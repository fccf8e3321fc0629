"""The lean frontend gives the IR of the full one, instruction by instruction and line by line, and leaves no patch."""

import contextlib
import re

import numpy as np
import pytest
from llvmlite import ir
from numba import cuda, float32, int32
from numba.cuda import types
from numba.cuda.core import compiler_machinery, postproc

from refkit.cpu import emulate, frontend, lean_frontend
from refkit.cpu.debug_lines import Lines
from refkit.cpu.kernel import _without_serial_numbers

THREADS = 32


def sum_of_rows(x, weights, y, count, flag):
    """Loops, shared and local arrays, tuples, branches, atomics and math in one kernel."""
    shared = cuda.shared.array(THREADS, float32)
    local = cuda.local.array(4, float32)
    lane = cuda.threadIdx.x
    total = float32(0)
    for row in range(lane, x.shape[0], THREADS):
        for column in range(x.shape[1]):
            local[column % 4] = x[row, column] * weights[0]
            if flag and column > 2:
                total += local[column % 4] ** 2
            else:
                total -= abs(local[column % 4])
    shared[lane] = total
    cuda.syncthreads()
    if lane == 0:
        for other in range(int32(count)):
            cuda.atomic.add(y, 0, shared[other])


def scale(value, pair):
    """Called with two types of value."""
    return value * pair[0] + pair[1]


def calling(x, y, pair):
    """Calls a device function of another file line."""
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = device_scale(x[i], pair) + device_scale(i, pair)


device_scale = cuda.jit(device=True)(scale)
MATRIX, VECTOR, STRIDED = types.float32[:, ::1], types.float32[::1], types.float32[:]
KERNELS = [
    (sum_of_rows, (MATRIX, VECTOR, STRIDED, types.int64, types.boolean)),
    (calling, (STRIDED, types.float64[:], types.UniTuple(types.float32, 2))),
]


def text_of(function, signature, bounds: bool) -> list[str]:
    """The instructions of all modules, each with its file and line in place of its metadata."""
    with emulate():
        modules = frontend.kernel_ir(function, signature, bounds=bounds).modules
    out = []
    for text in modules:
        lines = Lines(text, "?")
        for line in text.splitlines():
            if line.startswith(("define", "declare", "  ", "@")) and "llvm.dbg" not in line:
                plain = re.sub(r",? !dbg !\d+", "", line)
                plain = re.sub(r"![0-9]+", lambda match, nodes=lines._nodes: nodes[match.group(0)], plain)
                out.append(f"{plain} ; {lines.location(line)}")
    text = re.sub(r"_cudapy_smem_\d+", "_cudapy_smem", _without_serial_numbers("\n".join(out)))
    functions = re.split(r"(?m)^(?=define )", text)
    return [line for function in functions for line in _numbered(function).splitlines()]


def _numbered(function: str) -> str:
    """The values of a function named in the order in which they occur."""
    names: dict[str, str] = {}
    return re.sub(r'%"[^"]*"', lambda match: names.setdefault(match.group(0), f"%{len(names)}"), function)


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize(("function", "signature"), KERNELS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_same_instructions_and_lines_as_the_full_frontend(monkeypatch, function, signature, bounds):
    lean = text_of(function, signature, bounds)
    device_scale.overloads.clear()
    with monkeypatch.context() as patch:
        patch.setattr(frontend, "lean", lambda *flavour: contextlib.nullcontext())
        full = text_of(function, signature, bounds)
    device_scale.overloads.clear()
    assert lean == full
    assert len({line.rsplit(" ; ", 1)[1] for line in lean}) > 4  # lines are recorded at all


def test_nothing_stays_patched():
    before = ir.Type.get_abi_size, compiler_machinery.PassManager._runPass, postproc.PostProcessor.run
    with emulate():
        frontend.kernel_ir(*KERNELS[0])
    assert (ir.Type.get_abi_size, compiler_machinery.PassManager._runPass, postproc.PostProcessor.run) == before


def test_sizes_of_named_structures_are_asked_anew():
    asked = []
    size = lean_frontend._sized(lambda kind, data: asked.append(str(kind)) or len(asked))
    named = ir.Context().get_identified_type("pair")
    for kind in (ir.IntType(32), ir.IntType(32), named, named):
        size(kind, "data")
    assert asked == ["i32", str(named), str(named)]


@pytest.mark.cpu
def test_an_overload_registered_between_two_compilations_is_seen():
    from numba.cuda.extending import overload

    def twice(value):
        raise NotImplementedError

    @cuda.jit
    def before(y):
        y[0] = 1.0

    @cuda.jit
    def after(y):
        y[0] = twice(y[0])

    with emulate():
        y = cuda.to_device(np.zeros(1, np.float32))
        before[1, 1](y)

        @overload(twice, target="cuda")
        def twice_of(value):
            return lambda value: value * 2

        after[1, 1](y)
        assert y.copy_to_host()[0] == 2.0


def test_a_typing_error_reads_as_from_the_full_frontend(monkeypatch):
    def wrong(x):
        x[0] = "text" + 1

    messages = []
    for manager in (lean_frontend.lean, lambda *flavour: contextlib.nullcontext()):
        monkeypatch.setattr(frontend, "lean", manager)
        with emulate(), pytest.raises(Exception, match="No implementation of function") as caught:
            frontend.kernel_ir(wrong, (VECTOR,))
        messages.append(str(caught.value).split())  # each failure indents the next
    assert messages[0] == messages[1]

"""Functions of each element by itself: kernels made of a device function on float32, and how they are launched.

elementwise:  one thread per element, any strides in one or two axes.
vectorised:   one thread per 128 bits (four float32, eight of a 16-bit format) of contiguous arrays of one dtype that
              begin at a multiple of 16 bytes; the last thread takes what is left one by one. Arrays that are laid out
              otherwise go to the elementwise kernel. Both evaluate the same function; a compiler may fuse its
              multiplications and additions differently in the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numba import cuda, float32
from numba.cuda.cudadrv import devicearray

from .launch import ArrayArgument, ceil_div, launcher
from .primitives.vector import load4, load8, store4, store8

VECTOR_BYTES = 16

Function = TypeVar("Function", bound=Callable[..., Any])

# ----------------------------------------------------------------------------------------------------- declaration


def pointwise_launcher(in_place: Any = (), **arrays: Any) -> Callable[[Function], Function]:
    """`launcher` for arrays of one common shape, (M, N) or (N,): the first array passed says which.

    `arrays` gives `read`, `write` or `update` (perhaps with its dtypes bound) for each array of the common shape, and a
    whole declaration, `add_into(1)`, for any other.
    """

    def declared(*dims: str) -> dict[str, ArrayArgument]:
        return {
            name: declare if isinstance(declare, ArrayArgument) else declare(*dims) for name, declare in arrays.items()
        }

    def decorate(function: Function) -> Function:
        one_axis = launcher(in_place, **declared("N"))(function)
        two_axes = launcher(in_place, **declared("M", "N"))(function)

        @functools.wraps(function)
        def launch(*args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else next((kwargs[name] for name in arrays if name in kwargs), None)
            chosen = one_axis if len(getattr(first, "shape", ())) == 1 else two_axes
            return chosen(*args, **kwargs)

        launch.arrays = two_axes.arrays  # type: ignore[attr-defined]
        launch.in_place = two_axes.in_place  # type: ignore[attr-defined]
        return launch  # type: ignore[return-value]

    return decorate


# ------------------------------------------------------------------------------------------------------------ views


def _view(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    numba_array: Any = getattr(devicearray, "DeviceNDArray", None)
    if numba_array is None or not isinstance(array, numba_array):
        return array.reshape(shape)  # Numba's simulator, where it is a view
    return type(array)(shape, strides, array.dtype, stream=array.stream, gpu_data=array.gpu_data)


def as_rows(array: Any) -> Any:
    """A device array of one axis as one row; of two axes as it is; no element is copied."""
    if len(array.shape) == 2:
        return array
    (length,), (stride,) = array.shape, array.strides
    return _view(array, (1, length), (max(1, length) * stride, stride))


def as_flat(array: Any) -> Any:
    """A contiguous device array as one axis; no element is copied."""
    return array if len(array.shape) == 1 else _view(array, (array.size,), (array.dtype.itemsize,))


def in_vectors(*arrays: Any) -> bool:
    """Whether 128 bits at a time can be moved: all contiguous, and at addresses that are multiples of 16."""
    return all(
        array.is_c_contiguous() and (array.device_ctypes_pointer.value or 0) % VECTOR_BYTES == 0 for array in arrays
    )


# ---------------------------------------------------------------------------------------------------------- kernels


@functools.cache
def elementwise_kernel(function: Callable[..., Any], inputs: int) -> Any:
    """The kernel of out (M, N) = function(a) or function(a, b), one thread per element."""
    if inputs == 1:

        @cuda.jit
        def unary_kernel(a, out):
            element = cuda.grid(1)
            if element < out.shape[0] * out.shape[1]:
                row, column = element // out.shape[1], element % out.shape[1]
                out[row, column] = function(float32(a[row, column]))

        return unary_kernel

    @cuda.jit
    def binary_kernel(a, b, out):
        element = cuda.grid(1)
        if element < out.shape[0] * out.shape[1]:
            row, column = element // out.shape[1], element % out.shape[1]
            out[row, column] = function(float32(a[row, column]), float32(b[row, column]))

    return binary_kernel


@functools.cache
def vectorised_kernel(function: Callable[..., Any], inputs: int, width: int) -> Any:
    """The kernel of out (N,) = function(a) or function(a, b), one thread for `width` elements (4 or 8)."""
    load, store = (load4, store4) if width == 4 else (load8, store8)
    apply = _applied(function, inputs, width)
    if inputs == 1:

        @cuda.jit
        def unary_vector_kernel(a, out):
            first = cuda.grid(1) * width
            if first + width <= out.shape[0]:
                store(out, first, apply(load(a, first)))
            else:
                for i in range(first, out.shape[0]):
                    out[i] = function(float32(a[i]))

        return unary_vector_kernel

    @cuda.jit
    def binary_vector_kernel(a, b, out):
        first = cuda.grid(1) * width
        if first + width <= out.shape[0]:
            store(out, first, apply(load(a, first), load(b, first)))
        else:
            for i in range(first, out.shape[0]):
                out[i] = function(float32(a[i]), float32(b[i]))

    return binary_vector_kernel


def _applied(f: Callable[..., Any], inputs: int, width: int) -> Any:
    """The device function that applies `f` to each of the 4 or 8 elements of one or two tuples."""
    if inputs == 1 and width == 4:
        return cuda.jit(device=True)(lambda a: (f(a[0]), f(a[1]), f(a[2]), f(a[3])))
    if inputs == 1:
        return cuda.jit(device=True)(lambda a: (f(a[0]), f(a[1]), f(a[2]), f(a[3]), f(a[4]), f(a[5]), f(a[6]), f(a[7])))
    if width == 4:
        return cuda.jit(device=True)(lambda a, b: (f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])))
    return cuda.jit(device=True)(
        lambda a, b: (
            f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3]),
            f(a[4], b[4]), f(a[5], b[5]), f(a[6], b[6]), f(a[7], b[7]),
        )
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------------- launches


def launch_elementwise(function: Callable[..., Any], inputs: Sequence[Any], out: Any, block: int, stream: Any) -> None:
    """out = function(*inputs), element by element; one or two inputs of the shape of `out`."""
    if out.size:
        kernel = elementwise_kernel(function, len(inputs))
        kernel[ceil_div(out.size, block), block, stream](*map(as_rows, inputs), as_rows(out))


def launch_vectorised(function: Callable[..., Any], inputs: Sequence[Any], out: Any, block: int, stream: Any) -> None:
    """As `launch_elementwise`, 128 bits at a time where the arrays are laid out for it."""
    if not out.size:
        return
    if any(array.dtype != out.dtype for array in inputs) or not in_vectors(*inputs, out):
        launch_elementwise(function, inputs, out, block, stream)
        return
    width = VECTOR_BYTES // out.dtype.itemsize
    blocks = ceil_div(ceil_div(out.size, width), block)
    vectorised_kernel(function, len(inputs), width)[blocks, block, stream](*map(as_flat, inputs), as_flat(out))

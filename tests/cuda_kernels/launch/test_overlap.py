import itertools

import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.launch import FLOAT32, add_into, launcher, overlap, read, write

pytestmark = pytest.mark.cpu


@launcher(x=read("T", "C"), y=write("T", "C"), in_place=("x", "y"))
def in_place(x, y, *, stream=None):
    return True


@launcher(x=read("T", "C"), y=write("T", "C"))
def apart(x, y, *, stream=None):
    return True


@launcher(x=read("T", "C"), w=read("T", "C"), dx=add_into("T", "C"), dw=add_into("T", "C"))
def backward(x, w, dx, dw, *, stream=None):
    return True


def buffer(*shape):
    return cuda.device_array(shape, np.float32)


def overlapping(launch, *arrays, match):
    with pytest.raises(ValueError, match=match):
        launch(*arrays)


def test_an_output_may_not_be_an_input():
    x = buffer(4, 3)
    overlapping(
        apart, x, x, match=r"^apart: y overlaps x \(both hold memory at 0x[0-9a-f]+\); expected them to share no"
    )


def test_two_outputs_may_not_share_memory():
    x, dx = buffer(4, 3), buffer(4, 3)
    overlapping(backward, x, x, dx, dx, match="^backward: dx overlaps dw")


def test_inputs_may_be_one_array():
    x = buffer(4, 3)
    assert backward(x, x, buffer(4, 3), buffer(4, 3))


def test_a_pair_may_be_the_very_same_array_if_the_launcher_says_so():
    x = buffer(4, 3)
    assert in_place(x, x)
    assert in_place(x, x[:, :])


def test_a_pair_may_not_overlap_in_another_way():
    x = buffer(5, 3)
    overlapping(
        in_place, x[1:], x[:4], match="in_place: y overlaps x .* expected them to be the very same array or share no"
    )
    square = buffer(3, 3)
    flipped = type(square)((3, 3), square.strides[::-1], square.dtype, gpu_data=square.gpu_data)
    overlapping(in_place, square, flipped, match="in_place: y overlaps x")
    whole = buffer(4, 3)
    narrow = type(whole)((4, 3), whole.strides, np.dtype(np.float16), gpu_data=whole.gpu_data)
    overlapping(in_place, whole, narrow, match="in_place: y overlaps x")


def test_neighbours_in_one_buffer_share_nothing():
    whole = buffer(8, 3)
    assert apart(whole[:4], whole[4:])
    overlapping(apart, whole[:4], whole[3:7], match="y overlaps x")


def test_interleaved_views_of_one_packed_buffer_share_nothing():
    packed = buffer(2, 5, 12)  # (B, T, 3C)

    @launcher(**{name: write("B", "T", "C") for name in ("dq", "dk", "dv")})
    def attention(dq, dk, dv, *, stream=None):
        return True

    parts = [packed[:, :, first : first + 4] for first in (0, 4, 8)]
    assert attention(*parts)
    overlapping(attention, *parts[:2], packed[:, :, 7:11], match="dk overlaps dv")
    assert apart(packed.reshape(10, 12)[:, 0:12:2], packed.reshape(10, 12)[:, 1:12:2])
    overlapping(apart, packed.reshape(10, 12)[:, 0:12:2], packed.reshape(10, 12)[:, 2:8], match="y overlaps x")


def test_an_output_whose_elements_share_memory_is_refused_and_such_an_input_is_not():
    row = buffer(1, 3)
    repeated = type(row)((4, 3), (0, 4), row.dtype, gpu_data=row.gpu_data)
    assert apart(repeated, buffer(4, 3))
    overlapping(
        apart, buffer(4, 3), repeated, match=r"y has shape \(4, 3\) and strides \(0, 4\), so that elements share"
    )
    window = buffer(1, 10)
    sliding = type(row)((4, 3), (4, 4), row.dtype, gpu_data=window.gpu_data)
    overlapping(apart, buffer(4, 3), sliding, match=r"strides \(4, 4\), so that elements share memory")


def test_arrays_without_elements_overlap_nothing():
    x = buffer(4, 3)
    assert apart(x[:0], x[:0])


def test_negative_strides():
    whole = buffer(8, 3)
    assert apart(whole[3::-1], whole[4:])
    overlapping(apart, whole[4::-1][:4], whole[4:], match="y overlaps x")


def placed(name, start, shape, strides, written, dtype=FLOAT32):
    array = type("Array", (), {"shape": shape, "strides": strides, "dtype": np.dtype(dtype)})()
    array.device_ctypes_pointer = type("Pointer", (), {"value": start})()
    return overlap.extent_of(name, array, written)


def bytes_of(extent):
    array = extent.array
    return {
        extent.start + sum(i * s for i, s in zip(index, array.strides)) + byte
        for index in itertools.product(*map(range, array.shape))
        for byte in range(4)
    }


def test_the_answer_is_exact_for_any_addresses_and_strides_and_memory_is_not_touched():
    rng = np.random.default_rng(7)
    found = {True: 0, False: 0}
    for _ in range(300):
        shape = tuple(rng.integers(1, 5, 2).tolist())
        inner = int(rng.integers(1, 4)) * 4 * int(rng.choice([-1, 1]))
        outer = abs(inner) * shape[1] + 4 * int(rng.integers(0, 4))
        output = placed("y", 4 * int(rng.integers(30, 60)), shape, (outer, inner), True)
        other_strides = tuple((4 * rng.integers(-6, 7, 2)).tolist())
        other = placed("x", 4 * int(rng.integers(30, 60)), tuple(rng.integers(1, 5, 2).tolist()), other_strides, False)
        shared = bool(bytes_of(output) & bytes_of(other))
        found[shared] += 1
        if shared:
            with pytest.raises(ValueError, match="y overlaps x"):
                overlap.check_overlaps("launch", [output, other], frozenset())
        else:
            overlap.check_overlaps("launch", [output, other], frozenset())
    assert min(found.values()) > 50


def test_every_byte_of_an_element_counts():
    y = placed("y", 4096, (4,), (8,), True)
    inside, between = (placed("x", start, (4,), (8,), False, np.float16) for start in (4098, 4100))
    overlap.check_overlaps("launch", [y, between], frozenset())
    with pytest.raises(ValueError, match="y overlaps x"):
        overlap.check_overlaps("launch", [y, inside], frozenset())


def test_a_pair_of_different_shapes_is_not_the_very_same_array():
    pair = frozenset({frozenset({"x", "y"})})
    y, x, shorter = (placed(name, 4096, (n,), (4,), name == "y") for name, n in (("y", 4), ("x", 4), ("x", 3)))
    overlap.check_overlaps("launch", [y, x], pair)
    with pytest.raises(ValueError, match="the very same array or share no element"):
        overlap.check_overlaps("launch", [y, shorter], pair)


def test_what_cannot_be_decided_in_time_counts_as_overlap(monkeypatch):
    packed = buffer(2, 5, 12)
    assert apart(packed.reshape(10, 12)[:, :6], packed.reshape(10, 12)[:, 6:])
    monkeypatch.setattr(overlap, "MAX_WORK", 1)
    hard = [
        placed("y", 4096, (7, 9, 11), (4 * 1000, 4 * 90, 8), True),
        placed("x", 4100, (8, 9, 13), (4 * 900, 4 * 77, 12), False),
    ]
    with pytest.raises(ValueError, match="y overlaps x"):
        overlap.check_overlaps("launch", hard, frozenset())

"""Integer intrinsics against Python's integers."""

import numpy as np
import pytest

from refkit.cpu.device_library import definitions
from tests.cpu.device_library.jit import vectorised


def signed(x, bits):
    x &= 2**bits - 1
    return x - 2**bits if x >> (bits - 1) else x


def byte_perm(x, y, selector):
    both, result = (y << 32) | x, 0
    for place in range(4):
        result |= (both >> 8 * (selector >> 4 * place & 7) & 255) << 8 * place
    return result


def low24(x, is_signed):
    return signed(x, 24) if is_signed else x & 0xFFFFFF


CASES = {
    "mulhi": (32, True, lambda x, y: x * y >> 32),
    "umulhi": (32, False, lambda x, y: x * y >> 32),
    "mul64hi": (64, True, lambda x, y: x * y >> 64),
    "umul64hi": (64, False, lambda x, y: x * y >> 64),
    "mul24": (32, True, lambda x, y: low24(x, True) * low24(y, True)),
    "umul24": (32, False, lambda x, y: low24(x, False) * low24(y, False)),
    "sad": (32, True, lambda x, y, z: abs(x - y) + z),
    "usad": (32, False, lambda x, y, z: abs(x - y) + z),
    "hadd": (32, True, lambda x, y: x + y >> 1),
    "uhadd": (32, False, lambda x, y: x + y >> 1),
    "rhadd": (32, True, lambda x, y: x + y + 1 >> 1),
    "urhadd": (32, False, lambda x, y: x + y + 1 >> 1),
    "min": (32, True, min),
    "umax": (32, False, max),
    "llmin": (64, True, min),
    "ullmax": (64, False, max),
    "abs": (32, True, abs),
    "llabs": (64, True, abs),
    "byte_perm": (32, False, byte_perm),
    "brev": (32, False, lambda x: int(f"{x:032b}"[::-1], 2)),
    "brevll": (64, False, lambda x: int(f"{x:064b}"[::-1], 2)),
    "clz": (32, False, lambda x: 32 - x.bit_length()),
    "clzll": (64, False, lambda x: 64 - x.bit_length()),
    "popc": (32, False, lambda x: x.bit_count()),
    "popcll": (64, False, lambda x: x.bit_count()),
    "ffs": (32, False, lambda x: (x & -x).bit_length()),
    "ffsll": (64, False, lambda x: (x & -x).bit_length()),
}


@pytest.mark.parametrize("name", CASES)
def test_integer_intrinsic(name):
    bits, is_signed, expected = CASES[name]
    count = expected.__code__.co_argcount if hasattr(expected, "__code__") else 1 if expected is abs else 2
    symbol = f"__nv_{name}"
    narrow = bits == 64 and name in ("clzll", "popcll", "ffsll")
    result = 32 if narrow else bits
    run = vectorised(definitions([symbol]), symbol, f"u{result // 8}", [f"u{bits // 8}"] * count)
    rng = np.random.default_rng(1)
    arrays = [
        rng.integers(0, 2**bits, 300, dtype=f"u{bits // 8}") >> rng.integers(0, bits, 300, dtype="u1")
        for _ in range(count)
    ]
    for array, edges in zip(
        arrays, ([0, 1, 2**bits - 1, 2 ** (bits - 1)], [2 ** (bits - 1), 0, 1, 2**bits - 1], [0, 1, 2, 3])
    ):
        array[:4] = np.array(edges, array.dtype)
    for got, *operands in zip(run(*arrays), *arrays):
        values = [signed(int(v), bits) if is_signed else int(v) for v in operands]
        assert int(got) == expected(*values) % 2**result, values

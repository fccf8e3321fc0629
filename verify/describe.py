"""A kernel's precision and a case, in a few words for people."""

from __future__ import annotations

from refkit.verify.arguments import storage_dtype
from refkit.verify.case import Case
from refkit.verify.spec import KernelSpec


def precision_label(spec: KernelSpec) -> str:
    """The kernel's precision in a word or two: `float32`, `bfloat16 -> float32`, with `fast math` where it is on."""
    stored = dict.fromkeys(argument.dtype for argument in spec.arrays.values() if argument.is_float)
    narrowest = min(stored, key=storage_bits, default=spec.precision.multiply)
    steps = dict.fromkeys((narrowest, spec.precision.multiply, spec.precision.accumulate))
    if narrowest != spec.precision.multiply == spec.precision.accumulate:
        steps = dict.fromkeys((narrowest, spec.precision.accumulate))
    return " -> ".join(steps) + (", fast math" if spec.precision.fast_math else "")


def storage_bits(dtype: str) -> int:
    """The size of a storage format in bits."""
    return 8 * storage_dtype(dtype).itemsize


def describe_case(case: Case) -> str:
    """A case in one line: `R=1 C=7, block=64, x strided, mixture, seed 3`."""
    parts = [" ".join(f"{name}={size}" for name, size in case.dims.items())]
    parts += [f"{name}={value}" for name, value in case.config.items()]
    parts += [f"{name} {layout}" for name, layout in case.layouts.items()]
    parts += [
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in case.scalars.items()
    ]
    parts += [f"without {name}" for name in case.absent]
    return ", ".join([part for part in parts if part] + [f"{case.values} values", f"seed {case.seed}"])

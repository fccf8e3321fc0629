"""One launch of one case: arrays placed between guard bands, outputs poisoned, everything downloaded and looked at.

A trial starts from fresh memory every time, so that inputs, outputs and `InOut` arrays are restored between two
launches of a case. The first launch counts: nothing is warmed up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from refkit.verify.arguments import ArrayArgument
from refkit.verify.backends import Backend, LaunchFault
from refkit.verify.case import Case
from refkit.verify.inputs import Inputs, argument_rng
from refkit.verify.slabs import POISONS, GuardViolations, Slab, aligned_bytes
from refkit.verify.spec import KernelSpec

MODERATE = "moderate"
"""A third poison, an ordinary number: a sum with it shows, where one with a NaN or an enormous number would not."""
MODERATE_VALUE = 3.0
PACKED = ("contiguous", "offset")
"""The layouts whose arrays are C-contiguous."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What one launch left behind.

    `outputs`: by name, in storage format. `unwritten`: for each `Out`, the elements that still hold their poison to
    the bit. `guards`: changed guard bytes by argument, only where there are any. `changed`: inputs that were written
    to, each with the index of the first changed element. `fault` is set, and the rest empty, where the launch failed.
    """

    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    unwritten: Mapping[str, np.ndarray] = field(default_factory=dict)
    guards: Mapping[str, GuardViolations] = field(default_factory=dict)
    changed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fault: LaunchFault | None = None
    poison: str = "nan"

    def same_bits(self, other: Trial) -> str:
        """The first output whose bits differ between two trials, with the index; empty where all agree."""
        for name, mine in self.outputs.items():
            differ = bits_differ(mine, other.outputs[name])
            if differ.any():
                index = tuple(int(i) for i in np.argwhere(differ)[0])
                return f"{name}[{', '.join(map(str, index))}]" if index else name
        return ""


def bits_differ(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """True for each element whose bytes differ; two arrays of one shape and dtype."""
    size = left.dtype.itemsize
    return np.any(
        np.ascontiguousarray(left).view(np.uint8).reshape(*left.shape, size)
        != np.ascontiguousarray(right).view(np.uint8).reshape(*right.shape, size),
        axis=-1,
    )


def place_inputs(spec: KernelSpec, case: Case, inputs: Inputs) -> dict[str, Slab]:
    """A slab for each array that has a value before the launch, in the case's layout."""
    slabs = {}
    for name, array in inputs.arrays.items():
        if array is not None:
            slab = Slab.place(array, case.layout(name), argument_rng(case, name, "layout"))
            slabs[name] = with_number_guards(slab) if spec.arrays[name].is_output else slab
    return slabs


_NUMBERS = {8: 1234.5678, 4: 1234.5678}
_SMALL_NUMBERS = {"float16": 0x64D3, "bfloat16": 0x449A}


def with_number_guards(slab: Slab) -> Slab:
    """The same slab with ordinary numbers for guards instead of NaN: what an output needs.

    A NaN swallows whatever is added to it, and the product of an input's guard is that same NaN again, so that either
    write would leave no trace. Formats of one byte keep their guards.
    """
    size = slab.dtype.itemsize
    if slab.dtype.kind in "iub" or size == 1:
        return slab
    bits = _SMALL_NUMBERS.get(slab.dtype.name)
    item = np.array([bits], np.uint16) if bits is not None else np.array([_NUMBERS[size]], slab.dtype)
    image = aligned_bytes(slab.nbytes)
    image.reshape(-1, size)[...] = item.view(np.uint8)
    guarded = replace(slab, image=image)
    elements = np.ndarray(slab.shape, slab.dtype, buffer=image, offset=slab.offset, strides=slab.strides)
    elements.view(np.ndarray)[...] = slab.elements(slab.image)
    return guarded


def poisoned_outputs(spec: KernelSpec, case: Case, inputs: Inputs, poison: str) -> dict[str, Slab]:
    """A slab full of `poison` (`nan`, `large` or `moderate`) for each pure output, in the case's layout."""
    slabs = {}
    for name, shape in inputs.output_shapes.items():
        if spec.arrays[name].given:
            continue
        storage, layout, rng = spec.arrays[name].storage, case.layout(name), argument_rng(case, name, "layout")
        if poison in POISONS:
            slabs[name] = Slab.poisoned(shape, storage, layout, poison, rng)
        else:
            slabs[name] = Slab.place(np.full(shape, MODERATE_VALUE).astype(storage), layout, rng)
        slabs[name] = with_number_guards(slabs[name])
    return slabs


def run_trial(
    spec: KernelSpec,
    case: Case,
    inputs: Inputs,
    slabs: Mapping[str, Slab],
    backend: Backend,
    *,
    poison: str = "nan",
    schedule: int | None = None,
) -> Trial:
    """Launch once and report; `slabs` are those of `place_inputs`. A launch fault is part of the report, not raised."""
    slabs = {**slabs, **poisoned_outputs(spec, case, inputs, poison)}
    strided = any(layout not in PACKED for layout in case.layouts.values())
    launch = partial(_launched, spec, case, inputs, slabs, backend, schedule)
    trial = launch(any_strides=strided or backend.few_signatures)
    if not strided and backend.few_signatures and trial.fault is not None and trial.fault.kind == "compile":
        backend.few_signatures = False  # what the kernel does to a contiguous array may not be done to any
        trial = launch(any_strides=False)
    return replace(trial, poison=poison)


def _launched(
    spec: KernelSpec,
    case: Case,
    inputs: Inputs,
    slabs: Mapping[str, Slab],
    backend: Backend,
    schedule: int | None,
    *,
    any_strides: bool,
) -> Trial:
    try:
        handles = {
            name: backend.upload(slab, any_strides=any_strides and _may_have_strides(spec, name))
            for name, slab in slabs.items()
        }
        arguments: dict[str, Any] = dict.fromkeys(case.absent)
        arguments |= inputs.scalars
        arguments |= {name: handle.array for name, handle in handles.items()}
        backend.launch(lambda: spec.call(arguments, case.config), schedule=schedule)
        images = {name: backend.download(handle) for name, handle in handles.items()}
    except LaunchFault as fault:
        return Trial(fault=fault)
    return _looked_at(spec, slabs, images)


def _may_have_strides(spec: KernelSpec, name: str) -> bool:
    """True where some case gives this argument other strides; all others keep the contiguous type, as in production."""
    return any(layout not in PACKED for layout in spec.layouts_of(name))


def _looked_at(spec: KernelSpec, slabs: Mapping[str, Slab], images: Mapping[str, np.ndarray]) -> Trial:
    outputs, unwritten, guards, changed = {}, {}, {}, {}
    for name, slab in slabs.items():
        image, argument = images[name], spec.arrays[name]
        violations = slab.guard_violations(image)
        if violations:
            guards[name] = violations
        if argument.is_output:
            outputs[name] = np.array(slab.elements(image))
            if not argument.given:
                unwritten[name] = slab.unwritten(image)
        else:
            kept = slab.unwritten(image)
            if not kept.all():
                changed[name] = tuple(int(i) for i in np.argwhere(~kept)[0])
    return Trial({name: outputs[name] for name in spec.outputs}, unwritten, guards, changed)


def element_name(argument: ArrayArgument, name: str, index: tuple[int, ...]) -> str:
    """`x[2, 3]`, or `x` for an array without dimensions."""
    return f"{name}[{', '.join(map(str, index))}]" if argument.dims else name

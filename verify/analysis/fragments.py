"""Which warp-matrix instructions a kernel contains, and who holds what in their fragments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refkit.cpu.frontend import kernel_ir
from refkit.cpu.memory_model.tracing import TracedLaunch
from refkit.cuda_kernels.layouts import MMA_LAYOUTS

_MMA = re.compile(r"mma\.sync\.aligned\.(m\d+n\d+k\d+)\.row\.col((?:\.satfinite)?)((?:\.\w+){4})")
"""Shape, modifier, and the types of D, A, B and C."""


@dataclass(frozen=True)
class FragmentUse:
    """One operand of an instruction: `map` is the layout in text, as `probe --json` writes it."""

    name: str
    operand: str
    map: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return {"name": self.name, "operand": self.operand, "map": list(self.map)}


def instructions_in(ir: str) -> list[str]:
    """The `mma.sync` forms in IR or PTX text, named as `cuda_kernels.layouts` names them, in order of appearance."""
    found = []
    for shape, modifier, types in _MMA.findall(ir):
        operands = types[1:].split(".")
        found += [
            each.name
            for each in MMA_LAYOUTS
            if each.name.split(".")[1] == shape
            and (each.c_type, each.a_type, each.b_type) == tuple(operands[:3])
            and each.name.endswith(".satfinite") == bool(modifier)
        ]
    return list(dict.fromkeys(found))


def fragments_of(launches: Sequence[TracedLaunch]) -> tuple[FragmentUse, ...]:
    """The fragments of every instruction in the launched kernels, A, B and C of each."""
    layouts = {each.name: each for each in MMA_LAYOUTS}
    kernels = {(launch.dispatcher.py_func, launch.argument_types) for launch in launches}
    names = dict.fromkeys(
        name
        for function, argument_types in kernels
        for module in kernel_ir(function, argument_types).modules
        for name in instructions_in(module)
    )
    return tuple(
        FragmentUse(name, letter, tuple(fragment.to_text()))
        for name in sorted(names)
        for letter, fragment in zip("ABC", (layouts[name].a, layouts[name].b, layouts[name].c))
    )

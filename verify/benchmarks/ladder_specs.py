"""What `analyze` takes to look at the rungs of the ladder: each with the tiles that `bench ladder` measures.

python -m refkit.verify analyze refkit.verify.benchmarks.ladder_specs --arch 90
"""

from __future__ import annotations

import importlib

from refkit.reference.matmul import matmul
from refkit.verify import Dim, In, KernelSpec, Out, Precision
from refkit.verify.benchmarks.ladder import RUNGS, Rung

# Whole tiles of every rung.
M, K, N = Dim("M", min=128, multiple_of=128), Dim("K", min=128, multiple_of=128), Dim("N", min=256, multiple_of=256)
ARRAYS = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16"}
NEEDS = {"matmul_mma": "sm_80", "matmul_wgmma": "sm_90a"}
MULTIPLIED = {"fp32": "float32", "tf32": "tf32", "bf16": "bfloat16"}


def spec_of(rung: Rung) -> KernelSpec:
    """The rung's promise, with its own tiles as the only configuration."""
    dtype = ARRAYS[rung.precision]
    return KernelSpec(
        operator="matmul",
        launch=getattr(importlib.import_module(f"refkit.cuda_kernels.{rung.module}"), rung.launcher),
        reference=matmul,
        args={"a": In(M, K, dtype=dtype), "b": In(K, N, dtype=dtype), "c": Out(M, N, dtype=dtype)},
        configs={name: [value] for name, value in rung.tiles.items()},
        precision=Precision(multiply=MULTIPLIED[rung.precision]),
        layouts=("contiguous",),
        needs=NEEDS.get(rung.module, ""),
    )


globals().update({f"{rung.launcher}_{rung.precision}_spec": spec_of(rung) for rung in RUNGS})

"""GPUs as data: peak or measured rates, bandwidth, multiprocessors, each with where the figure comes from.

Rates are dense (no 2:4 sparsity) and accumulate in float32. A data sheet gives what no kernel reaches; a device whose
name ends in `-measured` gives what NVIDIA's own libraries reached on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from refkit.planner.occupancy import Multiprocessor, multiprocessor

TERA = 1e12
GIGA = 1e9
GIB = 2**30


@dataclass(frozen=True)
class Format:
    """How matrices are stored: bytes of an element, and of an element that a product writes."""

    name: str
    element_bytes: int
    result_bytes: int
    about: str = ""


FORMATS = {
    each.name: each
    for each in (
        Format("float32", 4, 4),
        Format("tf32", 4, 4, "float32 in memory, multiplied by the tensor cores"),
        Format("bfloat16", 2, 2),
        Format("float16", 2, 2),
        Format("float8", 1, 2, "e4m3 or e5m2 operands; results are written in 16 bits"),
    )
}


@dataclass(frozen=True)
class Device:
    """A GPU. tflops: 10^12 operations per second by format. bandwidth: 10^9 bytes per second. memory_gb: 2^30 bytes."""

    name: str
    title: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    bandwidth: float
    memory_gb: int
    tflops: Mapping[str, float]
    source: str
    measured: bool = False

    @property
    def multiprocessor(self) -> Multiprocessor:
        """What one of its SMs holds."""
        return multiprocessor(self.compute_capability)


def _rates(
    float32: float, tf32: float = 0, half: float = 0, float8: float = 0, bfloat16: bool = True
) -> dict[str, float]:
    """Rates by format; those that are 0 are left out."""
    rates = {"float32": float32, "tf32": tf32, "bfloat16": half if bfloat16 else 0, "float16": half, "float8": float8}
    return {name: rate for name, rate in rates.items() if rate}


_HOPPER = _rates(66.9, 494.7, 989.4, 1978.9)

DEVICES = {
    each.name: each
    for each in (
        Device(
            "h200-measured",
            "H200 SXM, as measured",
            (9, 0),
            132,
            4230,
            141,
            _rates(50.7, 370, 789, 1329),
            "measured on one H200 at 1,980 MHz, driver 580.159: cuBLAS GEMMs of 4096³ and 8192³ on normal random"
            " values, the better of the two (bfloat16 stands for float16 too), and a device copy of 4 GiB",
            measured=True,
        ),
        Device("h200", "H200 SXM", (9, 0), 132, 4800, 141, _HOPPER, "NVIDIA H200 data sheet; H100 architecture paper"),
        Device("h100", "H100 SXM", (9, 0), 132, 3350, 80, _HOPPER, "NVIDIA H100 data sheet and architecture paper"),
        Device(
            "b200",
            "B200 (HGX)",
            (10, 0),
            148,
            7700,
            180,
            _rates(75, 1100, 2250, 4500),
            "NVIDIA HGX B200 data sheet, sparse figures halved; 148 SMs as the driver reports",
        ),
        Device("a100", "A100 SXM 80 GB", (8, 0), 108, 2039, 80, _rates(19.5, 156, 312), "NVIDIA A100 80 GB data sheet"),
        Device(
            "l40s",
            "L40S",
            (8, 9),
            142,
            864,
            48,
            _rates(91.6, 183, 362.05, 733),
            "NVIDIA L40S data sheet",
        ),
        Device(
            "l4", "L4", (8, 9), 58, 300, 24, _rates(30.3, 60, 121, 242.5), "NVIDIA L4 data sheet, sparse figures halved"
        ),
        Device("t4", "T4", (7, 5), 40, 320, 16, _rates(8.1, half=65, bfloat16=False), "NVIDIA T4 data sheet"),
        Device(
            "rtx5090",
            "GeForce RTX 5090",
            (12, 0),
            170,
            1792,
            32,
            _rates(104.8, 104.8, 209.5, 419),
            "NVIDIA RTX Blackwell architecture paper",
        ),
        Device(
            "rtx4090",
            "GeForce RTX 4090",
            (8, 9),
            128,
            1008,
            24,
            _rates(82.6, 82.6, 165.2, 330.3),
            "NVIDIA Ada architecture paper",
        ),
        Device(
            "rtx4070-laptop",
            "GeForce RTX 4070 Laptop at 1.2 GHz",
            (8, 9),
            36,
            256,
            8,
            _rates(11.1, 11.1, 22.1, 44.2),
            "36 SMs × 128 lanes × 2 operations × 1.2 GHz, a clock that its power limit of 55 W holds; tensor cores with"
            " the RTX 4090's operations per SM and clock",
        ),
        Device(
            "rtx3090",
            "GeForce RTX 3090",
            (8, 6),
            82,
            936,
            24,
            _rates(35.6, 35.6, 71),
            "NVIDIA GA102 architecture paper",
        ),
    )
}
DEFAULT_DEVICE = "h200-measured"


def device(name: str) -> Device:
    """The device of that name; ValueError that names those known."""
    try:
        return DEVICES[name.lower()]
    except KeyError:
        raise ValueError(f"device {name!r} is not known; known are {', '.join(DEVICES)}") from None


def machine(
    chosen: Device, dtype: str, *, tflops: float | None = None, bandwidth: float | None = None
) -> dict[str, float]:
    """The inputs of a sheet that device and format give (`sheet.MACHINE`).

    tflops, bandwidth: in 10^12 operations and 10^9 bytes per second, in place of the device's own figures. Raises
    ValueError where the format is unknown, or where its rate on this device is and none is given.
    """
    if dtype not in FORMATS:
        raise ValueError(f"dtype {dtype!r} is not known; known are {', '.join(FORMATS)}")
    if tflops is None and dtype not in chosen.tflops:
        has = ", ".join(chosen.tflops)
        raise ValueError(f"{chosen.name} has no rate for {dtype} (it has {has}); give one with --tflops")
    sm, stored = chosen.multiprocessor, FORMATS[dtype]
    return {
        "rate": (chosen.tflops[dtype] if tflops is None else tflops) * TERA,
        "vector_rate": chosen.tflops["float32"] * TERA,
        "bandwidth": (chosen.bandwidth if bandwidth is None else bandwidth) * GIGA,
        "SMs": chosen.multiprocessors,
        "memory": chosen.memory_gb * GIB,
        "element": stored.element_bytes,
        "result": stored.result_bytes,
        "sm_warps": sm.warps,
        "sm_blocks": sm.blocks,
        "sm_shared": sm.shared_bytes,
        "block_shared": sm.shared_bytes_per_block,
        "shared_unit": sm.shared_unit,
        "shared_reserved": sm.reserved_bytes,
    }

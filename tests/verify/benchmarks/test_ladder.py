"""The rungs that are measured: each exists, its tiles are possible, and nothing of the ladder is left out."""

import importlib
import inspect

import pytest

from refkit.cuda_kernels import matmul, matmul_mma, matmul_wgmma, mma_gemm, wgmma_gemm
from refkit.cuda_kernels.mma_gemm.mainloop import Operands, bytes_per_stage
from refkit.cuda_kernels.wgmma_gemm.tiles import Layout
from refkit.planner.occupancy import occupancy
from refkit.verify.benchmarks import ladder
from refkit.verify.benchmarks.ladder import RUNGS
from refkit.verify.discovery import load_target

IDS = [f"{rung.name} {rung.precision}" for rung in RUNGS]


@pytest.mark.parametrize("rung", RUNGS, ids=IDS)
def test_tiles_are_keywords_of_the_launcher(rung):
    module = importlib.import_module(f"refkit.cuda_kernels.{rung.module}")
    parameters = inspect.signature(getattr(module, rung.launcher)).parameters
    assert set(rung.tiles) <= set(parameters)
    assert list(parameters)[:3] == ["a", "b", "c"]
    assert callable(rung.multiply())


def test_every_rung_of_the_header_is_measured():
    measured = {rung.launcher for rung in RUNGS}
    for module, prefix in ((matmul, "matmul_"), (matmul_mma, "matmul_mma_")):
        names = [line.split(":")[0] for line in module.__doc__.splitlines() if line.partition(":")[2].startswith("  ")]
        assert len(names) >= 3
        assert {prefix + name for name in names} <= measured, names
    assert len(RUNGS) == len(set(IDS))


@pytest.mark.parametrize("rung", [each for each in RUNGS if each.tiles], ids=lambda each: each.launcher)
def test_tiles_fit_a_block(rung):
    """The tiles satisfy their own check, and one block at least fits on the H200."""
    if rung.module == "matmul_wgmma":
        kind, tiles = wgmma_gemm.FORMATS[rung.precision], wgmma_gemm.WgmmaTiles(**rung.tiles)
        shared = Layout(kind, tiles, True, kind.name == "tf32").shared_bytes
    else:
        kind, tiles = mma_gemm.FORMATS[rung.precision], mma_gemm.MmaTiles(**rung.tiles)
        shared = tiles.stages * bytes_per_stage(kind, tiles, Operands(True, False, True))
    tiles.check(kind)
    assert occupancy((9, 0), threads=tiles.threads, registers=128, shared_bytes=shared).blocks >= 1


def test_rungs_that_need_hopper_are_left_out_elsewhere(monkeypatch):
    monkeypatch.setattr(ladder.matmul_wgmma, "missing", lambda: "this GPU is another")
    monkeypatch.setattr(ladder, "measured", lambda rung, size: rung)
    said = []
    measured = list(ladder.rows(said.append))
    assert measured == [rung for rung in RUNGS if rung.module != "matmul_wgmma"]
    assert sum("left out, this GPU is another" in text for text in said) == 2


def test_the_target_is_set_for_wgmma_only_and_before_it(monkeypatch):
    from refkit.cuda_kernels import ptx

    happened = []
    monkeypatch.setattr(ladder.matmul_wgmma, "missing", lambda: None)
    monkeypatch.setattr(ptx, "target_sm_90a", lambda: happened.append("target"))
    monkeypatch.setattr(ladder, "measured", lambda rung, size: happened.append(rung.launcher))
    list(ladder.rows(lambda text: None))
    first = happened.index("target")
    assert happened[first + 1] == "matmul_wgmma"
    assert "matmul_wgmma" not in happened[:first]


def test_wgmma_launchers_take_the_tiles_of_their_benchmark():
    for tiles in ladder.matmul_wgmma.TILES.values():
        assert set(tiles) <= set(inspect.signature(matmul_wgmma.matmul_wgmma).parameters)


def test_every_rung_can_be_analysed_by_name():
    specs = load_target("refkit.verify.benchmarks.ladder_specs")
    assert set(specs) == {f"{rung.launcher}_{rung.precision}" for rung in RUNGS}
    wgmma = specs["matmul_wgmma_bf16"]
    assert (wgmma.needs, wgmma.args["a"].dtype) == ("sm_90a", "bfloat16")
    assert {name: values[0] for name, values in wgmma.configs.items()} == ladder.matmul_wgmma.TILES["bf16"]

"""A spec's representative case, its traffic, and what it needs."""

from dataclasses import replace

import pytest
from numba import cuda, float32

from refkit.cpu import LineTraffic, MemoryReport
from refkit.cpu.memory_model.tracing import TracedLaunch
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.analysis import resources, toolchain
from refkit.verify.analysis.representative import representative_case
from refkit.verify.analysis.subject import analysis_record, analyze_spec, findings
from refkit.verify.analysis.toolchain import Assembled
from refkit.verify.options import Options
from refkit.verify.profiles import PROFILES
from refkit.verify.runner import verify_spec

pytestmark = pytest.mark.cpu
R, C = Dim("R"), Dim("C")


@cuda.jit
def column_sums_kernel(x, y):
    """One thread per row: the lanes of a warp read a column."""
    row = cuda.grid(1)
    if row < x.shape[0]:
        total = float32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        y[row] = total


def row_sums(x, y, block=32):
    column_sums_kernel[-(-x.shape[0] // block), block](x, y)


def failing(x, y):
    raise RuntimeError("no such device")


def spec_of(launch, **options):
    args = {"x": In(R, C), "y": Out(R)}
    return KernelSpec(launch=launch, reference=lambda x: x.sum(axis=1), args=args, **options)


SPEC = spec_of(row_sums, configs={"block": [32, 64]})


def test_the_representative_case_is_of_mid_size_with_the_last_configuration():
    case = representative_case(SPEC)
    assert dict(case.dims) == {"R": 256, "C": 256}
    assert dict(case.config) == {"block": 64}
    assert representative_case(SPEC) == case


def test_the_representative_case_keeps_to_the_spec():
    odd = spec_of(row_sums, configs={"block": [32]}, requires=lambda C: C % 48 == 0)
    assert representative_case(odd).dims["C"] % 48 == 0
    tiny = KernelSpec(
        launch=row_sums,
        reference=lambda x: x.sum(axis=1),
        args={"x": In(Dim("R", max=5), Dim("C", max=9)), "y": Out(Dim("R", max=5))},
        configs={"block": [32]},
    )
    assert dict(representative_case(tiny).dims) == {"R": 5, "C": 9}


def test_the_uncoalesced_column_reduction_is_flagged_with_its_line(monkeypatch):
    monkeypatch.setattr(toolchain, "missing", lambda: "not now")
    analysis = analyze_spec(SPEC, [(9, 0)])
    (line,) = analysis.report.flagged
    assert (line.problem, line.sectors, line.kernel) == ("uncoalesced", 32, "column_sums_kernel")
    (finding,) = findings(analysis.report)
    assert finding["sanitizer"] == "sectors"
    assert finding["line"] == line.line
    assert finding["message"] == "read of 4 bytes per lane moves 32.0 sectors per request where 4.0 would do"
    assert analysis.resources == ()
    data = analysis.to_json()
    assert data["lines"][0]["problem"] == "uncoalesced"
    assert data["case"] == {"dims": {"R": 256, "C": 256}, "config": {"block": 64}}


def test_a_launch_that_fails_is_a_problem_of_one_line():
    analysis = analyze_spec(spec_of(failing), [(9, 0)])
    assert "no such device" in analysis.problem
    assert analysis.report.lines == ()


def launch_of(threads=256):
    return TracedLaunch("k", column_sums_kernel, (), (1, 1, 1), (threads, 1, 1), 0, 1024)


def test_registers_become_occupancy_cliff_and_what_launch_bounds_give(monkeypatch):
    ptx = ".visible .entry k(\n)\n{\n}\n"
    monkeypatch.setattr(toolchain, "ptx_of", lambda *positional, **named: ptx)
    monkeypatch.setattr(
        toolchain,
        "assemble",
        lambda text, cc: Assembled(128, 8, 4, 16, 2048) if "minnctapersm 2" in text else Assembled(142, 0, 0, 0, 2048),
    )
    resources._compiled.cache_clear()
    found = resources.resources(launch_of(), (9, 0))
    assert (found.registers, found.shared_bytes, found.occupancy.blocks) == (142, 3072, 1)
    assert (found.cliff.registers, found.cliff.blocks) == (128, 2)
    assert found.bounded == found.bounded_256 == resources.Bounded((256, 2), 128, 12, 2)
    assert found.to_json()["compute_capability"] == "9.0"
    assert found.to_json()["occupancy"]["limits"] == ("registers",)
    resources._compiled.cache_clear()


def test_the_effect_of_launch_bounds_256_2_is_known_where_registers_do_not_limit(monkeypatch):
    monkeypatch.setattr(toolchain, "ptx_of", lambda *positional, **named: ".visible .entry k(\n)\n{\n}\n")
    monkeypatch.setattr(
        toolchain,
        "assemble",
        lambda text, cc: Assembled(40 if ".maxntid 256, 1, 1\n.minnctapersm 2" in text else 24, 0, 0, 0, 0),
    )
    resources._compiled.cache_clear()
    small = resources.resources(launch_of(64), (8, 0))
    assert small.bounded is None
    assert small.bounded_256 == resources.Bounded((256, 2), 40, 0, 24)
    assert resources.resources(launch_of(512), (8, 0)).bounded_256 is None
    resources._compiled.cache_clear()


def test_a_kernel_that_does_not_compile_says_why(monkeypatch):
    def refuse(*positional, **named):
        raise toolchain.CompilationError("needs 9.0")

    monkeypatch.setattr(toolchain, "ptx_of", refuse)
    resources._compiled.cache_clear()
    found = resources.resources(launch_of(), (8, 0))
    assert (found.problem, found.occupancy) == ("needs 9.0", None)


def test_every_launched_kernel_is_compiled_once_for_each_architecture(monkeypatch):
    asked = []
    monkeypatch.setattr(toolchain, "missing", lambda: "")
    monkeypatch.setattr(
        resources, "resources", lambda launch, cc: asked.append((launch.kernel, cc)) or resources.Resources("k", cc, 64)
    )
    analysis = analyze_spec(SPEC, [(8, 0), (9, 0)])
    assert asked == [("column_sums_kernel", (8, 0)), ("column_sums_kernel", (9, 0))]
    assert len(analysis.resources) == 2


def test_bank_conflicts_are_findings_in_words():
    line = LineTraffic("k", "k.py", 7, "shared", "read", 4, 10, 10, 32.0, passes=8.0, worst_passes=16, ideal_passes=1.0)
    (finding,) = findings(MemoryReport((line,)))
    assert (finding["sanitizer"], finding["problem"], finding["line"]) == ("banks", "bank conflicts", 7)
    wanted = "read of 4 bytes per lane takes 8.0 passes over the banks (up to 16) where 1.0 would do"
    assert finding["message"] == wanted


def test_two_passes_are_no_finding():
    line = LineTraffic("k", "k.py", 7, "shared", "read", 4, 10, 10, 32.0, passes=2.0, worst_passes=2, ideal_passes=1.0)
    assert findings(MemoryReport((line,))) == []


def tile_transpose(shift):
    """A 32 x 32 transpose through shared memory whose columns are swizzled by the row, after a shift: 0 is right."""

    @cuda.jit
    def swizzled_kernel(x, y):
        tile = cuda.shared.array((32, 32), float32)
        column, row = cuda.threadIdx.x, cuda.threadIdx.y
        i, j = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
        for r in range(row, 32, 8):
            tile[r, column ^ (r >> shift)] = x[j + r, i + column]
        cuda.syncthreads()
        for r in range(row, 32, 8):
            y[i + r, j + column] = tile[column, r ^ (column >> shift)]

    def transpose(x, y):
        swizzled_kernel[(x.shape[1] // 32, x.shape[0] // 32), (32, 8)](x, y)

    rows, columns = Dim("R", multiple_of=32), Dim("C", multiple_of=32)
    return KernelSpec(
        launch=transpose,
        reference=lambda x: x.T,
        args={"x": In(rows, columns), "y": Out(columns, rows)},
        layouts=("contiguous",),
    )


@pytest.mark.parametrize(("shift", "passes"), [(0, 1), (3, 8), (5, 32)])
def test_a_swizzle_with_the_wrong_key_is_flagged_though_its_results_are_right(monkeypatch, shift, passes):
    monkeypatch.setattr(toolchain, "missing", lambda: "not now")
    spec = tile_transpose(shift)
    analysis = analyze_spec(spec, [])
    reads = [line for line in analysis.report.lines if (line.space, line.access) == ("shared", "read")]
    assert [line.passes for line in reads] == [passes]
    assert [line.problem for line in analysis.report.flagged] == (["bank conflicts"] if shift else [])
    assert spec.verify(backend="cpu", cases=8).status == "passed"


def test_lines_carry_their_source_text(monkeypatch):
    monkeypatch.setattr(toolchain, "missing", lambda: "not now")
    (line, *_) = analysis_record(SPEC)["lines"]
    assert line["code"] == "total += x[row, column]"


def test_the_record_of_a_verification_holds_the_analysis_where_asked_for(monkeypatch):
    monkeypatch.setattr(toolchain, "missing", lambda: "not now")
    quick = Options(backend="cpu", profile=PROFILES["quick"])
    assert verify_spec(SPEC, quick).analysis is None
    found = verify_spec(SPEC, replace(quick, analyze=True)).analysis
    assert found["lines"][0]["problem"] == "uncoalesced"
    assert found["missing"] == "not now"


def test_a_spec_that_cannot_be_analysed_is_a_problem_of_its_record():
    impossible = spec_of(row_sums, configs={"block": [32]}, requires=lambda R, C: R == 77 and C == 3)
    assert "no sizes near" in analysis_record(impossible)["problem"]

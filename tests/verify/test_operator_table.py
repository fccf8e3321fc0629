"""The table of operators: complete, up to date in the docs, and as large as the library promises to be."""

import json
from pathlib import Path

import pytest

from refkit.verify import Dim, In, InOut, KernelSpec, Out, operator_table
from refkit.verify.__main__ import main
from refkit.verify.discovery import shipped
from refkit.verify.operator_table import formats, markdown, moved, rows

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
M, K = Dim("M"), Dim("K")


def test_the_page_is_what_the_specs_and_ledgers_say():
    assert PAGE.read_text() == markdown(), "run python -m refkit.verify.operator_table --write"


def test_every_shipped_kernel_stands_in_one_row():
    named = [spec.name for row in rows() for spec in row.kernels]
    assert sorted(named) == sorted(shipped())


def test_list_names_at_least_40_operators_and_directions_and_90_kernels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--json", "list.json"]) == 0
    kernels = json.loads(Path("list.json").read_text())["kernels"]
    assert len({kernel["name"] for kernel in kernels}) == len(kernels) >= 90
    assert len({(kernel["operator"], kernel["direction"]) for kernel in kernels}) >= 40
    assert all(kernel["name"] in capsys.readouterr().out for kernel in kernels[:1])


def test_tensor_core_products_count_as_matmul():
    (row,) = (row for row in rows() if (row.operator, row.direction) == ("matmul", "forward"))
    assert any(spec.name.startswith("matmul_mma_") for spec in row.kernels)
    assert not any(row.operator == "matmul_mma" for row in rows())


def test_an_operator_without_a_ledger_is_named(monkeypatch):
    monkeypatch.setattr(operator_table, "_ledgers", lambda: iter(()))
    with pytest.raises(LookupError, match="no LEDGER entry for 'adamw' 'forward' in the modules of verify/specs"):
        rows()


def launch(x, y, total):
    raise NotImplementedError


def spec(dims, dtype="float32", **more):
    args = {"x": In(*dims, dtype=dtype), "y": Out(M, dtype=dtype), "total": InOut(1)}
    return KernelSpec(launch=launch, reference=lambda x, total: (x, total), args=args, **more)


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((M, K), "4 M K + 4 M + 8"),
        ((M, 2 * K), "8 M K + 4 M + 8"),
        ((K, M, 1), "4 K M + 4 M + 8"),
        ((M,), "8 M + 8"),
        ((3, M * K), "12 M K + 4 M + 8"),
        ((M, (K + 10 - 1) // 10), "4 M ceil(K/10) + 4 M + 8"),
        ((M, (K + 10 - 1) // 5), "4 M ((K + 10 - 1) // 5) + 4 M + 8"),
        ((M, K + 1), "4 M (K + 1) + 4 M + 8"),
    ],
)
def test_bytes_are_a_formula_in_the_dims(dims, expected):
    assert moved([spec(dims)]) == expected


def test_bytes_are_those_of_the_first_kernel_that_writes_these_outputs():
    assert moved([spec((M, K), "float8_e4m3fn"), spec((M, K))]) == "M K + M + 8"


def test_the_order_of_the_axes_does_not_matter():
    def transpose(x, y):
        raise NotImplementedError

    args = {"x": In(M, K), "y": Out(K, M)}
    assert moved([KernelSpec(launch=transpose, reference=lambda x: x.T, args=args)]) == "8 M K"


def test_formats_stand_widest_first():
    assert formats([spec((M, K), "bfloat16"), spec((M, K), "float8_e4m3fn")]) == [
        "float32",
        "bfloat16",
        "float8_e4m3fn",
    ]

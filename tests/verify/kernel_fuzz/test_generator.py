"""What the strategy covers, and that programs are what they promise to be."""

import dataclasses
import re
from collections import Counter

import pytest

from refkit.verify.kernel_fuzz import tree
from refkit.verify.kernel_fuzz.execution import Rendered
from refkit.verify.kernel_fuzz.render import render
from refkit.verify.kernel_fuzz.search import draw_programs


def nodes(value):
    """Every node of a tree."""
    if dataclasses.is_dataclass(value):
        yield value
        for each in dataclasses.fields(value):
            yield from nodes(getattr(value, each.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from nodes(item)


@pytest.fixture(scope="module")
def drawn():
    return draw_programs(300, seed=3)


def test_every_construct_is_drawn(drawn):
    seen = Counter(type(node).__name__ for program in drawn for node in nodes(program))
    assert {name for name in tree.__all__ if isinstance(getattr(tree, name), type)} - set(seen) <= {"Kind"}


@pytest.mark.parametrize(
    "text",
    [
        *(f"shfl_{mode}sync" for mode in ("", "up_", "down_", "xor_")),
        *(f"cuda.{mode}_sync(" for mode in ("all", "any", "eq", "ballot", "match_any", "match_all")),
        *(f"syncthreads_{mode}(" for mode in ("count", "and", "or")),
        *(f"atomic.{op}(" for op in ("add", "min", "max", "and_", "or_", "xor", "sub", "exch", "cas", "inc", "dec")),
        *(f"cuda.{op}(" for op in ("popc", "clz", "ffs", "brev", "selp")),
        *("syncwarp", "local.array", "shared.array(0", "device=True", "math.floor", "while ", "break", "continue"),
    ],
)
def test_every_operation_is_rendered(drawn, text):
    assert any(text in render(program) for program in drawn)


def test_launches_have_one_to_three_dimensions(drawn):
    assert (
        {len(program.block) for program in drawn} == {len(program.grid) for program in drawn} | {1, 2, 3} == {1, 2, 3}
    )


def test_the_same_seed_draws_the_same_programs(drawn):
    assert draw_programs(20, seed=4) == draw_programs(20, seed=4) != drawn[:20]


def test_programs_are_small_and_different(drawn):
    sources = {render(program) for program in drawn}
    assert len(sources) == 300
    assert max(map(len, sources)) < 8000


def test_one_operation_per_sum(drawn):
    for program in drawn:
        by_array = {}
        for node in nodes(program):
            if isinstance(node, tree.Atomic):
                by_array.setdefault(node.array.name, set()).add(node.op)
        assert all(len(ops) == 1 for ops in by_array.values())


def test_barriers_stand_only_where_all_threads_arrive(drawn):
    """The loops and branches round a barrier read no variable of a thread's own."""
    found = 0
    for program in drawn:
        lines = render(program).splitlines()
        for number, line in enumerate(lines):
            if "syncthreads" in line:
                found += 1
                for head in _heads(lines, number):
                    assert not re.search(r"\bv\d|\btid\b|\blane\b|\bgid\b|\bwarp\b|rows|threadIdx", head), head
    assert found > 100


def _heads(lines, number):
    depth = len(lines[number]) - len(lines[number].lstrip())
    for line in reversed(lines[:number]):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < depth:
            depth = indent
            if line.strip().startswith(("if ", "for ", "while ")):
                yield line


def test_dynamic_shared_memory_is_counted_in_bytes(drawn):
    sized = [Rendered.of(program) for program in drawn if any(a.space == "dynamic" for a in program.arrays)]
    assert sized
    assert all("shared.array(0, " in rendered.source for rendered in sized)
    assert all(rendered.shared_bytes > 0 for rendered in sized)


def test_arithmetic_that_int64_may_not_hold_is_unsigned():
    wide, narrow = tree.Name("w", tree.Kind.INT64), tree.Name("n", tree.Kind.INT32)
    program = draw_programs(1, seed=0)[0]

    def text(expression):
        return render(dataclasses.replace(program, outputs=(expression,)))

    assert "int64(uint64(w) * uint64(n))" in text(tree.Arithmetic("*", wide, narrow, tree.Kind.INT64))
    assert "int64(n * n)" in text(tree.Arithmetic("*", narrow, narrow, tree.Kind.INT64))
    assert "int64(w & n)" in text(tree.Arithmetic("&", wide, narrow, tree.Kind.INT64))

"""What the strategy covers, and that programs are what they promise to be."""

import dataclasses
import operator
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refkit.verify.kernel_fuzz import arguments, tree
from refkit.verify.kernel_fuzz.execution import Rendered
from refkit.verify.kernel_fuzz.generator.expressions import expression, uniform_condition, uniform_integer
from refkit.verify.kernel_fuzz.generator.scope import Level, Scope, Source
from refkit.verify.kernel_fuzz.generator.statements import statement
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


BARRIERS = (tree.Exchange, tree.Accumulate)
WARP_WIDE = (tree.Shuffle, tree.Vote, tree.Match, tree.SyncWarp, tree.Split)


def agrees(expression, shared):
    """Whether an expression reads only `shared` names, inputs, and registers that a block has in common."""
    for node in nodes(expression):
        if isinstance(node, tree.Name) and node.name not in shared:
            return False
        if isinstance(node, tree.Element) and node.array.space != "input":
            return False
        if isinstance(node, tree.Register) and ("threadIdx" in node.name or "lane" in node.name):
            return False
    return True


def barriers_in_order(block, shared, level):
    """Who arrives at each barrier below `block` (block or warp); fails where threads may not arrive together."""
    found = []
    for node in block:
        if isinstance(node, BARRIERS):
            assert level == "block" or (isinstance(node, tree.Exchange) and node.scope == "warp" and level == "warp")
            bodies = (node.update, node.read) if isinstance(node, tree.Accumulate) else (node.body,)
            found.append(level)
            for body in bodies:
                found += barriers_in_order(body, shared, "warp")
        elif isinstance(node, WARP_WIDE):
            assert level in ("block", "warp") or (level == "group" and not isinstance(node, tree.Split))
            if isinstance(node, tree.Split):
                found += barriers_in_order((*node.then, *node.otherwise), shared, "group")
            elif isinstance(node, tree.Shuffle) and level == "group":
                assert node.mode in ("first", "last")
        elif isinstance(node, tree.If):
            inner = _inside(level, node.condition, shared)
            found += barriers_in_order((*node.then, *node.otherwise), shared, inner)
        elif isinstance(node, tree.For):
            inner = _inside(level, node.stop, shared)
            names = shared | {node.variable.name} if inner == level != "thread" else shared
            found += barriers_in_order(node.body, names, inner)
        elif isinstance(node, tree.While):
            found += barriers_in_order(node.body, shared, "thread")
    return found


def _inside(level, expression, shared):
    """The threads that still arrive together behind a branch on `expression`."""
    if level == "block" and agrees(expression, shared):
        return "block"
    if level in ("block", "warp") and agrees(expression, shared | {"warp"}):
        return "warp"
    return "group" if level == "group" and agrees(expression, shared) else "thread"


@st.composite
def branches(draw):
    """An `if`, a `for` or a `while` at a place where a whole block arrives."""
    source = Source(draw, 300, threads=32, sums={array.name: "add" for array in arguments.SUMS})
    return statement(source, _BLOCK_PLACE, source.pick(("if", "for", "while", "uniform_if", "uniform_for", "split")))


def test_threads_wait_only_where_all_of_them_arrive(drawn):
    found = [level for program in drawn for level in barriers_in_order(program.body, set(), "block")]
    assert len(found) > 100

    @settings(max_examples=150, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(branches())
    def check(branch):
        found.extend(barriers_in_order((branch,), set(), "block"))

    check()


_PLACE = Scope(
    names=tuple(tree.Name(name, tree.Kind.INT32) for name in ("tid", "lane", "warp", "v0")),
    targets=(),
    loads=(*arguments.INPUTS, *arguments.ROWS),
    uniform=(tree.Name("u", tree.Kind.INT32),),
)


_BLOCK_PLACE = Scope(
    names=tuple(tree.Name(f"v{number}", kind) for number, kind in enumerate(tree.Kind)),
    targets=tuple(tree.Name(f"v{number}", kind) for number, kind in enumerate(tree.Kind)),
    loads=arguments.INPUTS,
    stores=arguments.ROWS,
    level=Level.BLOCK,
    mask="everyone",
)


@st.composite
def agreed(draw, level):
    """A condition and a trip count on which the threads of `level` must agree."""
    source = Source(draw, 20)
    return uniform_condition(source, _PLACE, level), uniform_integer(source, _PLACE, level)


@pytest.mark.parametrize(("level", "expected"), [(Level.BLOCK, {"u"}), (Level.WARP, {"u", "warp"})])
def test_conditions_that_threads_share_read_only_what_they_share(level, expected):
    read = set()

    @settings(max_examples=150, derandomize=True, database=None)
    @given(agreed(level))
    def collect(pair):
        for node in nodes(pair):
            if isinstance(node, tree.Name):
                read.add(node.name)
            if isinstance(node, tree.Element):
                assert node.array in arguments.INPUTS
            if isinstance(node, tree.Register):
                assert "threadIdx" not in node.name

    collect()
    assert read == expected


def interval(node):
    """The range of a float32 expression; fails where an operation may leave the integers that float32 holds."""
    match node:
        case tree.Number(value):
            return value, value
        case tree.Cast(tree.Arithmetic("&", _, tree.Number(255))):
            return 0, 255
        case tree.Choice(_, first, second):
            ends = (*interval(first), *interval(second))
            return min(ends), max(ends)
        case tree.Unary("abs" | "-", operand):
            most = max(map(abs, interval(operand)))
            return -most, most
        case tree.Arithmetic(op, left, right):
            one, other = interval(left), interval(right)
            if op in ("min", "max"):
                pick = min if op == "min" else max
                return pick(one[0], other[0]), pick(one[1], other[1])
            apply = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op]
            ends = [apply(a, b) for a in one for b in other]
            assert max(map(abs, ends)) <= 2**24
            return min(ends), max(ends)
    assert isinstance(node, tree.Name | tree.Element | tree.Call)
    return -tree.FLOAT_LIMIT, tree.FLOAT_LIMIT


@st.composite
def floats(draw):
    """A float32 value to be stored, deeper than programs have them."""
    return expression(Source(draw, 150), _BLOCK_PLACE, tree.Kind.FLOAT32, 7)


@settings(max_examples=300, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(floats())
def test_float32_values_are_exact_and_stored_within_the_limit(value):
    assert max(map(abs, interval(value))) <= tree.FLOAT_LIMIT


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

"""The bound on compilations: fixed cases keep theirs, later ones move to what is compiled already."""

from refkit.verify.case import Case
from refkit.verify.economy import economise, variant
from tests.verify import kernels


def right(x, s, y, block):
    kernels.right(x, s, y)


SPEC = kernels.spec_of(right, configs={"block": [32, 64, 128]})


def case(block: int, seed: int = 0, layout: str = "") -> Case:
    layouts = {"x": layout} if layout else {}
    return Case(dims={"R": 3, "C": 4}, config={"block": block}, layouts=layouts, seed=seed)


def test_below_the_bound_nothing_changes():
    planned = (case(32), case(64), case(128))
    known = {}
    assert economise(SPEC, planned, known, 8) == planned
    assert len(known) == 3


def test_past_the_bound_cases_move_to_a_known_variant():
    known = {variant(case(32)): None}
    kept = economise(SPEC, (case(64, seed=1), case(128, seed=2), case(32, seed=3)), known, 2)
    assert [entry.config["block"] for entry in kept] == [64, 32, 32]
    assert [entry.seed for entry in kept] == [1, 2, 3]
    assert len(known) == 2


def test_the_first_strided_case_is_always_kept_and_an_offset_one_costs_nothing():
    known = {variant(case(32)): None}
    planned = (case(64, layout="strided"), case(128, seed=1, layout="strided"), case(32, layout="offset"))
    kept = economise(SPEC, planned, known, 1)
    assert [(entry.config["block"], entry.layout("x")) for entry in kept] == [
        (64, "strided"),
        (64, "strided"),
        (32, "offset"),
    ]


def test_a_case_that_no_known_variant_admits_is_left_out():
    picky = kernels.spec_of(right, configs={"block": [32, 64]}, requires=lambda R, block: R * block <= 100)
    known = {variant(case(64)): None}
    assert economise(picky, (case(32),), known, 1) == ()

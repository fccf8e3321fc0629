"""The catalogue: correct twins give the right result and no finding, faulty kernels the finding they are there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from refkit.cpu import SANITIZERS, Deadlock, SanitizerFault, emulate
from tests.catalogue import Entry, entries

pytestmark = pytest.mark.cpu

ALL = entries()
FAULTY = [entry for entry in ALL if entry.faulty is not None]
REPORTED = [entry for entry in FAULTY if entry.sanitizer != "result"]
PROBLEMS = {
    "race": {
        "write-write",
        "read-write",
        "atomic-plain",
        "async-proxy",
        "accumulator-in-use",
        "registers-unfenced",
    },
    "memory": {"out-of-bounds", "negative-index", "misaligned"},
    "uninitialized": {"global", "shared", "local"},
    "barrier": {
        "divergent-barrier",
        "exited-threads",
        "not-in-own-mask",
        "mask-disagrees",
        "reads-absent-lane",
        "deadlock",
        "too-many-arrivals",
    },
    "result": {"wrong"},
}

DEADLOCKS = {  # without a sanitizer; the other barrier faults end, some with wrong results
    "shuffle_mask_of_five_bits",
    "own_lane_missing_from_a_ballot",
    "match_names_half_of_its_callers",
    "syncwarp_without_its_caller",
    "vote_in_divergent_code",
    "syncwarp_that_never_completes",
    "two_votes_wait_for_each_other",
    "shuffle_names_lanes_at_a_barrier",
    "masks_of_two_halves_disagree",
    "mask_computed_per_lane",
    "more_bytes_expected_than_come",
    "consumer_never_gives_a_stage_back",
}


def each(chosen: Sequence[Any]):
    return pytest.mark.parametrize("entry", chosen, ids=lambda entry: entry.name)


def _unless_unseen(entry: Entry):
    return pytest.param(entry, id=entry.name)


def assert_right(entry: Entry) -> None:
    got, expected = entry.correct()
    assert len(got) == len(expected)
    for output, wanted in zip(got, expected):
        np.testing.assert_array_equal(output, wanted, err_msg=entry.name)


@each(ALL)
@pytest.mark.parametrize("schedule", [None, 1])
def test_a_correct_kernel_gives_its_expected_result(entry, schedule):
    with emulate(schedule=schedule, timeout=20):
        assert_right(entry)


@each(ALL)
@pytest.mark.parametrize("schedule", [None, 3])
def test_a_correct_kernel_gives_no_finding(entry, schedule):
    with emulate(sanitize=SANITIZERS, schedule=schedule, timeout=60):
        assert_right(entry)


@each([_unless_unseen(entry) for entry in REPORTED])
@pytest.mark.parametrize("schedule", [None, 4])
def test_a_fault_is_found_where_it_stands(entry, schedule):
    with (
        emulate(sanitize=SANITIZERS, schedule=schedule, timeout=60),
        pytest.raises(SanitizerFault) as caught,
    ):
        entry.faulty()
    findings = [finding for finding in caught.value.findings if finding.sanitizer == entry.sanitizer]
    places = [
        {(side.file, side.line) for side in (finding, finding.other) if side is not None}
        for finding in findings
        if finding.problem == entry.problem
    ]
    fault = {(entry.lines.file, line) for line in entry.lines.fault}
    marked = {(entry.lines.file, line) for line in entry.lines.all}
    assert any(place & fault for place in places), f"{entry.problem} at {fault} expected, found {findings}"
    assert all((finding.file, finding.line) in marked for finding in findings), f"unmarked lines: {findings}"


@each([entry for entry in FAULTY if entry.sanitizer == "result"])
def test_a_fault_that_breaks_no_rule_shows_in_the_result(entry):
    with emulate(sanitize=SANITIZERS, timeout=60):
        _, expected = entry.correct()
        assert any(not np.array_equal(got, wanted) for got, wanted in zip(entry.faulty(), expected))


@each([entry for entry in FAULTY if entry.sanitizer != "memory"])
def test_a_faulty_kernel_ends_without_sanitizers(entry):
    """Accesses outside an array are left out: with no sanitizer to stop them they would hit the host's own memory."""
    with emulate(timeout=20):
        shapes = [output.shape for output in entry.correct()[0]]
        if entry.name in DEADLOCKS:
            with pytest.raises(Deadlock) as caught:
                entry.faulty()
            assert caught.value.line in entry.lines.all
        else:
            assert [output.shape for output in entry.faulty()] == shapes


SHOWN_BY_ORDER = [
    "barrier_missing_after_write",
    "barrier_missing_before_overwrite",
    "broadcast_slot_reused",
    "reduction_tail_without_syncwarp",
    "zeroed_while_others_add",
]


@each([entry for entry in FAULTY if entry.name in SHOWN_BY_ORDER])
def test_some_order_of_the_threads_shows_the_wrong_result(entry):
    """Without sanitizers, a schedule gives away what the missing synchronisation does to the result."""
    wrong = 0
    for schedule in (None, 0, 1, 2):
        with emulate(schedule=schedule, timeout=20):
            _, expected = entry.correct()
            wrong += any(not np.array_equal(got, wanted) for got, wanted in zip(entry.faulty(), expected))
    assert wrong


def test_the_catalogue_is_as_large_as_it_promises():
    kinds = Counter(entry.sanitizer for entry in FAULTY)
    assert kinds["memory"] >= 14
    assert kinds["race"] >= 24
    assert kinds["uninitialized"] >= 12
    assert kinds["barrier"] >= 18
    assert len(ALL) - len(FAULTY) >= 20
    assert sum(entry.cuda for entry in FAULTY) >= 40


def test_names_are_unique_and_words_are_those_of_the_sanitizers():
    assert len({entry.name for entry in ALL}) == len(ALL)
    for entry in FAULTY:
        assert entry.problem in PROBLEMS[entry.sanitizer], entry.name
    assert {entry.problem for entry in FAULTY} == set().union(*PROBLEMS.values())


@each(ALL)
def test_an_entry_says_what_it_is(entry):
    assert entry.note.endswith(".")
    assert 20 <= len(entry.note) <= 160
    assert bool(entry.lines.fault) == (entry.faulty is not None)
    with open(entry.lines.file, encoding="utf-8") as source:
        text = source.readlines()
    assert all(text[line - 1].rstrip().endswith("# fault") for line in entry.lines.fault)
    assert all(text[line - 1].rstrip().endswith("# other") for line in entry.lines.other)

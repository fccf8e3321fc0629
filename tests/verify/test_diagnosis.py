"""Patterns of an error and the words for them; and no words for an error without a pattern."""

import numpy as np
import pytest

from refkit.verify.diagnosis import Evidence, diagnose

RNG = np.random.default_rng(0)
EXPECTED = RNG.standard_normal((8, 12)) + 3
NONE = np.zeros(EXPECTED.shape, bool)


def evidence(got, **more) -> Evidence:
    allowed = np.full(EXPECTED.shape, 1e-6)
    wrong = ~(np.abs(got - EXPECTED) <= allowed)
    return Evidence(**{"got": got, "expected": EXPECTED, "allowed": allowed, "wrong": wrong, "unwritten": NONE, **more})


def changed(where, value=None):
    got = EXPECTED.copy()
    got[where] = RNG.standard_normal(got[where].shape) * 50 if value is None else value
    return got


def test_nothing_wrong_nothing_said():
    assert diagnose(evidence(EXPECTED.copy())) == ""


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (np.s_[-1], "only the last row is wrong"),
        (np.s_[:, -1], "only the last column is wrong"),
        (np.s_[0], "only the first row is wrong"),
        (np.s_[1:], "every row but the first is wrong"),
        (np.s_[:, :-1], "every column but the last is wrong"),
        (np.s_[:, 1::3], "every third column is wrong, starting with number 1"),
        (np.s_[:, 8:], "columns from 8 on are wrong: a partial tile of tile=8"),
        (np.s_[:, 4:6], "columns 4 to 5 are wrong"),
        (np.s_[-1, -1], "only the last element is wrong"),
        (np.s_[3, 5], "only one element is wrong"),
        (np.s_[:], "every element is wrong"),
    ],
)
def test_places(where, words):
    assert diagnose(evidence(changed(where), config={"tile": 8})) == words


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (EXPECTED * 0.5, "times 0.5 (1/2: a part of the sum is missing)"),
        (EXPECTED * 2, "times 2 (something is counted more than once)"),
        (EXPECTED + 7, "plus 7"),
        (-EXPECTED, "the sign is wrong"),
        (EXPECTED * 0, "the wrong elements are 0"),
        (EXPECTED * np.nan, "the wrong elements are NaN"),
        (np.roll(EXPECTED, -1, 1), "off by +1 along column"),
        (np.roll(EXPECTED, 1, 0), "off by -1 along row"),
        (np.full(EXPECTED.shape, 4.25), "every wrong element is 4.25"),
    ],
)
def test_values(got, words):
    assert words in diagnose(evidence(got))


def test_transposed_needs_a_square():
    expected = RNG.standard_normal((6, 6))
    wrong = ~np.eye(6, dtype=bool)
    said = diagnose(Evidence(expected.T.copy(), expected, np.full((6, 6), 1e-6), wrong))
    assert said.startswith("rows and columns are exchanged")


def test_what_was_never_written():
    unwritten = NONE.copy()
    unwritten[:, -1] = True
    said = diagnose(evidence(changed(np.s_[:, -1]), unwritten=unwritten))
    assert said == "the wrong elements were never written; only the last column is wrong"
    assert "nothing was written at all" in diagnose(evidence(changed(np.s_[:]), unwritten=~NONE))


def test_old_values():
    old = np.full(EXPECTED.shape, 2.5)
    assert "overwritten instead of added to" in diagnose(evidence(EXPECTED - old, old=old))
    assert "left as it was" in diagnose(evidence(old, old=old))


def test_a_copy_of_an_input_is_named():
    x = RNG.standard_normal(EXPECTED.shape)
    assert "a copy of x" in diagnose(evidence(x, inputs={"x": x}))


def test_noise_without_a_pattern_gets_no_cause():
    scattered = RNG.random(EXPECTED.shape) < 0.4
    assert diagnose(evidence(changed(scattered))) == ""

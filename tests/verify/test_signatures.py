"""Launcher and reference are held against what the spec declares; each mismatch names the parameter."""

import re

import pytest

from refkit.verify.errors import SpecError
from refkit.verify.signatures import check_callable, check_launcher, check_names, name_of, pick


def good(x, s, y):
    pass


@pytest.mark.parametrize(
    ("launch", "configs"),
    [
        (good, []),
        (lambda x, s, y, block: None, ["block"]),
        (lambda x, s, y, block=64: None, ["block"]),
        (lambda x, s, y, *, block: None, ["block"]),
        (lambda x, s, y, stream=0: None, []),
        (lambda *arrays, **config: None, ["block"]),
        (lambda x, s, y, **config: None, ["block"]),
    ],
)
def test_launchers_that_fit(launch, configs):
    check_launcher(launch, ["x", "s", "y"], configs, "here:1")


@pytest.mark.parametrize(
    ("launch", "configs", "message"),
    [
        (lambda x, y: None, [], "launcher lambda(x, y) has no parameter 's', which args declares"),
        (lambda x, s, y, n: None, [], "has the parameter 'n', which neither args nor configs declares"),
        (lambda x, s, out: None, [], "has no parameter 'y', which args declares"),
        (
            lambda x, s, y, block: None,
            ["blocks"],
            "has no parameter 'blocks', which configs declares (did you mean 'block'?)",
        ),
        (lambda s, x, y: None, [], "args are declared as (x, s, y); expected the launcher's order (s, x, y)"),
        (lambda block, x, s, y: None, ["block"], "expected the launcher's order (x, s, y), before any other parameter"),
        (lambda *arrays, block: None, [], "has the parameter 'block', which neither args nor configs declares"),
    ],
)
def test_launchers_that_do_not_fit(launch, configs, message):
    with pytest.raises(SpecError, match="^" + re.escape("here:1: launcher ")) as caught:
        check_launcher(launch, ["x", "s", "y"], configs, "here:1")
    assert message in str(caught.value)


def test_names_that_nothing_supplies():
    allowed = ["x", "scale", "R"]
    check_names(lambda x, R: None, "reference", allowed, {}, "here:1")
    check_names(lambda x, extra=3: None, "reference", allowed, {}, "here:1")
    check_names(lambda **everything: None, "reference", allowed, {}, "here:1")
    with pytest.raises(SpecError, match=r"unknown argument 'scal'; .* \(did you mean 'scale'\?\)"):
        check_names(lambda scal: None, "reference", allowed, {}, "here:1")
    with pytest.raises(SpecError, match="unknown argument 'y'; it is an Out"):
        check_names(lambda y: None, "reference", allowed, {"y": "it is an Out"}, "here:1")
    with pytest.raises(SpecError, match="'x' is positional-only"):
        check_names(eval("lambda x, /: None"), "reference", allowed, {}, "here:1")


def test_check_callable():
    class Dispatcher:
        py_func = good
        __name__ = "good_kernel"

        def __call__(self):
            pass

        def __getitem__(self, configuration):
            pass

    check_callable(good, "launch", "here:1")
    with pytest.raises(SpecError, match="launch is 3; expected a function"):
        check_callable(3, "launch", "here:1")
    with pytest.raises(SpecError, match="launch is the kernel 'good_kernel'; expected a function that launches it"):
        check_callable(Dispatcher(), "launch", "here:1")


def test_pick_gives_what_is_named():
    available = {"x": 1, "R": 2, "block": 3}
    assert pick(lambda x, block: None, available, ["x"]) == {"x": 1, "block": 3}
    assert pick(lambda R, **rest: None, available, ["x"]) == {"R": 2, "x": 1}
    assert pick(lambda: None, available, ["x"]) == {}


def test_name_of():
    assert name_of(good) == "good"
    assert name_of(lambda: None) == "lambda"
    assert name_of(3) == "int"

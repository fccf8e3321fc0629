"""Two runs compared: what broke, what improved, what is new, gone, or no longer checked."""

from __future__ import annotations

from copy import deepcopy

import pytest

from refkit.reports import ReportError
from refkit.reports.comparison import compare, write_comparison
from tests.reports.pages import parse


def _run(*kernels, **settings):
    return {"schema": 1, "seed": 0, "kernels": list(kernels), **settings}


def _kernel(name, status="passed", **checks):
    listed = [
        {"name": check, "status": verdict, "message": f"{check} says {verdict}"} for check, verdict in checks.items()
    ]
    return {"name": name, "status": status, "checks": listed}


def _names(kernels):
    return [kernel.name for kernel in kernels]


GOOD = _kernel("k", accuracy="passed", layouts="passed")


def test_equal_runs_have_no_difference():
    found = compare(_run(GOOD), _run(deepcopy(GOOD)))
    assert (found.broke, found.improved, found.dropped, found.new, found.gone) == ((),) * 5
    assert found.headline() == "No verdict changed"
    assert found.differences == ()


@pytest.mark.parametrize("verdict", ["failed", "error", "mistrusted"])
def test_a_check_that_no_longer_holds_broke(verdict):
    found = compare(_run(GOOD), _run(_kernel("k", verdict, accuracy=verdict, layouts="passed")))
    (kernel,) = found.broke
    assert [(c.name, c.before, c.after) for c in kernel.broken] == [("accuracy", "passed", verdict)]
    assert found.improved == ()
    assert found.headline() == "1 broke"


def test_a_second_fault_of_a_failing_kernel_broke_as_well():
    before = _kernel("k", "failed", accuracy="failed", layouts="passed")
    after = _kernel("k", "failed", accuracy="failed", layouts="failed")
    assert _names(compare(_run(before), _run(after)).broke) == ["k"]
    assert compare(_run(before), _run(deepcopy(before))).broke == ()


def test_what_holds_again_improved_unless_something_else_broke():
    before = _kernel("k", "failed", accuracy="failed", layouts="passed")
    found = compare(_run(before), _run(GOOD))
    assert _names(found.improved) == ["k"]
    assert [c.name for c in found.improved[0].mended] == ["accuracy"]
    worse = _kernel("k", "failed", accuracy="passed", layouts="failed")
    found = compare(_run(before), _run(worse))
    assert (_names(found.broke), found.improved) == (["k"], ())


def test_a_check_that_fails_when_it_first_runs_broke_where_the_kernel_held():
    before = _kernel("k", accuracy="passed", sanitizers="skipped")
    after = _kernel("k", "failed", accuracy="passed", sanitizers="failed")
    assert _names(compare(_run(before), _run(after)).broke) == ["k"]


def test_checks_skipped_behind_a_failure_are_not_blamed_when_the_failure_moves():
    before = _kernel("k", "failed", accuracy="failed", layouts="skipped")
    after = _kernel("k", "failed", accuracy="passed", layouts="failed")
    found = compare(_run(before), _run(after))
    assert found.broke == ()
    assert _names(found.improved) == ["k"]


def test_a_kernel_that_died_broke_though_no_check_says_so():
    found = compare(_run(GOOD), _run({"name": "k", "status": "error", "message": "the worker died"}))
    assert _names(found.broke) == ["k"]


def test_a_check_that_is_no_longer_run_is_told_and_nothing_broke():
    found = compare(_run(GOOD), _run(_kernel("k", accuracy="passed", layouts="skipped")))
    assert (found.broke, _names(found.dropped)) == ((), ["k"])
    assert [(c.name, c.after) for c in found.dropped[0].dropped] == [("layouts", "skipped")]
    found = compare(_run(GOOD), _run(_kernel("k", accuracy="passed")))
    assert [(c.name, c.after) for c in found.dropped[0].dropped] == [("layouts", "absent")]


def test_new_and_gone_kernels_are_listed_and_break_nothing():
    found = compare(_run(GOOD, _kernel("old")), _run(GOOD, _kernel("fresh", "failed", accuracy="failed")))
    assert (_names(found.new), _names(found.gone), found.broke) == (["fresh"], ["old"], ())
    assert found.headline() == "1 new, 1 gone"
    assert found.to_json()["new"] == [{"name": "fresh", "status": "failed"}]


@pytest.mark.parametrize(
    ("first", "second", "growth"),
    [(0.1, 0.4, 4), (0.4, 0.1, 0.25), (None, 0.4, 1), (0.2, "NaN", float("inf")), (0, 0.1, float("inf")), (0, 0, 1)],
)
def test_growth_of_the_worst_error(first, second, growth):
    runs = [_run(_kernel("k", accuracy="passed")) for _ in range(2)]
    for run, ratio in zip(runs, (first, second)):
        run["kernels"][0]["checks"][0]["worst_ratio"] = ratio
    (kernel,) = compare(*runs).kernels
    assert kernel.growth == pytest.approx(growth)


def test_other_settings_are_told():
    found = compare(
        _run(GOOD, profile="quick", environment={"numpy": "2.3", "date": "a"}),
        _run(GOOD, profile="deep", environment={"numpy": "2.4", "date": "b"}),
    )
    assert found.differences == (("profile", "quick", "deep"), ("numpy", "2.3", "2.4"))


def test_a_broken_run_is_named():
    with pytest.raises(ReportError, match=r"^b.json: kernels is missing$"):
        compare(_run(GOOD), {"schema": 1}, ("a.json", "b.json"))


def test_the_page_shows_every_change(tmp_path):
    first = _run(_kernel("a", accuracy="passed"), _kernel("b", "failed", accuracy="failed"), _kernel("c"))
    second = _run(_kernel("a", "failed", accuracy="failed"), _kernel("b", accuracy="passed"), _kernel("d"))
    page = parse(write_comparison(compare(first, second), tmp_path / "new"))
    assert page.all("h1")[0].text == "1 broke, 1 improved, 1 new, 1 gone"
    headings = [heading.text for heading in page.all("h2")]
    assert headings == ["What broke", "What improved", "New kernels", "Gone kernels", "Kernels of both runs"]
    (broke,) = page.all("article", data_kernel="a")
    assert "accuracy: passed → failed" in broke.text
    assert "accuracy says failed" in broke.text
    rows = [row.attributes["data-verdict"] for row in page.all("tr") if "data-name" in row.attributes]
    assert rows == ["broke", "improved"]

"""The page holds every kernel, failure and replay command, stands alone, and survives odd and hostile records."""

from __future__ import annotations

import json
import math
import re
import struct
import time
import zlib
from copy import deepcopy

import pytest

from refkit.records import CaseRecord, CheckRecord, KernelRecord, RunRecord, SourceFinding, Verdict, WorstRecord
from refkit.reports import write
from refkit.reports.planner_page import planner_section
from refkit.reports.reading import read_run
from tests.reports.pages import parse
from tests.reports.synthetic import synthetic_run

SVG_NAMESPACE = "http://www.w3.org/2000/svg"  # a name, not an address
SCRIPTS = 1 + str(planner_section()).count("<script")
HOSTILE = "<script>alert('x')</script>\" onload=\"alert(1)\" $\\frac{1}{0}$ &amp; '"


@pytest.fixture(scope="module")
def run():
    return synthetic_run(kernels=4, cases=16, failing=(2, 3))


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    return write(run, tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture(scope="module")
def page(written):
    return parse(written)


def test_verdict_is_the_headline(page):
    (heading,) = page.all("h1")
    assert heading.text == "Of 4 kernels, 2 failed"
    assert heading.attributes["class"] == "bad"


def test_verdict_of_a_run_that_holds(tmp_path):
    (heading,) = parse(write(synthetic_run(kernels=3, cases=4, failing=()), tmp_path)).all("h1")
    assert heading.text == "All 3 kernels passed"
    assert heading.attributes["class"] == "good"


def test_every_kernel_has_a_row_and_a_section(run, page):
    names = {kernel["name"] for kernel in run["kernels"]}
    rows = [row.attributes["data-name"] for row in page.all("tr") if "data-name" in row.attributes]
    sections = [section.all("h3")[0].text for section in page.all("details", class_="kernel")]
    assert len(rows) == len(names)
    assert set(rows) == names
    assert len(sections) == len(names)
    assert set(sections) == names


def test_failures_come_first_and_are_open(run, page):
    failed = [kernel["name"] for kernel in run["kernels"] if kernel["status"] == "failed"]
    rows = [row.attributes["data-name"] for row in page.all("tr") if "data-name" in row.attributes]
    assert rows[: len(failed)] == failed
    states = ["open" in section.attributes for section in page.all("details", class_="kernel")]
    assert states == [True] * len(failed) + [False] * (len(rows) - len(failed))


def test_every_failing_check_has_diagnosis_shrunk_case_and_replay(run, page):
    cards = {card.attributes["data-kernel"]: card for card in page.all("article", class_="failure")}
    failing = [
        (kernel, check) for kernel in run["kernels"] for check in kernel["checks"] if check["status"] == "failed"
    ]
    assert len(failing) == 3
    for kernel, check in failing:
        (fault,) = cards[kernel["name"]].all("div", data_check=check["name"])
        assert check["diagnosis"] in fault.text
        assert "shrunk case" in fault.text
        assert _shape(check["case"]["dims"]) in fault.text
        assert f"python -m refkit.verify replay {check['case_file']}" in [code.text for code in fault.all("code")]
        (copy,) = fault.all("button", class_="copy")
        assert kernel["name"] in copy.attributes["aria-label"]


def test_without_a_shrunk_case_the_smallest_failing_one_is_shown(run, tmp_path):
    changed = deepcopy(run)
    check = changed["kernels"][2]["checks"][0]
    del check["case"]
    failing = [case["dims"] for case in check["cases_data"] if case["ratio"] > 1]
    smallest = min(failing, key=lambda dims: (math.prod(dims.values()), sum(dims.values())))
    (fault,) = parse(write(changed, tmp_path)).all("article", data_kernel=changed["kernels"][2]["name"])
    assert "smallest failing case" in fault.text
    assert "shrunk" not in fault.text
    assert _shape(smallest) in fault.text


def test_a_case_file_with_a_space_is_quoted_for_the_shell(run, tmp_path):
    changed = deepcopy(run)
    changed["kernels"][2]["checks"][0]["case_file"] = "my cases/it's.json"
    codes = [code.text for code in parse(write(changed, tmp_path)).all("code")]
    assert "python -m refkit.verify replay 'my cases/it'\"'\"'s.json'" in codes


def test_the_page_needs_no_network_and_no_other_file(written, page):
    html = written.read_text(encoding="utf-8").replace(SVG_NAMESPACE, "")
    assert not re.search(r"https?:|url\((?!#)|@import|//[a-z0-9.-]+\.[a-z]{2,}/", html)
    links = [
        (element.tag, value)
        for element in page.all("")
        for name, value in element.attributes.items()
        if name in ("src", "href", "xlink:href", "action", "srcset", "poster", "data")
    ]
    assert links
    assert all(value.startswith(("#", "data:")) for _, value in links), links


def test_sorting_attributes_are_numbers_that_order_as_the_ratios(run, page):
    rows = {row.attributes["data-name"]: row.attributes for row in page.all("tr") if "data-name" in row.attributes}
    for kernel in run["kernels"]:
        worst = max(case["ratio"] for check in kernel["checks"] for case in check.get("cases_data", ()))
        assert float(rows[kernel["name"]]["data-ratio"]) == pytest.approx(worst)
        assert int(rows[kernel["name"]]["data-cases"]) == kernel["cases"]
    keys = [button.attributes["data-sort"] for button in page.all("button") if "data-sort" in button.attributes]
    for attributes in rows.values():
        assert all(f"data-{key}" in attributes for key in keys)
    sorts = [heading.attributes["aria-sort"] for heading in page.all("th") if "aria-sort" in heading.attributes]
    assert sorts.count("ascending") == 1
    assert len(sorts) == len(keys)


def test_figures_say_their_numbers_in_words(run, page):
    labels = [box.attributes["aria-label"] for box in page.all("div", role="img")]
    failing = run["kernels"][2]["checks"][0]
    over = sum(case["ratio"] > 1 for case in failing["cases_data"])
    assert any("accuracy: 16 cases, median " in label and f", {over} above 1" in label for label in labels)
    assert any(label.startswith("Sizes tried. ") and " sizes from " in label for label in labels)
    assert sum(" of 4,096 cells above" in label for label in labels) == 5
    assert len(labels) == len(page.all("svg"))


def test_ids_are_unique_and_links_lead_to_them(page):
    ids = [element.attributes["id"] for element in page.all("") if "id" in element.attributes]
    targets = {element.attributes["href"] for element in page.all("a")}
    outside_figures = [name for name in ids if not re.fullmatch(r"(image|[mp])?[0-9a-f]{10}", name)]
    assert len(outside_figures) == len(set(outside_figures))
    assert targets <= {f"#{name}" for name in ids}


def test_figures_follow_the_colours_of_the_page(page):
    for svg in page.all("svg"):
        styles = " ".join(element.attributes.get("style", "") for element in svg.all(""))
        assert "var(--fig-" in styles
        assert not re.search(r"(fill|stroke): ?#(?!000000)", styles)


def test_hostile_names_stay_text(run, tmp_path):
    changed = deepcopy(run)
    for kernel in changed["kernels"][1:4]:
        kernel.update(name=HOSTILE, operator=HOSTILE, precision=HOSTILE, source=HOSTILE, message=HOSTILE)
        for check in kernel["checks"]:
            check.update(
                name=HOSTILE, message=HOSTILE, diagnosis=HOSTILE, bound=HOSTILE, findings=[HOSTILE, {"kind": HOSTILE}]
            )
            for case in check.get("cases_data", ()):
                case.update(dims={HOSTILE: 3}, scenario=HOSTILE, values=HOSTILE, config={HOSTILE: HOSTILE})
            if check.get("worst"):
                check["worst"]["output"] = HOSTILE
    changed["kernels"][2]["checks"][0]["case_file"] = HOSTILE
    changed["kernels"][3]["analysis"]["lines"][0].update(code=HOSTILE, file=HOSTILE, problem=HOSTILE)
    changed["kernels"][3]["analysis"]["resources"][0].update(kernel=HOSTILE, problem=HOSTILE)
    changed["kernels"][3]["mutation"]["survived"] = [HOSTILE]
    changed["environment"] = {HOSTILE: HOSTILE}
    changed["backend"] = HOSTILE
    page = parse(write(changed, tmp_path))
    assert len(page.all("script")) == SCRIPTS
    assert not [e for e in page.all("") for name in e.attributes if name.startswith("on")]
    assert sum(section.all("h3")[0].text == HOSTILE for section in page.all("details", class_="kernel")) == 3
    assert all(file.parent == tmp_path for file in tmp_path.rglob("*"))


def test_names_that_no_font_and_no_file_takes(tmp_path):
    run = synthetic_run(kernels=2, cases=2, failing=())
    name = "a\x00\x1b\ud800\n漢字/../../x"
    run["kernels"][0]["name"] = name
    for check in run["kernels"][0]["checks"]:
        check["name"] = name
        for case in check.get("cases_data", ()):
            case["dims"] = {name: 3}
    write(run, tmp_path / "out")
    assert {path.parent for path in tmp_path.rglob("*.png")} == {tmp_path / "out"}
    assert "a\N{REPLACEMENT CHARACTER}" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_names_are_not_read_as_mathematics(tmp_path):
    worst = {"output": "$y$", "index": [0], "shape": [2], "error_map": [[0.1, 0.2]]}
    check = {"name": r"$\oops$", "status": "failed", "cases_data": [{"dims": {"$a^$": 3}, "ratio": 2}], "worst": worst}
    run = {"schema": 1, "kernels": [{"name": "k", "status": "failed", "checks": [check]}]}
    body = write(run, tmp_path).read_text(encoding="utf-8")
    assert re.search(r"<text[^>]*>\$\\oops\$</text>", body)
    assert re.search(r"<text[^>]*>\$a\^\$</text>", body)


def test_the_records_of_a_run_arrive_whole(tmp_path):
    worst = WorstRecord("dgamma", (3, 1), 2.5, math.nan, 1e-6, math.nan, (4, 2), ((0.5, math.nan), (0.1, 3.0)), (4, 2))
    cases = (
        CaseRecord({"T": 4, "C": 2}, {"x": "strided"}, {"block": 64}, math.nan, "every dim small", "normal", 7),
        CaseRecord({"T": 9, "C": 5}, {}, {}, 0.25),
    )
    code = ("if lane == 0:", "sums[0] = x")
    found = (SourceFinding("race", "two threads write sums[0]", "kernels/norm.py", 31, code, 30),)
    accuracy = CheckRecord(
        "accuracy",
        Verdict.FAILED,
        cases=2,
        worst_ratio=math.nan,
        message="1 of 2 fails",
        diagnosis="a NaN row",
        case_file="c.json",
        bound="tracked",
        cases_data=cases,
        case=cases[0],
        worst=worst,
        findings=found,
    )
    kernel = KernelRecord("norm_dgamma", "norm", "float32", Verdict.FAILED, 2, 1.5, (accuracy,), source="norm.py:12")
    record = RunRecord("0.1.0", "cpu", "quick", 3, (kernel,), 1.5, {"numpy": "2.4"}, "refkit all", True)
    page = parse(write(json.loads(json.dumps(record.to_json())), tmp_path))
    (card,) = page.all("article", data_kernel="norm_dgamma")
    for shown in (
        "a NaN row",
        "1 of 2 fails",
        "block 64 · x strided · values normal · every dim small",
        "dgamma[3, 1]",
    ):
        assert shown in card.text
    (section,) = page.all("details", class_="kernel")
    for shown in (
        "norm.py:12",
        "race: two threads write sums[0]",
        "kernels/norm.py:31",
        "31 ▸ sums[0] = x",
        "dgamma of 4 × 2: 2 of 4 cells",
    ):
        assert shown in section.text
    assert "Stopped early" in page.text
    assert "not finite" in section.text


def test_odd_ratios_are_shown_and_nan_fails(run, tmp_path):
    changed = deepcopy(run)
    odd = [math.nan, math.inf, "NaN", "Infinity", "-Infinity", None, 0, 1e-300, 1e300, "-inf", None, None]
    cases = changed["kernels"][0]["checks"][0]["cases_data"]
    for case, ratio in zip(cases, odd):
        case["ratio"] = ratio
    changed["kernels"][0]["checks"][0]["worst"]["error_map"] = [["NaN", None], [math.inf, 0.5]]
    changed["kernels"][1]["checks"] = [
        {"name": "accuracy", "status": "error", "worst_ratio": "NaN", "cases_data": [{"dims": {"T": 0}, "ratio": None}]}
    ]
    changed["kernels"][1]["status"] = "error"
    page = parse(write(changed, tmp_path))
    labels = [box.attributes["aria-label"] for box in page.all("div", role="img")]
    assert any("accuracy: 13 cases, " in label and "worst NaN, 7 above 1" in label for label in labels)
    assert any("2 of 3 cells above" in label for label in labels)
    rows = {row.attributes["data-name"]: row.attributes for row in page.all("tr") if "data-name" in row.attributes}
    assert float(rows[changed["kernels"][0]["name"]]["data-ratio"]) > 1e308


@pytest.mark.parametrize(
    "kernels",
    [
        [],
        [{"name": "bare", "status": "passed"}],
        [{"name": "", "status": "passed", "checks": None}],
        [{"name": "skipped", "status": "skipped", "message": "needs a GPU", "checks": []}],
        [{"name": "dead", "status": "error", "message": "the worker died"}],
        [{"name": "c", "status": "passed", "analysis": {}, "checks": [{"name": "x", "status": "passed", "ulps": {}}]}],
        [
            {
                "name": "c",
                "status": "failed",
                "checks": [{"name": "c", "status": "failed", "worst": {"error_map": [[]]}}],
            }
        ],
        [
            {
                "name": "c",
                "status": "error",
                "checks": [
                    {
                        "name": "x",
                        "status": "error",
                        "cases_data": [{"dims": {"R": 0, "C": 10**9}, "ratio": 0.1}, {"dims": None}],
                        "worst": {},
                    }
                ],
            }
        ],
        [
            {
                "name": "v",
                "status": "failed",
                "checks": [
                    {
                        "name": "x",
                        "status": "failed",
                        "worst": {"output": "y", "index": [9, 9], "shape": [0, 4], "error_map": [[0.1, 2]]},
                    }
                ],
            }
        ],
        [
            {
                "name": "big",
                "status": "passed",
                "checks": [
                    {
                        "name": "x",
                        "status": "passed",
                        "worst": {"index": [5], "shape": [200], "error_map": [[0.1] * 200] * 100},
                    }
                ],
            }
        ],
    ],
    ids=lambda kernels: json.dumps(kernels)[:40],
)
def test_optional_fields_cost_only_their_part(kernels, tmp_path):
    page = parse(write({"schema": 1, "kernels": kernels}, tmp_path))
    assert len(page.all("details", class_="kernel")) == len(kernels)


def test_a_run_of_an_older_refkit_is_shown_and_says_what_it_lacks(run, tmp_path):
    older = deepcopy(run)
    for kernel in older["kernels"]:
        for field in ("analysis", "mutation", "deterministic"):
            del kernel[field]
        for check in kernel["checks"]:
            for field in ("ulps", "orders"):
                check.pop(field, None)
            for case in check.get("cases_data", ()):
                for field in ("reduction", "error", "allowed"):
                    del case[field]
    page = parse(write(older, tmp_path))
    for section in page.all("details", class_="kernel"):
        assert "not measured in this run" in section.text
        assert "--analyze adds it" in section.text
    assert "None in this run" in page.all("section", id="layouts")[0].text
    assert not page.all("section", id="flagged")


def test_the_analysis_of_a_kernel_is_shown(run, page):
    sections = {section.all("h3")[0].text: section for section in page.all("details", class_="kernel")}
    analysed = sections[run["kernels"][1]["name"]]
    for shown in (
        "norm.py:31",
        "total += x[row, column]",
        "32.0 of 4",
        "uncoalesced",
        "1.5 of 1, up to 2",
        "needs compute capability 9.0",
        "14 registers less would give 2 blocks",
        "(256, 2): 128 registers, 12 B of spills, 2 blocks",
        "load.global of 16 bytes 4",
    ):
        assert shown in analysed.text
    assert "--analyze adds it" not in analysed.text
    assert "--analyze adds it" in sections[run["kernels"][0]["name"]].text


def test_what_analyze_flags_is_listed_with_its_kernel(run, page):
    (section,) = page.all("section", id="flagged")
    links = [link.text for link in section.all("a")]
    assert links == [kernel["name"] for kernel in run["kernels"][::-1] if kernel["analysis"]]  # the failing one first
    assert "uncoalesced at norm.py:31: global read, 32.0 sectors where 4 would do" in section.text
    assert "2 findings" in section.text
    assert "norm.py:40" not in section.text


def test_spilling_kernels_are_listed_with_their_architectures(run, tmp_path):
    changed = deepcopy(run)
    changed["kernels"][1]["analysis"]["resources"][1]["spill_bytes"] = 8
    (section,) = parse(write(changed, tmp_path)).all("section", id="flagged")
    assert "kernel_1 spills registers on 9.0" in section.text
    assert "3 findings" in section.text


def test_fragment_layouts_are_drawn_once_for_all_kernels(run, page):
    (section,) = page.all("section", id="layouts")
    layouts = section.all("details")
    assert [each.all("summary")[0].text for each in layouts] == [f"mma.m16n8k8.tf32 {letter}" for letter in "ABC"]
    using = [kernel["name"] for kernel in run["kernels"] if kernel["analysis"]]
    assert len(using) == 2
    assert all(name in layouts[0].text for name in using)
    assert "6 a1" in layouts[0].text
    assert len(section.all("figure", class_="on-paper")) == 3  # light cells, on dark screens too


def test_what_was_found_beside_the_errors_is_said_in_words(run, page):
    sections = {section.all("h3")[0].text: section for section in page.all("details", class_="kernel")}
    first = sections[run["kernels"][0]["name"]].text
    assert "39 of 40 planted faults caught (98%)" in first
    assert "line 31: < for <=" in first
    assert "not promised bit for bit: the same in 16 cases, each in the plain order and 3 others" in first
    failing = sections[run["kernels"][2]["name"]].text
    assert "31 ▸     sums[0] += x" in failing


def test_the_planner_is_part_of_the_page(page):
    assert any(
        "planner" in name for element in page.all("section") for name in element.attributes.get("id", "").split()
    )


def test_kernels_of_one_name_keep_their_own_files(tmp_path):
    run = synthetic_run(kernels=3, cases=3, failing=())
    for kernel, name in zip(run["kernels"], ("a/b", "a b", "A b")):
        kernel["name"] = name
    page = parse(write(run, tmp_path))
    assert {f"#k-{s}" for s in ("a-b", "a-b-2", "A-b-3")} == {
        a.attributes["href"] for a in page.all("tr")[1].all("a")
    } | {a.attributes["href"] for row in page.all("tr")[2:4] for a in row.all("a")}
    assert len({path.name.lower() for path in tmp_path.glob("*-sheet.png")}) == 3


def test_a_second_report_replaces_the_first(run, tmp_path):
    write(run, tmp_path)
    page = parse(write({"schema": 1, "kernels": [{"name": "other", "status": "passed"}]}, tmp_path))
    assert page.all("h1")[0].text == "1 kernel passed"
    assert not list(tmp_path.glob(".index-*"))


def test_the_input_is_left_alone_and_the_page_repeats(run, tmp_path):
    before = deepcopy(run)
    first = write(run, tmp_path / "a").read_bytes()
    assert run == before
    assert write(run, tmp_path / "b").read_bytes() == first


def test_png_files_are_whole_and_not_blank(run, written):
    files = sorted(written.parent.glob("*.png"))
    assert (
        len(files) == 2 + 2 * 4 + 3
    )  # a sheet per pass; four figures per failing kernel, and each failing check's map
    for file in files:
        width, height, pixels = _pixels(file.read_bytes())
        assert width >= 600
        assert height >= 60
        assert len(set(pixels)) > 20, f"{file.name} is blank"


def test_a_hundred_kernels_stay_within_15_mb(tmp_path):
    run = synthetic_run(kernels=10, cases=120, failing=(1, 4, 7))
    size = write(run, tmp_path).stat().st_size
    assert size * 10 < 15e6


def test_25_kernels_take_less_than_10_seconds(tmp_path):
    run = synthetic_run(kernels=5, cases=40, failing=(3,))
    start = time.process_time()
    write(run, tmp_path)
    assert (time.process_time() - start) * 5 < 10


def _shape(dims):
    return " · ".join(f"{name}\N{NO-BREAK SPACE}{size}" for name, size in dims.items())


def _pixels(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and the decompressed rows of a PNG; AssertionError where a chunk is damaged."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, header = 8, b"", b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunk = data[at + 4 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(chunk)
        header = chunk[4:] if chunk[:4] == b"IHDR" else header
        body += chunk[4:] if chunk[:4] == b"IDAT" else b""
        at += 12 + length
    width, height = struct.unpack(">II", header[:8])
    return width, height, zlib.decompress(body)


def test_the_sensitivity_of_a_kernel_is_that_of_accuracy_as_in_the_terminal(run):
    changed = deepcopy(run)
    (kernel, *_) = changed["kernels"]
    for number, check in enumerate(kernel["checks"]):
        check["sensitivity"] = 3e-7 if check["name"] == "accuracy" else 10.0**-number
    view = next(each for each in read_run(changed).kernels if each.name == kernel["name"])
    assert view.sensitivity == 3e-7

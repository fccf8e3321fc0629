"""The planner's page: the same arithmetic in JavaScript as in Python, and what a reader sees and does in a browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from refkit.planner.devices import DEVICES, machine
from refkit.planner.expression import first_within
from refkit.planner.sheet import evaluate
from refkit.planner.sheets import sheets
from refkit.planner.units import show
from refkit.reports.planner_page import planner_page, planner_script, planner_section
from tests.reports import browser
from tests.reports.pages import parse

NO_NODE = "" if shutil.which("node") else "node is not on PATH"
NO_BROWSER = browser.missing()

# --------------------------------------------------------------------------------------- the same arithmetic in both

_RUNNER = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(({ operator, inputs }) => {
  const groups = evaluate(operator, inputs);
  const shown = {};
  for (const group of PLANNER.sheets[operator].groups) {
    if (!(group.name in groups)) continue;
    for (const figure of group.figures) {
      const numbers = filled(operator, figure.parts, inputs, groups);
      shown[`${group.name}.${figure.name}`] = [show(groups[group.name][figure.name], figure.unit), numbers];
    }
  }
  return { groups, shown, summary: standing(operator, groups).map((parts) => filled(operator, parts, inputs, groups)) };
})));
"""


def in_node(script, data, folder):
    """What a script prints that reads `data` from stdin, both as JSON."""
    file = folder / "script.js"
    file.write_text(script, encoding="utf-8")
    done = subprocess.run(["node", file], input=json.dumps(data), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cases(count=120):
    """Inputs of every sheet: the defaults, the ends of every slider, and sizes drawn between them, on every device."""
    rng = np.random.default_rng(6)
    machines = [machine(each, dtype) for each in DEVICES.values() for dtype in each.tflops]
    for operator, sheet in sheets().items():
        for index in range(count):
            sizes = {}
            for each in sheet.parameters:
                drawn = round(np.exp(rng.uniform(np.log(max(each.low, 1)), np.log(max(each.high, 1)))))
                ends = {0: each.default, 1: each.low, 2: each.high, 3: max(each.low, each.lowest)}
                sizes[each.name] = int(ends.get(index, rng.integers(2) if each.unit == "flag" else drawn))
                if each.optional and index % 7 == 4:
                    sizes[each.name] = 0
            yield {"operator": operator, "inputs": {**machines[index % len(machines)], **sizes}}


@pytest.mark.skipif(bool(NO_NODE), reason=NO_NODE)
def test_the_page_computes_what_python_computes(tmp_path):
    given = list(cases())
    found = in_node(planner_script() + _RUNNER, given, tmp_path)
    compared = 0
    for case, page in zip(given, found, strict=True):
        sheet = sheets()[case["operator"]]
        values = evaluate(sheet, case["inputs"])
        assert list(page["groups"]) == list(values.figures), case
        assert tuple(page["summary"]) == values.summary()
        for group in sheet.groups:
            for each in group.figures if group.name in values.figures else ():
                here, there = values.figures[group.name][each.name], page["groups"][group.name][each.name]
                where = (case, group.name, each.name)
                assert there == (here if isinstance(here, str) else pytest.approx(here, rel=1e-12, abs=0)), where
                shown, numbers = page["shown"][f"{group.name}.{each.name}"]
                assert shown == show(here, each.unit), where
                assert numbers == values.with_numbers(group.name, each), where
                compared += 1
    assert compared > 30_000


@pytest.mark.skipif(bool(NO_NODE), reason=NO_NODE)
def test_the_page_shows_numbers_as_python_does(tmp_path):
    rng = np.random.default_rng(7)
    values = [0, 0.5, 2.5, 9.9995, 99.95, 112.5, 999.5, 1e15, 950e9, 949e9, *np.exp(rng.uniform(-25, 40, 300))]
    units = ["FLOP", "FLOP/s", "B", "B/s", "s", "count", "decimal", "FLOP/B", "times", "fraction", "bytes each"]
    pairs = [[float(value), unit] for value in values for unit in units]
    script = 'const pairs = JSON.parse(require("fs").readFileSync(0, "utf8"));'
    script += "console.log(JSON.stringify(pairs.map(([value, unit]) => show(value, unit))));"
    assert in_node(planner_script() + script, pairs, tmp_path) == [show(value, unit) for value, unit in pairs]


@pytest.mark.skipif(bool(NO_NODE), reason=NO_NODE)
def test_the_page_searches_as_python_does(tmp_path):
    rng = np.random.default_rng(8)
    searches = [[factor, 1, [int(each) for each in rng.integers(1, 9, n)]] for factor in (1.0, 1.5) for n in range(12)]
    script = 'const searches = JSON.parse(require("fs").readFileSync(0, "utf8"));'
    script += "console.log(JSON.stringify(searches.map(([factor, low, values]) =>"
    script += " firstWithin(factor, low, low + values.length, (s) => values[s - low]))));"
    expected = [first_within(factor, low, low + len(found), [0, *found].__getitem__) for factor, low, found in searches]
    assert in_node(planner_script() + script, searches, tmp_path) == expected


# ------------------------------------------------------------------------------------------------------ as a document


def test_the_page_is_well_formed_and_asks_for_nothing(tmp_path):
    file = tmp_path / "planner.html"
    file.write_text(planner_page(), encoding="utf-8")
    page = parse(file)
    ids = [element.attributes["id"] for element in page.all("") if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert {each.attributes.get("value") for each in page.all("input", type="radio")} == set(sheets())
    assert not page.all("script", src="") or not any("src" in each.attributes for each in page.all("script"))
    assert [each.attributes["href"] for each in page.all("link")] == ["data:,"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", planner_page())
    assert "python -m refkit.verify plan linear" in page.all("noscript")[0].text


def test_the_section_keeps_to_itself():
    section = planner_section()
    assert section.lstrip().startswith("<section")
    assert "data-standalone>" not in section
    assert all(name.startswith("planner") for name in re.findall(r'\bid="([^"]+)"', section))
    classes = {name for names in re.findall(r'\bclass="([^"]+)"', section) for name in names.split()}
    assert classes
    assert all(name.startswith("planner") for name in classes)


# ------------------------------------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A function that opens the page anew in a real browser."""
    if NO_BROWSER:
        pytest.skip(NO_BROWSER)
    file = tmp_path_factory.mktemp("planner") / "planner.html"
    file.write_text(planner_page(), encoding="utf-8")
    with browser.open_browser() as running:

        def open_page(**size):
            page = running.page(**size)
            page.open(file)
            return page

        yield open_page


def value(page, figure):
    """The number that the tables show for a figure."""
    return page.run(f"document.querySelector('#planner-tables [data-figure=\"{figure}\"]').textContent")


def bar(page):
    return page.run("document.getElementById('planner-bar').textContent")


def fill(page, selector, text):
    """Type a value into an input."""
    page.run(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(str(text))};"
        " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_a_slider_moves_and_every_number_with_it(opened):
    page = opened()
    assert value(page, "dW.tiles") == "3,584"
    assert value(page, "forward.flops") == "0.962 TFLOP"
    page.run("document.querySelector('#planner-size-K').parentElement.querySelector('input[type=range]').focus()")
    page.press("ArrowRight")
    assert page.run("document.getElementById('planner-size-K').value") == "4352"
    assert value(page, "dW.tiles") == f"{34 * 112:,}"
    assert "1.022 TFLOP" in page.run("document.getElementById('planner-summary').textContent")
    assert "-K 4352" in page.run("document.getElementById('planner-command').textContent")
    assert page.problems == []
    assert [each for each in page.requests if not each.startswith("file:")] == []


def test_a_number_shows_its_formula_on_hover_and_on_focus(opened):
    page = opened()
    assert "Point at a number" in bar(page)
    where = page.run(
        "(() => { const e = document.querySelector('#planner-summary .planner-number'); const r ="
        " e.getBoundingClientRect(); return [r.x + 3, r.y + 3]; })()"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
    assert "forward: FLOPs2 · m · n · k = 2 · 8,192 · 14,336 · 4,096 = 0.962 TFLOP" in bar(page)
    page.run("document.querySelector('#planner-tables [data-figure=\"dW.tiles\"]').focus()")
    assert "⌈4,096 / 128⌉ · ⌈14,336 / 128⌉ = 3,584" in bar(page)
    described = page.run("document.activeElement.getAttribute('aria-description')")
    assert "⌈m / tile_m⌉ · ⌈n / tile_n⌉" in described
    assert page.run("document.querySelectorAll('.planner-used').length") > 2
    page.press("ArrowLeft")
    assert page.run("document.activeElement.dataset.figure") == "dX.tiles"
    assert "dX: output tiles" in bar(page)
    assert page.problems == []


def test_tab_stops_once_in_each_box(opened):
    page = opened()
    stops = page.run("document.querySelectorAll('.planner-number[tabindex=\"0\"]').length")
    assert stops == page.run("document.querySelectorAll('#planner-tables > div').length + 1")
    assert stops < page.run("document.querySelectorAll('.planner-number').length") / 10


def test_every_layer_opens_and_says_what_the_terminal_says(opened, capsys):
    from refkit.verify.__main__ import main

    page = opened()
    for operator in sheets():
        page.run(f"document.querySelector('input[name=planner-layer][value={operator}]').click()")
        assert page.run("document.querySelectorAll('#planner-tables .planner-number').length") > 8
        command = page.run("document.getElementById('planner-command').textContent")
        sentences = page.run("Array.from(document.querySelectorAll('#planner-summary p'), (each) => each.textContent)")
        assert main(command.split()[3:]) == 0
        printed = capsys.readouterr().out
        assert all(sentence in printed for sentence in sentences)
    assert page.problems == []


def test_a_device_brings_its_figures_and_only_its_formats(opened):
    page = opened()
    page.run(
        "(() => { const e = document.getElementById('planner-device'); e.value = 't4';"
        " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    assert page.run("document.getElementById('planner-format').value") == "float16"
    assert page.run("document.querySelector('#planner-format option[value=bfloat16]').disabled") is True
    assert page.run("document.getElementById('planner-tflops').value") == "65"
    assert value(page, "machine.ridge") == "203 FLOP/B"
    fill(page, "#planner-tflops", 32)
    assert value(page, "machine.ridge") == "100 FLOP/B"
    assert page.run("document.getElementById('planner-command').textContent").endswith("--device t4 --tflops 32")
    page.click("#planner-reset")
    assert value(page, "machine.ridge") == "187 FLOP/B"


def test_a_layer_without_rates_asks_for_none(opened):
    page = opened()
    shown = "Array.from(document.querySelectorAll('#planner-rates .planner-control'), (each) => each.offsetHeight > 0)"
    assert page.run(shown) == [True, True, True]
    page.run("document.querySelector('input[name=planner-layer][value=occupancy]').click()")
    assert page.run(shown) == [False, False, False]
    assert page.run("document.getElementById('planner-format-box').offsetHeight") == 0
    fill(page, "#planner-size-registers", 142)
    assert value(page, "sm.blocks") == "1"


def test_a_wrong_number_is_said_and_changes_nothing(opened):
    page = opened()
    for wrong in ("", "0", "2.5", "-4"):
        fill(page, "#planner-size-T", wrong)
        assert page.run("document.getElementById('planner-size-T').getAttribute('aria-invalid')") == "true"
        assert "a whole number from 1" in page.run("document.getElementById('planner-size-T-wrong').textContent")
        assert value(page, "dW.k") == "8,192"
    fill(page, "#planner-size-T", 4096)
    assert page.run("document.getElementById('planner-size-T').hasAttribute('aria-invalid')") is False
    assert value(page, "dW.k") == "4,096"


def test_without_a_head_cross_entropy_has_no_products(opened):
    page = opened()
    page.run("document.querySelector('input[name=planner-layer][value=cross_entropy]').click()")
    assert page.run("document.querySelector('#planner-tables').textContent.includes('Matrix products')")
    fill(page, "#planner-size-K", 0)
    assert not page.run("document.querySelector('#planner-tables').textContent.includes('Matrix products')")
    assert page.run("document.getElementById('planner-roofline').hidden") is True
    assert page.problems == []


def test_the_address_holds_the_plan(opened):
    page = opened()
    fill(page, "#planner-size-N", 384)
    address = page.run("new Promise((done) => setTimeout(() => done(location.hash), 900))")
    assert address.startswith("#linear?T=8192&K=4096&N=384")
    page.run("location.hash = '#attention?B=2&H=3&L=500&D=64&causal=1&device=a100&format=float16&tflops=nonsense'")
    page.run("new Promise((done) => setTimeout(() => done(true), 100))")
    assert page.run("document.getElementById('planner-size-L').value") == "500"
    assert page.run("document.getElementById('planner-size-causal').checked") is True
    assert value(page, "sizes.pairs") == f"{500 * 501 // 2:,}"
    assert page.problems == []


@pytest.mark.parametrize("width", [390, 768, 900, 1024, 1280])
def test_nothing_is_wider_than_the_window(opened, width):
    page = opened(width=width, height=800)
    for operator in sheets():
        page.run(f"document.querySelector('input[name=planner-layer][value={operator}]').click()")
        assert page.run("document.documentElement.scrollWidth") <= width
        cut = "Array.from(document.querySelectorAll('.planner-scroll')).filter(e => e.scrollWidth > e.clientWidth + 1)"
        assert page.run(f"{cut}.length") == 0, operator


def test_the_arrow_keys_move_between_rows_too(opened):
    page = opened()
    page.run("document.querySelector('#planner-tables [data-figure=\"dX.tiles\"]').focus()")
    page.press("ArrowDown", 40)
    assert page.run("document.activeElement.dataset.figure") == "dX.waves"
    page.press("ArrowUp", 38)
    assert page.run("document.activeElement.dataset.figure") == "dX.tiles"


def test_the_section_works_inside_another_page_and_leaves_its_address_alone(tmp_path):
    if NO_BROWSER:
        pytest.skip(NO_BROWSER)
    file = tmp_path / "report.html"
    head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>r</title><link rel="icon" href="data:,">'
    file.write_text(f"{head}<body><h1>Report</h1>{planner_section()}</body></html>", encoding="utf-8")
    with browser.open_browser() as running:
        page = running.page()
        page.open(file)
        fill(page, "#planner-size-N", 384)
        assert value(page, "dW.tiles") == f"{32 * 3}"
        assert page.run("new Promise((done) => setTimeout(() => done(location.hash), 900))") == ""
        page.run("location.hash = '#attention?L=7'")
        assert page.run("document.querySelector('input[name=planner-layer]:checked').value") == "linear"
        assert page.run("Array.from(document.querySelectorAll('#planner h1')).length") == 0
        assert page.problems == []

"""The pages in a real browser: sort, filter, open, copy, slide; nothing on the console, nothing on the network, no
serious fault for a screen reader, nothing wider than a phone."""

from __future__ import annotations

import pytest

from refkit.reports import write
from refkit.reports.comparison import compare, write_comparison
from tests.reports import axe, browser
from tests.reports.synthetic import synthetic_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(browser.missing()), reason=f"needs a browser: {browser.missing()}"),
]
needs_axe = pytest.mark.skipif(axe.script() is None, reason="needs axe-core: see tests/reports/axe.py")
VISIBLE = "[...document.querySelectorAll('#kernel-table tbody tr:not([hidden])')].map(row => row.dataset.name)"
COPIED = "addEventListener('copy', () => { window.copied = document.activeElement.value; })"


@pytest.fixture(scope="module")
def chromium():
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def run():
    return synthetic_run(kernels=6, cases=8, failing=(3,))


@pytest.fixture(scope="module")
def report(run, tmp_path_factory):
    return write(run, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def comparison(run, tmp_path_factory):
    later = synthetic_run(kernels=7, cases=8, failing=(5,), seed=1)
    return write_comparison(compare(run, later), tmp_path_factory.mktemp("comparison"))


@pytest.fixture(params=["report", "comparison"])
def each_page(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def page(chromium, report):
    opened = chromium.page()
    opened.open(report)
    yield opened
    opened.run("new Promise(done => setTimeout(done, 50))")  # what is on its way arrives first
    assert opened.problems == []
    assert opened.requests == [report.resolve().as_uri()]


def test_a_heading_sorts_and_sorts_back(page, run):
    by_cases = sorted(run["kernels"], key=lambda kernel: kernel["name"])
    page.click("button[data-sort=name]")
    assert page.run(VISIBLE) == [kernel["name"] for kernel in by_cases]
    assert page.run("document.querySelector('button[data-sort=name]').closest('th').ariaSort") == "ascending"
    page.click("button[data-sort=name]")
    assert page.run(VISIBLE) == [kernel["name"] for kernel in by_cases][::-1]
    page.click("button[data-sort=status]")
    assert page.run(VISIBLE)[0] == run["kernels"][3]["name"]


def test_worst_ratios_come_first_when_asked_for(page):
    page.click("button[data-sort=ratio]")
    ratios = page.run("[...document.querySelectorAll('#kernel-table tbody tr')].map(row => Number(row.dataset.ratio))")
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 1


def test_words_filter_rows_and_sections(page, run):
    page.click("#filter-text")
    for key in "softmax":
        page.press(key)
    wanted = [kernel["name"] for kernel in run["kernels"] if "softmax" in kernel["name"]]
    assert page.run(VISIBLE) == wanted
    assert page.run("document.querySelectorAll('details.kernel:not([hidden])').length") == len(wanted)
    assert page.run("document.getElementById('filter-count').textContent") == f"{len(wanted)} of 6 kernels"


def test_the_verdict_filters(page, run):
    page.run(
        "(() => { const s = document.getElementById('filter-status'); s.value = 'failed';"
        " s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert page.run(VISIBLE) == [run["kernels"][3]["name"]]


def test_a_link_opens_the_kernel(page, run):
    name = run["kernels"][0]["name"]
    state = f"document.getElementById('k-{name}').open"
    assert page.run(state) is False
    page.click(f"#kernel-table a[href='#k-{name}']")
    page.run("new Promise(done => setTimeout(done, 200))")
    assert page.run(state) is True
    assert page.run(f"document.getElementById('k-{name}').getBoundingClientRect().top") < 400
    assert page.run(f"document.querySelector('#k-{name} svg').getBoundingClientRect().width") > 300


def test_the_keyboard_alone_opens_a_kernel(page, run):
    name = run["kernels"][0]["name"]
    page.run(f"document.querySelector('#k-{name} > summary').focus()")
    page.press("Enter")
    assert page.run(f"document.getElementById('k-{name}').open") is True


def test_the_first_stop_of_the_keyboard_skips_to_the_kernels(page):
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the kernels"
    assert page.run("document.activeElement.getBoundingClientRect().left") >= 0


def test_the_replay_command_is_copied(page, run):
    page.run(COPIED)
    page.click(".failure button.copy")
    command = f"python -m refkit.verify replay {run['kernels'][3]['checks'][0]['case_file']}"
    assert page.run("window.copied") == command
    assert page.run("document.querySelector('.failure button.copy').textContent") == "Copied"


def test_a_slider_of_the_planner_changes_the_numbers(page):
    results = "document.getElementById('planner-results').innerText"
    before = page.run(results)
    page.run("document.querySelector('#planner-sizes input[type=range]').focus()")
    for _ in range(3):
        page.press("ArrowRight")
    page.run("new Promise(done => setTimeout(done, 300))")
    after = page.run(results)
    assert before != after
    assert any(character.isdigit() for character in after)


def test_the_browser_would_notice(chromium, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<html><body><img src='no.png'><script>console.error('loud'); undefinedName()</script></body></html>"
    )
    page = chromium.page()
    page.open(bad)
    assert any("loud" in problem for problem in page.problems)
    assert any("undefinedName" in problem for problem in page.problems)
    assert (tmp_path / "no.png").as_uri() in page.requests
    if axe.script():
        assert any(fault.startswith("image-alt") for fault in axe.serious_faults(page))


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(chromium, each_page, width):
    page = chromium.page(width, 844)
    page.open(each_page)
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    wide = page.run(
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, .code, .unseen, .skip, #planner')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + '.' + e.className)"
    )
    assert wide == []


@needs_axe
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_axe_finds_no_serious_fault(chromium, each_page, width, dark):
    page = chromium.page(width, 844, dark=dark)
    page.open(each_page)
    page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert axe.serious_faults(page) == []


def test_on_paper_every_kernel_is_open_and_closes_again(page):
    closed = "document.querySelectorAll('details:not([open])').length"
    before = page.run(closed)
    assert before > 0
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run(closed) == 0
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run(closed) == before


def test_a_report_of_a_hundred_kernels_opens_in_two_seconds(chromium, tmp_path):
    """Counted in seconds of the processor, so that a busy machine does not matter; the figures of ten kernels stand
    for those of a hundred, since their number and not their content decides."""
    ten = synthetic_run(kernels=10, cases=16, failing=(3,))
    page_of_ten = write(ten, tmp_path)
    html = page_of_ten.read_text(encoding="utf-8")
    start = html.index('<details class="kernel')
    end = html.index("</section>", start)
    hundred = tmp_path / "hundred.html"
    hundred.write_text(html[:start] + html[start:end] * 10 + html[end:], encoding="utf-8")
    page = chromium.page()
    page.send("Performance.enable")
    page.open(hundred)
    metrics = {each["name"]: each["value"] for each in page.send("Performance.getMetrics")["metrics"]}
    assert page.run("document.querySelectorAll('details.kernel').length") == 100
    assert metrics["TaskDuration"] > 0
    assert metrics["ProcessTime"] < 2

"""A run as JUnit XML: a suite per kernel, a test case per check; what CI systems show as failed tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from refkit.records import CheckRecord, KernelRecord, RunRecord, Verdict
from refkit.verify.cli import replay_command

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xml(run: RunRecord) -> str:
    """The XML text. `failed` and `mistrusted` are failures, `error` an error, `skipped` a skip with its reason."""
    root = ElementTree.Element("testsuites", name="refkit", time=f"{run.seconds:.3f}")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for kernel in run.kernels:
        suite = _suite(kernel)
        for key in totals:
            totals[key] += int(suite.attrib[key])
        root.append(suite)
    root.attrib |= {key: str(value) for key, value in totals.items()}
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )


def _suite(kernel: KernelRecord) -> ElementTree.Element:
    def count(*verdicts: Verdict) -> str:
        return str(sum(check.status in verdicts for check in kernel.checks))

    suite = ElementTree.Element(
        "testsuite",
        name=kernel.name,
        tests=str(len(kernel.checks)),
        failures=count(Verdict.FAILED, Verdict.MISTRUSTED),
        errors=count(Verdict.ERROR),
        skipped=count(Verdict.SKIPPED),
        time=f"{kernel.seconds:.3f}",
    )
    for check in kernel.checks:
        suite.append(_test_case(kernel, check))
    return suite


def _test_case(kernel: KernelRecord, check: CheckRecord) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"{kernel.operator}.{kernel.name}", name=check.name)
    if check.status is Verdict.PASSED:
        return case
    tag = {Verdict.SKIPPED: "skipped", Verdict.ERROR: "error"}.get(check.status, "failure")
    child = ElementTree.SubElement(case, tag, message=_clean(check.message))
    if check.status is not Verdict.SKIPPED:
        child.attrib["type"] = check.status.value
        replay = replay_command(check.case_file) if check.case_file else ""
        child.text = _clean("\n".join(filter(None, [check.message, check.diagnosis, replay])))
    return case


def _clean(text: str) -> str:
    """`text` without the characters that XML cannot hold."""
    return _NOT_XML.sub("?", text)

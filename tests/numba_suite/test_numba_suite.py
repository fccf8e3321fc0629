"""The script that runs numba-cuda's tests: what it records, counts and leaves out, on small modules of its own."""

import dataclasses
import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("cffi", reason="numba-cuda's tests need cffi")
pytest.importorskip("filecheck", reason="numba-cuda's tests need filecheck")

from tests.numba_suite import reasons, report, results, rules, runner

PROGRAM = """
import numpy as np
from numba import cuda


@cuda.jit
def ramp(x):
    x[cuda.grid(1)] = cuda.grid(1)


def run():
    x = np.zeros(4)
    ramp[1, 4](x)
    return x
"""

SAMPLE = """
import os
import subprocess
import sys
import unittest

import numpy as np
from numba import cuda

from sample_program import ramp, run


def assembly_of(kernel):
    return kernel.inspect_asm()


class TestSample(unittest.TestCase):
    def test_right(self):
        self.assertEqual(run().tolist(), [0, 1, 2, 3])

    def test_wrong(self):
        self.assertEqual(run().tolist(), [0, 1, 2, 4])

    def test_wrong_before_its_launch(self):
        self.assertTrue(False)
        ramp[1, 4](np.zeros(4))

    def test_without_a_kernel(self):
        self.assertEqual(1 + 1, 2)

    def test_assembly_through_a_helper(self):
        run()
        assembly_of(ramp)

    def test_linked(self):
        run()
        cuda.jit(link=["code.cu"])

    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(run()[number], 1)

    @unittest.expectedFailure
    def test_expected_to_fail(self):
        self.assertEqual(run()[0], 1)

    @unittest.skip("not here")
    def test_skipped(self):
        run()

    def test_in_a_process_of_its_own(self):
        program = "from sample_program import run; assert run()[2] == 2"
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_dying(self):
        run()
        os._exit(7)


def test_of_the_module():
    assert run()[3] == 3
"""

EXPECTED = {
    # test: (outcome, launches, what puts it outside the denominator)
    "TestSample::test_right": ("passed", 1, None),
    "TestSample::test_wrong": ("failed", 1, None),
    "TestSample::test_wrong_before_its_launch": ("failed", 0, None),
    "TestSample::test_without_a_kernel": ("passed", 0, "launches nothing"),
    "TestSample::test_assembly_through_a_helper": ("failed", 1, "inspects generated code"),
    "TestSample::test_linked": ("passed", 1, "links foreign code"),
    "TestSample::test_parts": ("failed", 3, None),
    "TestSample::test_expected_to_fail": ("expected failure", 1, None),
    "TestSample::test_skipped": ("skipped", 0, "skipped by the suite"),
    "TestSample::test_in_a_process_of_its_own": ("passed", 1, None),
    "TestSample::test_dying": ("crashed", 1, None),
    "test_of_the_module": ("passed", 1, None),
}


@pytest.mark.cpu
def test_every_test_of_a_module_is_recorded_and_classified(tmp_path, monkeypatch):
    package = tmp_path / "numba_suite_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "sample_program.py").write_text(PROGRAM)
    (package / "test_sample.py").write_text(textwrap.dedent(SAMPLE))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    module = runner.run_module("numba_suite_sample.test_sample", tmp_path)
    assert module.not_collected == ""
    found = {}
    for test in module.tests:
        rule = rules.outside(test)
        found[test.id.partition("::")[2]] = test.outcome, test.launches, rule.name if rule else None
    assert found == EXPECTED
    wrong = next(test for test in module.tests if test.id.endswith("::test_wrong"))
    assert "Lists differ" in wrong.message
    assert wrong.completed == 1


@pytest.mark.cpu
def test_a_module_of_numba_cuda_from_the_command_line(tmp_path):
    found, page = tmp_path / "run.json", tmp_path / "run.md"
    command = [sys.executable, "-m", "tests.numba_suite", "--module", "test_nondet"]
    done = subprocess.run([*command, "--json", str(found), "--markdown", str(page)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 agree: 100.0%" in done.stdout
    document = json.loads(found.read_text())
    (test,) = document["modules"][0]["tests"]
    assert test["id"] == "cudapy/test_nondet.py::TestCudaNonDet::test_for_pre"
    assert (test["outcome"], test["outside"], test["completed"]) == ("passed", None, test["launches"])
    assert test["launches"] >= 1
    assert report.dump(report.load(found)) == found.read_text()
    assert "**1 of 1 tests agree: 100.0%**" in page.read_text()


def test_an_unknown_module_is_refused():
    command = [sys.executable, "-m", "tests.numba_suite", "--module", "test_nothing"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "no test module test_nothing in numba-cuda\n"


def test_a_module_that_cannot_be_imported_is_reported(tmp_path, monkeypatch):
    (tmp_path / "test_broken_sample.py").write_text("import no_such_library\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    module = runner.run_module("test_broken_sample", tmp_path)
    assert module.tests == ()
    assert module.not_collected == "ModuleNotFoundError: No module named 'no_such_library'"
    suite = report.Suite((module,), report.environment())
    assert "no_such_library" in report.summary(suite)
    assert "no_such_library" in report.markdown(suite)
    assert suite.share == 0


def test_all_modules_are_found_and_every_reason_is_a_sentence():
    modules = runner.test_modules()
    for name in ("cudapy.test_atomics", "core.test_serialize", "doc_examples.test_matmul"):
        assert f"numba.cuda.tests.{name}" in modules
    assert len(modules) == len(set(modules)) > 100
    for pattern, reason in reasons.REASONS.items():
        assert ".py::" in pattern
        assert reason[0].isupper()
        assert reason.endswith(".")


def test_a_failure_is_listed_as_unexplained_unless_a_reason_is_known():
    test = results.Test("x.py::a", "failed", "E: no", 1, 0, 0.1, frozenset(), frozenset(), True)
    known = dataclasses.replace(test, id=next(iter(reasons.REASONS)).replace("*", "x"))
    suite = report.Suite((results.Module("m", (test, known)),), report.environment())
    assert report.summary(suite).count("unexplained") == 1
    assert next(iter(reasons.REASONS.values())) in report.summary(suite)

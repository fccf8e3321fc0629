"""A function in a process of its own: its answer, its error, its death, its silence."""

import os
import signal
import time

import pytest

from refkit.verify.errors import SpecError
from refkit.verify.isolation import ProcessLost, run_isolated


def product(a, b):
    return a * b, os.getpid()


def wrong_spec():
    raise SpecError("no good", "k.py:3")


def dies(number):
    os.kill(os.getpid(), number)


def leaves():
    os._exit(7)


def cannot_be_pickled():
    return lambda: None


def test_the_answer_comes_from_another_process():
    answer, process = run_isolated(product, 6, 7)
    assert answer == 42
    assert process != os.getpid()


def test_what_it_raises_is_raised_here():
    with pytest.raises(SpecError, match=r"^k.py:3: no good$"):
        run_isolated(wrong_spec)


def test_an_answer_that_cannot_be_sent_is_an_error_and_no_silence():
    with pytest.raises(RuntimeError, match="function"):
        run_isolated(cannot_be_pickled)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "was ended by SIGSEGV (an access out of bounds can do that)"),
        (signal.SIGKILL, "was ended by SIGKILL (as the system does where memory runs out)"),
        (signal.SIGTERM, "was ended by SIGTERM"),
    ],
)
def test_its_death_is_told(number, words):
    with pytest.raises(ProcessLost) as lost:
        run_isolated(dies, number)
    assert (str(lost.value), lost.value.exitcode) == (words, -number)


def test_leaving_is_told():
    with pytest.raises(ProcessLost, match="ended by itself with status 7"):
        run_isolated(leaves)


def test_it_is_not_waited_for_for_ever():
    started = time.monotonic()
    with pytest.raises(ProcessLost, match=r"gave no answer within 0.5 s"):
        run_isolated(time.sleep, 60, timeout=0.5)
    assert time.monotonic() - started < 30

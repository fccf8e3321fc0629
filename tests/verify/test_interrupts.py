"""Ctrl-C and SIGTERM: the first ends the work, a later one costs nothing, and child processes never see them."""

import os
import signal
import subprocess
import sys

import pytest

from refkit.verify.interrupts import interrupted_once, uninterruptible_child

NUMBERS = (signal.SIGINT, signal.SIGTERM)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("second", NUMBERS)
def test_the_first_interrupt_counts_and_later_ones_are_dropped(first, second):
    before = [signal.getsignal(number) for number in NUMBERS]
    came_through = False
    with interrupted_once():
        try:
            send(first)
            pytest.fail("the first interrupt was dropped")
        except KeyboardInterrupt:
            send(second)
            came_through = True
    assert came_through
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_a_background_job_stays_deaf_to_the_terminal():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_once():
            send(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_child_does_not_see_the_interrupt():
    command = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('alive')"]
    with uninterruptible_child():
        child = subprocess.run(command, capture_output=True, text=True)
    assert (child.returncode, child.stdout) == (0, "alive\n")
    assert subprocess.run(command, capture_output=True).returncode != 0

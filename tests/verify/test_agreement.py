"""Agreement of two backends: the CPU executor with itself, and with kernels that differ."""

from dataclasses import replace

import numpy as np
import pytest

from refkit.verify import agreement
from refkit.verify.backends import open_backend
from refkit.verify.discovery import shipped

pytestmark = pytest.mark.cpu


class Shifted:
    """A backend whose results are all off by a little: what a GPU with a fault would look like."""

    def __init__(self, scale: float) -> None:
        self._backend = open_backend("cpu")
        self._scale = scale
        self.name, self.schedules = "shifted", True

    def __getattr__(self, name: str):
        return getattr(self._backend, name)

    def download(self, handle):
        host = handle.array.host
        if host.dtype == np.float32 and host.flags.writeable:
            host[...] *= np.float32(self._scale)
        return self._backend.download(handle)


def test_a_backend_agrees_with_itself():
    spec = shipped()["linear_db"]
    result = agreement.compare(spec, open_backend("cpu"), open_backend("cpu"), 3)
    assert result.holds
    assert result.exact_outputs == ("db",)
    assert result.integer_cases > 0
    assert result.worst == 0


def test_a_backend_that_is_off_does_not():
    spec = shipped()["linear_db"]
    result = agreement.compare(spec, open_backend("cpu"), Shifted(1.01), 3)
    assert not result.holds
    assert result.differing_bits > 0
    assert result.worst > 1


def test_a_launch_that_fails_is_no_agreement():
    spec = shipped()["linear_db"]

    def broken(*arguments, **options):
        raise RuntimeError("no")

    result = agreement.compare(replace(spec, launch=broken), open_backend("cpu"), open_backend("cpu"), 1)
    assert not result.holds
    assert "no" in result.failures[0]

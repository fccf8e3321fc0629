"""Errors carry the user's own file and line."""

import inspect
import pickle

import numpy as np
import pytest

from refkit.numerics.precision import Precision
from refkit.verify.dims import Dim
from refkit.verify.errors import SpecError, caller_location, raised_at


def test_caller_location_is_the_line_outside_the_library():
    line = inspect.currentframe().f_lineno + 1
    assert caller_location() == f"{__file__}:{line}"


def test_spec_error_starts_with_file_and_line():
    with pytest.raises(SpecError) as caught:
        Dim("")
    line = inspect.currentframe().f_lineno - 1
    assert str(caught.value).startswith(f"{__file__}:{line}: Dim name is ''")


def test_spec_error_survives_pickling():
    error = pickle.loads(pickle.dumps(SpecError("wrong", "kernel.py:3")))
    assert (error.message, error.source, str(error)) == ("wrong", "kernel.py:3", "kernel.py:3: wrong")


def test_raised_at_stops_at_the_users_frame():
    with pytest.raises(np.linalg.LinAlgError) as caught:
        np.linalg.inv(np.zeros((2, 2)))
    line = inspect.currentframe().f_lineno - 1
    assert raised_at(caught.value) == f"{__file__}:{line}"


def test_raised_at_is_empty_without_a_users_frame():
    assert raised_at(ValueError("never raised")) == ""


def test_a_value_that_refkit_refuses_is_the_users_line():
    with pytest.raises(ValueError, match="float33") as caught:
        Precision(multiply="float33")
    line = inspect.currentframe().f_lineno - 1
    assert raised_at(caught.value) == f"{__file__}:{line}"


def test_a_compiled_extension_is_nobodys_line():
    with pytest.raises(MemoryError) as caught:
        np.random.default_rng(0).integers(0, 2, 10**14)
    line = inspect.currentframe().f_lineno - 1
    assert raised_at(caught.value) == f"{__file__}:{line}"

"""A case survives JSON and pickling to the last bit, and can be hashed."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refkit.verify.case import Case, FrozenMapping

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('ab ü"\\n', max_size=5)
names = st.text("abcxyz_", min_size=1, max_size=4)


@settings(derandomize=True, database=None, max_examples=100)
@given(
    st.builds(
        Case,
        dims=st.dictionaries(names, max_size=3, values=st.integers(0, 2**40)),
        config=st.dictionaries(names, max_size=3, values=scalars | st.lists(scalars, max_size=3)),
        layouts=st.dictionaries(names, max_size=3, values=st.sampled_from(["strided", "offset"])),
        scalars=st.dictionaries(names, max_size=3, values=st.booleans() | st.integers() | st.floats(allow_nan=False)),
        absent=st.lists(names, max_size=2),
        seed=st.integers(0, 2**64),
    )
)
def test_json_round_trip_is_exact(case):
    text = json.dumps(case.to_json(), allow_nan=False)
    back = Case.from_json(text)
    assert back == case
    assert hash(back) == hash(case)
    # == does not tell 1 from True or 1.0.
    assert repr(back) == repr(case)
    assert repr(pickle.loads(pickle.dumps(case))) == repr(case)


def test_nan_survives_json():
    case = Case(dims={}, scalars={"alpha": math.nan})
    back = Case.from_json(json.dumps(case.to_json(), allow_nan=False))
    assert math.isnan(back.scalars["alpha"])


def test_numpy_values_become_plain():
    case = Case(dims={"R": np.int64(3)}, config={"tile": [8, np.int32(16)]}, scalars={"alpha": np.float32(0.1)})
    assert type(case.dims["R"]) is int
    assert case.config["tile"] == (8, 16)
    assert case.scalars["alpha"] == float(np.float32(0.1))


def test_case_is_frozen_and_hashable():
    case = Case(dims={"R": 1})
    assert {case: 1}[Case(dims={"R": 1})] == 1
    with pytest.raises(AttributeError):
        case.seed = 2
    with pytest.raises(TypeError):
        case.dims["R"] = 2


def test_layout_defaults_to_contiguous():
    case = Case(dims={}, layouts={"x": "strided"})
    assert case.layout("x") == "strided"
    assert case.layout("y") == "contiguous"


def test_frozen_mapping_equals_a_dict():
    assert FrozenMapping({"a": 1}) == {"a": 1}
    assert FrozenMapping({"a": 1}) != {"a": 2}


def test_a_value_that_no_file_can_hold_is_refused():
    with pytest.raises(TypeError, match="cannot be kept in a case"):
        Case(dims={}, config={"op": max})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "at least 'dims'"),
        ([], "at least 'dims'"),
        ({"dims": {}, "colour": 1}, "unknown field 'colour'"),
        ({"dims": {}, "scalars": {"a": {"strange": 1}}}, "expected a plain value"),
    ],
)
def test_wrong_case_data_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        Case.from_json(data)

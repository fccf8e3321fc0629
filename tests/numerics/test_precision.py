import dataclasses

import pytest

from refkit.numerics.precision import Precision


def test_unit_roundoff_is_that_of_the_accumulation():
    assert Precision().unit_roundoff == 2.0**-24
    assert Precision(accumulate="bfloat16").unit_roundoff == 2.0**-8
    assert Precision(multiply="tf32").multiply_format.unit_roundoff == 2.0**-11


def test_low_formats_of_operands_mean_tensor_cores():
    assert not Precision().tensor_cores
    assert Precision(multiply="bfloat16").tensor_cores


@pytest.mark.parametrize("wrong", [{"multiply": "float12"}, {"accumulate": "int32"}, {"fast_math": 1}])
def test_wrong_fields_are_named(wrong):
    (field, value) = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"{field}={value!r}"):
        Precision(**wrong)


def test_a_precision_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Precision().multiply = "tf32"

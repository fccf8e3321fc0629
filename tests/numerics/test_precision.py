import dataclasses

import numpy as np
import pytest

from refkit.numerics import FORMATS, evaluate, round_to
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


def test_operands_of_one_value_are_all_rounded_the_same_way():
    # 4.0996561 lies near the middle between two tf32 numbers: each of the 46 errors is 4.65e-4 of its product.
    a, b = np.full((1, 46), 4.099656105041504), np.full((46, 1), 59.05238723754883)
    rounded = round_to(a, FORMATS["tf32"]) @ round_to(b, FORMATS["tf32"])
    (bound,) = evaluate(lambda a, b: a @ b, {"a": a, "b": b}, Precision(multiply="tf32"), ["float32"])
    assert np.abs(rounded - a @ b) <= bound.allowed
    a_term_short = rounded * 45 / 46
    assert not np.abs(a_term_short - a @ b) <= bound.allowed

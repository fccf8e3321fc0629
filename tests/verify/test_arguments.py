"""Arguments check themselves and name the value that is wrong."""

import ml_dtypes
import numpy as np
import pytest

from refkit.verify.arguments import Flag, In, Index, InOut, Out, Scalar, storage_dtype
from refkit.verify.dims import Dim
from refkit.verify.errors import SpecError

R, C = Dim("R"), Dim("C")


def test_roles():
    assert not In(R).is_output
    assert In(R).given
    assert Out(R).is_output
    assert not Out(R).given
    assert InOut(R).is_output
    assert InOut(R).given
    assert Index(R, below=C).given
    assert not Index(R, below=C).is_float
    assert Flag().role == "flag"


def test_dims_may_be_expressions_and_integers():
    argument = In(R, C + 1, 4)
    assert tuple(dim.evaluate({"R": 2, "C": 3}) for dim in argument.dims) == (2, 4, 4)


def test_dtype_by_name_or_type():
    assert In(R, dtype=np.float16).dtype == "float16"
    assert In(R, dtype=ml_dtypes.bfloat16).dtype == "bfloat16"
    assert storage_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)
    assert storage_dtype("int32") == np.dtype(np.int32)
    assert In(R, dtype="float8_e4m3fn").storage.itemsize == 1


def test_optional_only_where_said():
    assert In(R, optional=True).is_optional
    assert not In(R).is_optional
    assert not Out(R).is_optional


def test_arguments_are_frozen():
    with pytest.raises(AttributeError):
        In(R).dtype = "float64"


def test_layouts_are_sorted_plainest_first():
    assert In(R, layouts=("broadcast", "offset", "contiguous")).layouts == ("contiguous", "offset", "broadcast")


def test_scalar_values_are_rounded_to_the_dtype():
    scalar = Scalar([0.1, 1.0])
    assert scalar.values == (float(np.float32(0.1)), 1.0)
    assert Scalar(1e-5).values == (float(np.float32(1e-5)),)
    assert Scalar(range(3), dtype="int32").values == (0, 1, 2)
    assert Scalar("positive").values[0] == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: In(R, dtype="float31"), "In: dtype is 'float31'; expected one of float32"),
        (lambda: Out(R, dtype=complex), "Out: dtype is 'complex'"),
        (lambda: In("R"), "a dim is 'R'"),
        (lambda: In(R, values="norml"), "In: values is 'norml'; expected None, one of normal"),
        (lambda: InOut(R, values=3), "InOut: values is 3"),
        (lambda: In(R, optional=1), "In: optional is 1; expected True or False"),
        (lambda: In(R, layouts=("strid",)), "In: layout 'strid' is unknown"),
        (lambda: In(R, layouts="strided"), "In: layouts is 'strided'; expected a tuple"),
        (lambda: Out(R, layouts=("broadcast",)), "Out: layout 'broadcast' is for inputs only"),
        (lambda: Index(R, below=C, dtype="float32"), "Index: dtype is 'float32'"),
        (lambda: Index(R, below=C, ignore=0.5), "Index: ignore is 0.5"),
        (lambda: Index(R, below=C, ignore=-1, dtype="uint32"), "ignore is -1, which uint32 does not hold"),
        (lambda: Index(R, below=C, ignore=-1000, dtype="int8"), "ignore is -1000, which int8 does not hold"),
        (lambda: Index(R, below=C, out_of_range="wrap"), "out_of_range is 'wrap'; expected None or 'error'"),
        (lambda: Index(R, below="C"), "a dim is 'C'"),
        (lambda: Scalar([]), "Scalar: values is empty"),
        (lambda: Scalar("norml"), "Scalar: values is 'norml'"),
        (lambda: Scalar(["a"]), "Scalar: values holds 'a'"),
        (lambda: Scalar(0.5, dtype="int32"), "0.5 does not fit int32"),
        (lambda: Scalar(300, dtype="uint8"), "300 does not fit uint8"),
        (lambda: Scalar(1, dtype="f4"), "Scalar: dtype is 'f4'"),
    ],
)
def test_wrong_argument_names_value_expectation_and_line(make, message):
    with pytest.raises(SpecError, match=message.replace("(", r"\(")) as caught:
        make()
    assert caught.value.source.startswith(__file__)

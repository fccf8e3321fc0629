import inspect
import re

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

from refkit.cuda_kernels.launch import (
    FLOAT32,
    FLOATS,
    INTEGERS,
    add_into,
    ceil_div,
    launcher,
    read,
    transposed,
    update,
    write,
)

pytestmark = pytest.mark.cpu


@launcher(x=read("T", "K"), w=read("K", "N"), b=read("N", optional=True), y=write("T", "N"))
def project(x, w, b, y, tile=16, *, stream=None):
    """What it does."""
    return x, w, b, y, tile, stream


def device(*shape, dtype=np.float32):
    return cuda.device_array(shape, dtype)


def refused(error, text, launch, *args, **kwargs):
    with pytest.raises(error, match="^" + re.escape(text)):
        launch(*args, **kwargs)


# ------------------------------------------------------------------------------------------------ what passes


def test_arrays_pass_as_they_are_and_other_values_as_they_were_given():
    x, w, b, y = device(4, 3), device(3, 5), device(5), device(4, 5)
    got = project(x, w, b, y=y, tile=8)
    assert all(a is b for a, b in zip(got, (x, w, b, y)))
    assert got[4:] == (8, 0)
    assert project(x, w, b, y)[4] == 16


def test_name_docstring_signature_and_declaration_can_be_read():
    assert (project.__name__, project.__doc__) == ("project", "What it does.")
    parameters = inspect.signature(project).parameters
    assert list(parameters) == ["x", "w", "b", "y", "tile", "stream"]
    assert parameters["stream"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["stream"].default is None
    assert {name: array.shape for name, array in project.arrays.items()} == {
        "x": "(T, K)",
        "w": "(K, N)",
        "b": "(N,)",
        "y": "(T, N)",
    }
    assert project.arrays["b"].optional


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_an_absent_array_has_no_elements_and_the_dtype_of_the_first_float_input(dtype):
    b = project(device(4, 3, dtype=dtype), device(3, 5), None, device(4, 5))[2]
    assert (b.shape, b.dtype) == ((0,), dtype)


def test_outputs_and_integers_do_not_decide_the_dtype_of_an_absent_array():
    @launcher(y=write("T"), index=read("T", dtypes=INTEGERS), x=read("T"), b=read("T", optional=True))
    def launch(y, index, x, b=None, *, stream=None):
        return b

    assert launch(device(3, dtype=np.float16), device(3, dtype=np.int32), device(3)).dtype == np.float32


def test_an_absent_array_has_as_many_axes_as_declared_and_one_of_its_own_dtypes():
    @launcher(
        x=read("T"), lse=write("B", "H", dtypes=FLOAT32, optional=True), rows=read("T", dtypes=INTEGERS, optional=True)
    )
    def launch(x, lse=None, rows=None, *, stream=None):
        return lse, rows

    lse, rows = launch(device(3, dtype=np.float16))
    assert (lse.shape, lse.dtype) == ((0, 0), np.float32)
    assert (rows.shape, rows.dtype) == ((0,), np.int32)


def test_dtypes_are_given_by_name_or_type_or_alone():
    @launcher(
        a=read("T", dtypes=("bool", np.uint8)),
        b=read("T", dtypes=np.int32),
        c=update("T", dtypes=(*FLOATS, "float64")),
    )
    def launch(a, b, c, *, stream=None):
        return True

    assert launch(device(2, dtype=np.bool_), device(2, dtype=np.int32), device(2, dtype=np.float64))
    refused(
        TypeError,
        "launch: a has dtype int64, expected bool or uint8",
        launch,
        device(2, dtype=np.int64),
        device(2, dtype=np.int32),
        device(2),
    )


@pytest.mark.parametrize("shapes", [((0, 3), (3, 5), (0, 5)), ((4, 0), (0, 5), (4, 5)), ((4, 3), (3, 0), (4, 0))])
def test_arrays_without_elements_pass(shapes):
    x, w, y = (device(*shape) for shape in shapes)
    assert project(x, w, None, y)[3] is y


def test_one_launcher_serves_any_layout_one_after_the_other():
    @cuda.jit
    def add_rows_kernel(x, y):
        row, column = cuda.grid(2)
        if row < y.shape[0] and column < y.shape[1]:
            y[row, column] += float32(x[row, column])

    @launcher(x=read("T", "C"), y=add_into("T", "C"))
    def add_rows(x, y, *, stream=None):
        add_rows_kernel[(ceil_div(y.shape[0], 8), ceil_div(y.shape[1], 8)), (8, 8), stream](x, y)

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = cuda.to_device(np.zeros((3, 4), np.float32))
    wide = cuda.to_device(np.repeat(values, 2, axis=1))
    add_rows(cuda.to_device(values), y)
    add_rows(wide[:, ::2], y)
    add_rows(
        transposed(cuda.to_device(np.ascontiguousarray(values.T))), transposed(transposed(y)), stream=cuda.stream()
    )
    np.testing.assert_array_equal(y.copy_to_host(), 3 * values)


# ------------------------------------------------------------------------------------------------ what is refused


def test_a_wrong_shape_says_what_was_expected_and_where_that_comes_from():
    x, w, b, y = device(4, 3), device(3, 5), device(5), device(4, 5)
    refused(
        ValueError, "project: w has shape (2, 5), expected (3, N) = (K, N) (K = 3 in x)", project, x, device(2, 5), b, y
    )
    refused(ValueError, "project: b has shape (4,), expected (5,) = (N,) (N = 5 in w)", project, x, w, device(4), y)
    refused(
        ValueError,
        "project: y has shape (5, 4), expected (4, 5) = (T, N) (T = 4 in x, N = 5 in w)",
        project,
        x,
        w,
        b,
        device(5, 4),
    )


def test_a_wrong_number_of_axes():
    refused(
        ValueError,
        "project: x has shape (12,), expected 2 axes (T, K)",
        project,
        device(12),
        device(3, 5),
        None,
        device(4, 5),
    )


def test_a_wrong_dtype():
    x, w, y = device(4, 3), device(3, 5, dtype=np.float64), device(4, 5)
    refused(TypeError, "project: w has dtype float64, expected float32, bfloat16 or float16", project, x, w, None, y)


def test_an_absent_array_that_is_not_optional():
    refused(
        TypeError,
        "project: w is None, expected an array of shape (K, N)",
        project,
        device(4, 3),
        None,
        None,
        device(4, 5),
    )


def test_a_wrong_call_is_told_in_pythons_own_words():
    x, w, y = device(4, 3), device(3, 5), device(4, 5)
    refused(TypeError, "project: missing a required argument: 'y'", project, x, w, None)
    refused(TypeError, "project: got an unexpected keyword argument 'z'", project, x, w, None, y, z=1)
    refused(TypeError, "project: multiple values for argument 'x'", project, x, w, None, y, x=x)
    refused(TypeError, "project: too many positional arguments", project, x, w, None, y, 16, 0)


def test_nothing_is_launched_before_the_last_array_is_checked():
    called = []

    @launcher(x=read("T"), y=write("T"))
    def launch(x, y, *, stream=None):
        called.append(1)

    refused(ValueError, "launch: y has shape (4,)", launch, device(3), device(4))
    assert not called
    launch(device(3), device(3))
    assert called


def test_a_multiple_of_a_dim_is_where_it_is_known_from_or_checked():
    @launcher(packed=read("T", "2*I"), gate=write("T", "I"), ends=read("T+1", dtypes=INTEGERS))
    def split(packed, gate, ends, *, stream=None):
        return True

    ends = device(5, dtype=np.int32)
    assert split(device(4, 6), device(4, 3), ends)
    refused(
        ValueError,
        "split: gate has shape (4, 6), expected (4, 3) = (T, I) (T = 4 in packed, I = 3 in packed)",
        split,
        device(4, 6),
        device(4, 6),
        ends,
    )
    refused(ValueError, "split: packed has shape (4, 7), expected (4, 2*I)", split, device(4, 7), device(4, 3), ends)
    refused(
        ValueError,
        "split: ends has shape (4,), expected (5,) = (T+1,) (T = 4 in packed)",
        split,
        device(4, 6),
        device(4, 3),
        ends[:4],
    )


def test_a_fixed_dim():
    @launcher(state=update(3, dtypes=INTEGERS))
    def launch(state, *, stream=None):
        return True

    assert launch(device(3, dtype=np.int64))
    refused(ValueError, "launch: state has shape (4,), expected (3,)", launch, device(4, dtype=np.int64))


# --------------------------------------------------------------------------------- declarations that do not fit


def test_a_declared_array_must_be_a_parameter():
    with pytest.raises(
        TypeError, match=r"launcher f: array 'z' is declared, but is no parameter of f\(x, \*, stream=None\)"
    ):

        @launcher(z=read("T"))
        def f(x, *, stream=None): ...


def test_the_stream_must_be_a_keyword_with_default_none():
    def without(x): ...
    def positional(x, stream=None): ...
    def without_default(x, *, stream): ...
    def zero(x, *, stream=0): ...

    for function in (without, positional, without_default, zero):
        with pytest.raises(TypeError, match="expected a keyword-only parameter stream=None"):
            launcher(x=read("T"))(function)


def test_every_dim_can_be_known():
    with pytest.raises(TypeError, match="launcher f: x has the dim 'H\\*D', but no array has H as a dim"):

        @launcher(x=read("H*D"), y=read("D"))
        def f(x, y, *, stream=None): ...


@pytest.mark.parametrize("pair", [("x", "z"), ("x", "x"), ("x", "w")])
def test_in_place_names_two_arrays_one_of_them_written(pair):
    with pytest.raises(TypeError, match=r"launcher f: in_place names .* expected two declared arrays, one written"):

        @launcher(x=read("T"), w=read("T"), y=write("T"), in_place=pair)
        def f(x, w, y, *, stream=None): ...

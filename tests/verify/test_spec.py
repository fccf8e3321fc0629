"""KernelSpec: what it derives, and every mistake in it as one line with the user's file and line."""

import inspect
import re

import numpy as np
import pytest

from refkit.verify import Dim, Flag, In, Index, InOut, KernelSpec, Out, Precision, Scalar, SpecError

R, C = Dim("R"), Dim("C")


def scale_rows(x, s, y):
    y[...] = x * s[:, None]


def make(**changes):
    fields = {
        "launch": scale_rows,
        "reference": lambda x, s: x * s[:, None],
        "args": {"x": In(R, C), "s": In(R), "y": Out(R, C)},
    }
    return KernelSpec(**{**fields, **changes})


def test_defaults():
    spec = make()
    assert spec.name == spec.operator == "scale_rows"
    assert spec.direction == "forward"
    assert spec.precision == Precision()
    assert spec.deterministic
    assert not spec.nonfinite
    assert spec.layouts == ("contiguous", "strided", "transposed", "offset", "broadcast")
    assert spec.combinations == ({},)
    assert list(spec.dims) == ["R", "C"]
    assert list(spec.inputs) == ["x", "s"]
    assert list(spec.outputs) == ["y"]
    assert spec.optional == ()


def test_source_is_the_line_of_the_spec():
    spec = KernelSpec(launch=scale_rows, reference=lambda x: x, args={"x": In(R), "s": In(R), "y": Out(R)})
    assert spec.source == f"{__file__}:{inspect.currentframe().f_lineno - 1}"
    assert repr(spec) == f"KernelSpec('scale_rows', {spec.source})"


def test_direction_and_derivative():
    assert make(derivative_of=lambda x, s: x).direction == "backward"
    assert make(direction="backward").direction == "backward"


def test_operator_is_the_stem_of_a_kernel_file():
    def launch(x, s, y):
        pass

    launch.__module__ = "refkit.cuda_kernels.row_scaling"
    assert make(launch=launch).operator == "row_scaling"
    assert make(launch=launch, operator="scaling").operator == "scaling"


def test_named_keeps_what_was_given():
    spec = make()
    renamed = spec.named("rows", "rows.py")
    assert (renamed.name, renamed.operator, renamed.target, renamed.source) == ("rows", "rows", "rows.py", spec.source)
    assert make(name="mine").named("rows").name == "mine"
    assert make(operator="mine").named("rows").operator == "mine"


def test_combinations_are_the_product_first_values_first():
    spec = make(launch=lambda x, s, y, block, tile: None, configs={"block": [64, 128], "tile": [8, 16]})
    assert [tuple(config.values()) for config in spec.combinations] == [(64, 8), (64, 16), (128, 8), (128, 16)]


def test_layouts_of_each_argument():
    spec = KernelSpec(
        launch=lambda x, v, i, only, acc, y: None,
        reference=lambda x: x,
        args={
            "x": In(R, C),
            "v": In(R),
            "i": Index(R, below=C, unique=True),
            "only": In(R, C, layouts=("offset",)),
            "acc": InOut(R),
            "y": Out(R, C, layouts=("contiguous", "strided")),
        },
        layouts=("transposed", "broadcast", "contiguous"),
    )
    assert {name: spec.layouts_of(name) for name in spec.arrays} == {
        "x": ("contiguous", "transposed", "broadcast"),
        "v": ("contiguous", "broadcast"),
        "i": ("contiguous",),
        "only": ("offset",),
        "acc": ("contiguous",),
        "y": ("contiguous", "strided"),
    }


def test_call_passes_arguments_in_order_and_configs_by_name():
    got = []
    spec = make(launch=lambda x, s, y, block: got.append((x, s, y, block)), configs={"block": [1]})
    spec.call({"y": 3, "x": 1, "s": 2}, {"block": 4})
    assert got == [(1, 2, 3, 4)]


def test_dims_include_those_of_index_ranges():
    spec = make(args={"x": In(R), "s": Index(R, below=Dim("V") + 1), "y": Out(C)})
    assert list(spec.dims) == ["R", "V", "C"]


def test_match_outputs_gives_one_value_per_output():
    spec = KernelSpec(
        launch=lambda x, acc, y: None, reference=lambda x: x, args={"x": In(R), "acc": InOut(C), "y": Out(R, C)}
    )
    first, second = spec.match_outputs((np.zeros(3), np.zeros((2, 3))), {"R": 2, "C": 3})
    assert (first.shape, second.shape) == ((3,), (2, 3))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros((2, 3)), "the reference returned 1 output for {'R': 2, 'C': 3}; expected 2: acc, y"),
        ((1, 2, 3), "the reference returned 3 outputs"),
        ((np.zeros(3), np.zeros((3, 2))), "shape (3, 2) for output 'y' for {'R': 2, 'C': 3}; expected (2, 3)"),
        ((0.0, np.zeros((2, 3))), "shape () for output 'acc'"),
        (None, "the reference returned 1 output"),
    ],
)
def test_outputs_that_do_not_match(returned, message):
    spec = KernelSpec(
        launch=lambda x, acc, y: None, reference=lambda x: x, args={"x": In(R), "acc": InOut(C), "y": Out(R, C)}
    )
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        spec.match_outputs(returned, {"R": 2, "C": 3})
    assert caught.value.source == spec.source


def test_check_reference_accepts_a_good_one():
    make().check_reference()
    make(reference=lambda x, s, C: (x * s[:, None]).reshape(-1, C)).check_reference()


def test_check_reference_names_a_wrong_shape():
    with pytest.raises(SpecError, match=r"shape \(5, 3\) for output 'y' .* expected \(3, 5\)"):
        make(reference=lambda x, s: (x * s[:, None]).T).check_reference()


def test_check_reference_points_into_a_reference_that_raises():
    def broken(x, s):
        return x @ s

    spec = make(reference=broken)
    line = inspect.getsourcelines(broken)[1] + 1
    with pytest.raises(SpecError, match="the reference raised ValueError: matmul") as caught:
        spec.check_reference()
    assert caught.value.source == f"{__file__}:{line}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"launch": 3}, "launch is 3; expected a function"),
        ({"reference": None}, "reference is None; expected a function"),
        ({"launch": lambda x, y: None}, "has no parameter 's', which args declares"),
        ({"launch": lambda x, s, y, n: None}, "has the parameter 'n'"),
        ({"reference": lambda x, z: x}, "reference names the unknown argument 'z'"),
        ({"reference": lambda x, y: x}, "unknown argument 'y'; it is an Out"),
        ({"args": {}}, "args is {}; expected a dict"),
        ({"args": [1]}, "args is [1]; expected a dict"),
        ({"args": {"x": In(R, C), "s": 3, "y": Out(R)}}, "args['s'] is 3; expected In, Out"),
        ({"args": {"x": In(R, C), "s": Flag, "y": Out(R)}}, "(call it)"),
        ({"args": {"x": In(R, C), "s": In(R), "y": In(R)}}, "args has no Out and no InOut"),
        ({"args": {"x": In(R, C), "s": In(Dim("R", max=5)), "y": Out(R)}}, "two dims are named 'R' but differ"),
        ({"args": {"x": In(R, C), "s": In(R), "y": Out(Dim("x"))}}, "'x' is an argument and also a dim"),
        ({"configs": {"block": [64]}}, "has no parameter 'block', which configs declares"),
        ({"configs": {"block": []}}, "configs['block'] is []; expected a list with at least one value"),
        ({"configs": {"block": 64}}, "configs['block'] is 64"),
        ({"configs": {"block": [max]}}, "configs['block']: <built-in function max> cannot be kept in a case"),
        ({"configs": [64]}, "configs is [64]; expected a dict"),
        ({"configs": {"x": [64]}}, "'x' is an argument and also a config"),
        ({"layouts": ("diagonal",)}, "KernelSpec: layout 'diagonal' is unknown; expected one of contiguous"),
        ({"precision": "float32"}, "precision is 'float32'; expected a Precision"),
        ({"deterministic": 1}, "deterministic is 1; expected True or False"),
        ({"nonfinite": "yes"}, "nonfinite is 'yes'; expected True or False"),
        ({"direction": "sideways"}, "direction is 'sideways'; expected 'forward' or 'backward'"),
        ({"derivative_of": "scale"}, "derivative_of is 'scale'; expected a function"),
        ({"derivative_of": lambda q: q}, "derivative_of names the unknown argument 'q'"),
        ({"requires": 16}, "requires is 16; expected a function"),
        ({"requires": lambda K: K}, "requires names the unknown argument 'K'"),
        ({"requires": lambda x: x}, "unknown argument 'x'; it is an argument; requires takes dims and configs"),
    ],
)
def test_a_wrong_spec_is_one_line_with_file_and_line(changes, message):
    with pytest.raises(SpecError, match=re.escape(message)) as caught:
        make(**changes)
    assert re.match(re.escape(__file__) + r":\d+: ", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_numba_kernel_is_no_launcher():
    from numba import cuda

    @cuda.jit
    def kernel(x, s, y):
        y[0] = x[0]

    with pytest.raises(SpecError, match="launch is the kernel 'kernel'; expected a function that launches it"):
        make(launch=kernel)


def test_plain_scalars():
    spec = make(
        launch=lambda x, s, y, alpha, on: None,
        args={"x": In(R, C), "s": In(R), "y": Out(R, C), "alpha": Scalar([0.5, 2.0]), "on": Flag()},
    )
    assert spec.plain_scalars() == {"alpha": 0.5, "on": False}


def test_public_names():
    import refkit.verify

    for name in ("Dim", "In", "Out", "InOut", "Index", "Scalar", "Flag", "KernelSpec", "Precision"):
        assert hasattr(refkit.verify, name)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda x: x * 1j, "the reference returned complex128 for output 'y'"),
        (lambda x: x.astype(object), "the reference returned object for output 'y'"),
        (lambda x: x.astype(str), "the reference returned <U32 for output 'y'"),
        (lambda x: x * np.random.default_rng().random(), "the reference gives other values of 'y'"),
    ],
)
def test_a_reference_that_cannot_be_compared_with(reference, words):
    spec = KernelSpec(launch=lambda x, y: None, reference=reference, args={"x": In(R), "y": Out(R)})
    with pytest.raises(SpecError, match=f"{__file__}:\\d+: {words}"):
        spec.check_reference()


def test_a_reference_may_write_to_its_arguments_and_give_nan():
    def reference(x):
        x += 1
        return x * np.nan

    KernelSpec(launch=lambda x, y: None, reference=reference, args={"x": In(R), "y": Out(R)}).check_reference()

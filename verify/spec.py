"""`KernelSpec`: what a kernel promises, on a page. Everything that refkit does to a kernel starts here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from refkit.numerics.precision import Precision
from refkit.verify import signatures
from refkit.verify.arguments import (
    Argument,
    ArrayArgument,
    Flag,
    Index,
    Scalar,
    check_bool,
    check_layouts,
)
from refkit.verify.backends.architecture import parse as parse_architecture
from refkit.verify.case import Case, FrozenMapping, plain
from refkit.verify.dims import Dim
from refkit.verify.errors import USERS_FAULTS, SpecError, caller_location, raised_at
from refkit.verify.layouts import LAYOUTS, makes_a_difference

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from refkit.records import KernelRecord
    from refkit.verify.checkable import CheckableCase


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelSpec:
    """One kernel: its launcher, its float64 reference, and what the launcher may be given.

    `launch(*args, **config)` runs the kernel. `reference` receives inputs, dims and configs by name and returns the
    outputs in the order of `args`. `configs` are launcher keywords, each with its values. `requires` takes dims (and
    configs) by name. `derivative_of` is the forward reference of a backward kernel. `needs` is the GPU architecture
    without which the kernel is skipped: `sm_80` means 8.0 or higher, `sm_90a` 9.0 and no other. `name`, `operator` and
    `direction` follow from the module where they are not given; `source` is `file:line` of the spec, `target` what
    `discovery.load_target` finds it by. Raises `SpecError`.
    """

    launch: Callable[..., Any]
    reference: Callable[..., Any]
    args: Mapping[str, Argument]
    precision: Precision = field(default_factory=Precision)
    deterministic: bool = True
    nonfinite: bool = False
    layouts: Sequence[str] = LAYOUTS
    configs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    derivative_of: Callable[..., Any] | None = None
    requires: Callable[..., bool] | None = None
    needs: str = ""
    name: str = ""
    operator: str = ""
    direction: str = ""
    source: str = ""
    target: str = ""

    def __post_init__(self) -> None:
        self._set("source", self.source or caller_location())
        signatures.check_callable(self.launch, "launch", self.source)
        signatures.check_callable(self.reference, "reference", self.source)
        self._set("args", FrozenMapping(self._checked_args()))
        self._set("configs", FrozenMapping(self._checked_configs()))
        self._check_plain_fields()
        self._check_dims()
        self._check_signatures()

    def __repr__(self) -> str:
        return f"KernelSpec({self.name!r}, {self.source})"

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def wrong(self, message: str) -> SpecError:
        """The error to raise for this spec: `message` after the spec's own `file:line`."""
        return SpecError(message, self.source)

    # -- checks -------------------------------------------------------------------------------------------------

    def _checked_args(self) -> dict[str, Argument]:
        if not isinstance(self.args, Mapping) or not self.args:
            raise self.wrong(f"args is {self.args!r}; expected a dict from the launcher's parameters to In, Out, ...")
        for name, argument in self.args.items():
            if not isinstance(argument, Argument):
                hint = " (call it)" if isinstance(argument, type) and issubclass(argument, Argument) else ""
                raise self.wrong(
                    f"args[{name!r}] is {argument!r}; expected In, Out, InOut, Index, Scalar or Flag{hint}"
                )
        if not any(isinstance(a, ArrayArgument) and a.is_output for a in self.args.values()):
            raise self.wrong("args has no Out and no InOut; expected at least one output to compare")
        return dict(self.args)

    def _checked_configs(self) -> dict[str, tuple[Any, ...]]:
        if not isinstance(self.configs, Mapping):
            raise self.wrong(f"configs is {self.configs!r}; expected a dict such as {{'block': [64, 128]}}")
        configs = {}
        for name, choices in self.configs.items():
            if isinstance(choices, str) or not isinstance(choices, Sequence) or not choices:
                raise self.wrong(f"configs[{name!r}] is {choices!r}; expected a list with at least one value")
            try:
                configs[name] = tuple(plain(choice) for choice in choices)
            except TypeError as error:
                raise self.wrong(f"configs[{name!r}]: {error}") from None
        return configs

    def _check_plain_fields(self) -> None:
        if not isinstance(self.precision, Precision):
            raise self.wrong(f"precision is {self.precision!r}; expected a Precision")
        check_bool(self.deterministic, "deterministic")
        check_bool(self.nonfinite, "nonfinite")
        self._set("layouts", check_layouts(self.layouts, "KernelSpec"))
        if self.derivative_of is not None:
            signatures.check_callable(self.derivative_of, "derivative_of", self.source)
        if self.requires is not None:
            signatures.check_callable(self.requires, "requires", self.source)
        self._check_needs()
        self._set("direction", self.direction or ("backward" if self.derivative_of else "forward"))
        if self.direction not in ("forward", "backward"):
            raise self.wrong(f"direction is {self.direction!r}; expected 'forward' or 'backward'")
        self._set("_name_was_given", bool(self.name))
        self._set("_operator_was_given", bool(self.operator))
        self._set("name", self.name or signatures.name_of(self.launch))
        self._set("operator", self.operator or self._default_operator())

    def _check_needs(self) -> None:
        try:
            if self.needs:
                parse_architecture(self.needs)
        except (ValueError, TypeError):
            raise self.wrong(f"needs is {self.needs!r}; expected an architecture such as 'sm_80' or 'sm_90a'") from None

    def _default_operator(self) -> str:
        # A kernel file of refkit carries its operator's name.
        package, _, stem = (getattr(self.launch, "__module__", None) or "").rpartition(".")
        return stem if package == "refkit.cuda_kernels" else self.name

    def _check_dims(self) -> None:
        seen: dict[str, Dim] = {}
        for argument in self.arrays.values():
            expressions = argument.dims + ((argument.below,) if isinstance(argument, Index) else ())
            for dim in itertools.chain.from_iterable(expression.dims() for expression in expressions):
                if seen.setdefault(dim.name, dim) != dim:
                    raise self.wrong(f"two dims are named {dim.name!r} but differ: {seen[dim.name]!r} and {dim!r}")
        for kind, names in (("an argument", self.args), ("a config", self.configs)):
            for name in names:
                if name in seen:
                    raise self.wrong(f"{name!r} is {kind} and also a dim; expected different names")
        for name in self.configs:
            if name in self.args:
                raise self.wrong(f"{name!r} is an argument and also a config; expected different names")
        self._set("dims", FrozenMapping(seen))

    def _check_signatures(self) -> None:
        signatures.check_launcher(self.launch, list(self.args), list(self.configs), self.source)
        outputs = {
            name: "it is an Out; the reference receives inputs only and returns the outputs"
            for name, argument in self.args.items()
            if not argument.given
        }
        given = [name for name in self.args if name not in outputs]
        allowed = [*given, *self.dims, *self.configs]
        signatures.check_names(self.reference, "reference", allowed, outputs, self.source)
        if self.derivative_of is not None:
            signatures.check_names(self.derivative_of, "derivative_of", allowed, outputs, self.source)
        if self.requires is not None:
            arguments = dict.fromkeys(self.args, "it is an argument; requires takes dims and configs")
            names = [*self.dims, *self.configs]
            signatures.check_names(self.requires, "requires", names, arguments, self.source)

    # -- what it holds ------------------------------------------------------------------------------------------

    dims: Mapping[str, Dim] = field(init=False, repr=False)
    """Every dim of the arguments by name, in order of appearance."""
    _name_was_given: bool = field(init=False, repr=False)
    _operator_was_given: bool = field(init=False, repr=False)

    @cached_property
    def arrays(self) -> Mapping[str, ArrayArgument]:
        """The array arguments, in the launcher's order."""
        return {name: a for name, a in self.args.items() if isinstance(a, ArrayArgument)}

    @cached_property
    def inputs(self) -> Mapping[str, ArrayArgument]:
        """The arrays that have a value before the launch: `In`, `InOut` and `Index`."""
        return {name: a for name, a in self.arrays.items() if a.given}

    @cached_property
    def outputs(self) -> Mapping[str, ArrayArgument]:
        """The arrays that the reference returns: `Out` and `InOut`."""
        return {name: a for name, a in self.arrays.items() if a.is_output}

    @cached_property
    def scalars(self) -> Mapping[str, Scalar | Flag]:
        """The scalars and flags."""
        return {name: a for name, a in self.args.items() if isinstance(a, (Scalar, Flag))}

    @cached_property
    def optional(self) -> tuple[str, ...]:
        """The names of the arguments that may be None."""
        return tuple(name for name, a in self.arrays.items() if a.is_optional)

    @cached_property
    def combinations(self) -> tuple[Mapping[str, Any], ...]:
        """Every combination of `configs`, the first values first; one empty combination where there are none."""
        return tuple(
            FrozenMapping(dict(zip(self.configs, choice))) for choice in itertools.product(*self.configs.values())
        )

    def layouts_of(self, name: str) -> tuple[str, ...]:
        """The layouts that the array argument `name` is tried in, the plainest first."""
        argument = self.arrays[name]
        own = argument.layouts if argument.layouts is not None else self.layouts
        if argument.is_output and argument.layouts is None:
            own = ("contiguous",)
        # Stride 0 repeats every index.
        unique = isinstance(argument, Index) and argument.unique
        return tuple(
            layout
            for layout in own
            if makes_a_difference(layout, len(argument.dims)) and not (unique and layout == "broadcast")
        ) or ("contiguous",)

    def shape(self, name: str, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the array argument `name` for the sizes `dims`."""
        return tuple(expression.evaluate(dims) for expression in self.arrays[name].dims)

    def admits(self, dims: Mapping[str, int], config: Mapping[str, Any] | None = None) -> bool:
        """True where every dim allows its size, every shape is possible, and `requires` holds.

        `config` None stands for the first combination. `SpecError` where `requires` itself raises.
        """
        return self._sizes_allowed(dims) and self.required(dims, config) and self.possible(dims)

    def _sizes_allowed(self, dims: Mapping[str, int]) -> bool:
        return all(dim.allows(dims[name]) for name, dim in self.dims.items())

    def possible(self, dims: Mapping[str, int]) -> bool:
        """True where no shape is negative and every `Index` has indices to choose from."""
        for name, argument in self.arrays.items():
            shape = self.shape(name, dims)
            if min(shape, default=0) < 0:
                return False
            if isinstance(argument, Index) and 0 not in shape and not _indices_exist(argument, shape, dims):
                return False
        return True

    def required(self, dims: Mapping[str, int], config: Mapping[str, Any] | None = None) -> bool:
        """True where `requires` holds; `SpecError` where it raises."""
        if self.requires is None:
            return True
        available = {**(self.combinations[0] if config is None else config), **dims}
        try:
            return bool(self.requires(**signatures.pick(self.requires, available, list(self.dims))))
        except USERS_FAULTS as error:
            raise SpecError(f"requires raised {type(error).__name__}: {error} for {dict(dims)}", self.source) from error

    # -- what it calls ------------------------------------------------------------------------------------------

    def call(self, arguments: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
        """Run the launcher with `arguments` (every one, by name; None for an absent one) and `config`."""
        return self.launch(*(arguments[name] for name in self.args), **config)

    def reference_arguments(
        self, arguments: Mapping[str, Any], dims: Mapping[str, int], config: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the reference is called with: of `arguments`, `dims` and `config`, those that its signature names."""
        given = [name for name, argument in self.args.items() if argument.given]
        available = {**config, **dims, **{name: arguments[name] for name in given}}
        return signatures.pick(self.reference, available, given)

    def match_outputs(self, returned: Any, dims: Mapping[str, int]) -> tuple[Any, ...]:
        """What the reference returned, one entry per output; `SpecError` where number or shapes differ."""
        values = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        names = list(self.outputs)
        where = f"for {dict(dims)}"
        if len(values) != len(names):
            raise self.wrong(
                f"the reference returned {len(values)} output{'s' * (len(values) != 1)} {where}; "
                f"expected {len(names)}: {', '.join(names)}"
            )
        for name, value in zip(names, values):
            expected = self.shape(name, dims)
            shape = tuple(getattr(value, "shape", ()))
            if shape != expected:
                raise self.wrong(
                    f"the reference returned shape {shape} for output {name!r} {where}; expected {expected}"
                )
            dtype = getattr(value, "dtype", None)
            if dtype is not None and np.dtype(dtype).kind in "cOSUmM":
                raise self.wrong(f"the reference returned {dtype} for output {name!r} {where}; expected real numbers")
        return values

    def check_reference(self) -> None:
        """Evaluate the reference twice, on small sizes; `SpecError` where it raises, returns other shapes, or gives
        other values the second time."""
        from refkit.verify.inputs import draw_inputs
        from refkit.verify.sizes import small_dims

        case = Case(dims=small_dims(self), config=self.combinations[0], values="normal", scalars=self.plain_scalars())
        inputs = draw_inputs(self, case)
        first, second = (self._reference_once(inputs.for_reference(), case.dims) for _ in range(2))
        for name, value, again in zip(self.outputs, first, second):
            if not np.array_equal(value, again, equal_nan=np.asarray(value).dtype.kind == "f"):
                raise self.wrong(f"the reference gives other values of {name!r} for the same arguments the second time")

    def _reference_once(self, arguments: Mapping[str, Any], dims: Mapping[str, int]) -> tuple[Any, ...]:
        try:
            with np.errstate(all="ignore"):
                returned = self.reference(**arguments)
        except USERS_FAULTS as error:
            where = raised_at(error) or self.source
            raise SpecError(f"the reference raised {type(error).__name__}: {error} for {dict(dims)}", where) from error
        return self.match_outputs(returned, dims)

    def plain_scalars(self) -> dict[str, float | int | bool]:
        """The plainest value of each scalar and flag."""
        return {name: a.values[0] if isinstance(a, Scalar) else False for name, a in self.scalars.items()}

    def named(self, name: str, target: str = "") -> KernelSpec:
        """This spec as the module variable `name` of `target` has it; a name given in the spec stays."""
        return replace(
            self,
            name=self.name if self._name_was_given else name,
            operator=self.operator if self._operator_was_given or self.operator != self.name else "",
            target=target or self.target,
        )

    def of_operator(self, operator: str) -> KernelSpec:
        """This spec as one of `operator`."""
        return replace(self, operator=operator)

    # -- running it ---------------------------------------------------------------------------------------------

    def cases(self, **options: Any) -> SearchStrategy[CheckableCase]:
        """A hypothesis strategy of cases, each with `.check()`; `options` as in `strategies.cases`."""
        from refkit.verify.checkable import checkable_cases

        return checkable_cases(self, **options)

    def verify(self, backend: str = "auto", cases: int = 200, seed: int = 0) -> KernelRecord:
        """Run every check on about `cases` cases and return the record; `backend` is auto, cpu or cuda."""
        from refkit.verify.checkable import verify

        return verify(self, backend=backend, cases=cases, seed=seed)

    def as_test(self, backend: str = "auto", cases: int = 200, seed: int = 0) -> Callable[[], None]:
        """A test function for pytest: it verifies this spec and fails with what was found."""
        from refkit.verify.checkable import as_test

        return as_test(self, backend=backend, cases=cases, seed=seed)


def _indices_exist(argument: Index, shape: tuple[int, ...], dims: Mapping[str, int]) -> bool:
    """True where `below` leaves enough indices for an array of `shape`, and the format holds them all."""
    below = argument.below.evaluate(dims)
    if below - 1 > np.iinfo(argument.storage).max:
        return False
    needed = 1
    if argument.unique:
        for size in shape:
            needed *= size
    return below >= needed

"""One mid-size case of a spec: every dim a multiple of the usual tiles, and work enough for several blocks."""

from __future__ import annotations

from refkit.verify.case import Case
from refkit.verify.sizes import Budget, within
from refkit.verify.spec import KernelSpec

BUDGET = Budget(elements=2**17, operations=2**22)
_SIZES = {0: 1, 1: 2**14, 2: 256}
_SIZE_OF_MANY = 128


def representative_case(spec: KernelSpec) -> Case:
    """A case of 16,384 elements (one dim), 256 x 256 (two dims) or 128 each, or as near as the spec admits.

    The last combination of `configs` is taken, since specs list small tiles first; every optional argument is present,
    and every array contiguous. Raises `SpecError` where no sizes are admitted.
    """
    config = spec.combinations[-1]
    size = _SIZES.get(len(spec.dims), _SIZE_OF_MANY)
    wish = {name: max(dim.least, min(size, dim.greatest)) for name, dim in spec.dims.items()}
    wish = {name: spec.dims[name].nearest(value) for name, value in wish.items()}
    dims = within(spec, _even(wish, spec), BUDGET, config=config)
    if dims is None:
        raise spec.wrong(f"no sizes near {wish} were found that requires and the dims admit together")
    return Case(
        dims=dims, config=config, values="normal", scalars=spec.plain_scalars(), scenario="representative of mid size"
    )


def _even(wish: dict[str, int], spec: KernelSpec) -> dict[str, int]:
    """Sizes of 32 and more rounded down to a multiple of 32, so that rows start at a sector."""
    even = {name: size // 32 * 32 if size >= 32 else size for name, size in wish.items()}
    return {name: spec.dims[name].nearest(size) for name, size in even.items()}

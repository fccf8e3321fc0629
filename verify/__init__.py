"""Specs, strategies and checks of kernels. A user's own file needs nothing but what is exported here."""

from refkit.numerics.precision import Precision
from refkit.verify.arguments import Flag, In, Index, InOut, Out, Scalar
from refkit.verify.case import Case
from refkit.verify.dims import Dim
from refkit.verify.errors import SpecError, TargetError
from refkit.verify.spec import KernelSpec

__all__ = [
    "Case",
    "Dim",
    "Flag",
    "In",
    "InOut",
    "Index",
    "KernelSpec",
    "Out",
    "Precision",
    "Scalar",
    "SpecError",
    "TargetError",
]

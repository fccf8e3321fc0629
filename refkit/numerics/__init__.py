"""Floating-point formats, the error model, and the metrics that judge a kernel's output by it."""

from refkit.numerics.bound import Bounded, evaluate
from refkit.numerics.formats import FORMATS, Format, format_of, round_to
from refkit.numerics.metrics import error_ratio, relative_error, ulp_distance
from refkit.numerics.precision import Precision
from refkit.numerics.storage import stored
from refkit.numerics.tracked import CannotTrack, Tracked

__all__ = [
    "FORMATS", "Bounded", "CannotTrack", "Format", "Precision", "Tracked", "error_ratio", "evaluate", "format_of",
    "relative_error", "round_to", "stored", "ulp_distance",
]  # fmt: skip

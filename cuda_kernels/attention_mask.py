"""Which keys a query of attention sees: a band of diagonals, lower <= j - i <= upper, of the scores (Tq, Tk).

Causality bounds the band from above, a sliding window from below. For a query the keys of a band are a range, for a key
the queries are: kernels loop over these ranges, and compare j - i with the two bounds where a tile crosses an edge. The
bounds are ordinary arguments, so that one compiled kernel serves every mask.
"""

from __future__ import annotations

from numba import cuda

MASKS = ("none", "top_left", "bottom_right")


def band(causal: str, window: int, Tq: int, Tk: int) -> tuple[int, int]:
    """(lower, upper) of the band for Tq queries and Tk keys.

    causal: "none"; "top_left", query i sees the keys j <= i; "bottom_right", it sees j <= i + Tk - Tq, so that the last
    query is level with the last key. window: 0, or how many keys back a query sees, its own among them, counted from i,
    or with "bottom_right" from i + Tk - Tq. Raises ValueError for other values.
    """
    if causal not in MASKS:
        raise ValueError(f"causal={causal!r} is unknown; expected {', '.join(map(repr, MASKS[:-1]))} or {MASKS[-1]!r}")
    window = int(window)
    if window < 0:
        raise ValueError(f"window={window} must be 0 (no window) or a positive number of keys")
    level = Tk - Tq if causal == "bottom_right" else 0
    lower = level - window + 1 if window else -Tq
    upper = Tk if causal == "none" else level
    return lower, upper


@cuda.jit(device=True)
def visible_keys(first_query, last_query, lower, upper, keys):
    """(first, end) of the keys that some query from `first_query` to `last_query` sees; end <= first for none."""
    return max(0, first_query + lower), min(keys, last_query + upper + 1)


@cuda.jit(device=True)
def visible_queries(first_key, last_key, lower, upper, queries):
    """(first, end) of the queries that see some key from `first_key` to `last_key`; end <= first for none."""
    return max(0, first_key - upper), min(queries, last_key - lower + 1)


@cuda.jit(device=True)
def sees(query, key, lower, upper):
    """Whether the query sees the key."""
    return lower <= key - query and key - query <= upper

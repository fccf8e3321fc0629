"""From the facts of one-hot experiments on `wgmma` to a verdict on A, B, C and D.

As for `mma`, elements are read through what the data claims of the other operands. Where claims and facts disagree, a
descriptor that the device takes in another way is looked for first: an explanation holds if it gives every element of
a product of random numbers. Then an operand is to blame if its repair makes everything agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from refkit.cuda_kernels.layouts import Fragment, SharedMatrix, WgmmaLayout
from refkit.cuda_kernels.layouts.shared_matrix import BANK_BYTES, UNUSED, offsets_by_descriptor
from refkit.verify.probes.judgement import Found, OperandVerdict
from refkit.verify.probes.naming import describe, is_one_exchange
from refkit.verify.probes.one_hot import UNKNOWN, MmaFacts
from refkit.verify.probes.warpgroup import Claims, Held, WarpgroupProducts, claims_of, random_product, wgmma_facts


@dataclass(frozen=True)
class Blame:
    """The operand at fault, what it really holds, and the cause in words (empty: see the places)."""

    operand: str
    repaired: Held
    cause: str


def judge_wgmma(products: WarpgroupProducts) -> tuple[OperandVerdict, ...]:
    """Runs the experiments on an instruction; the verdicts on A, B, C and D."""
    layout = products.layout
    claims = claims_of(layout)
    facts = wgmma_facts(products, claims)
    found = _found(facts, claims)
    wrong = [name for name in claims if _differs(found[name], claims[name]).any()]
    blame = (_explained(products, claims) or _repaired(products, claims, found, wrong)) if wrong else None
    if blame is not None:
        settled = {**claims, blame.operand: blame.repaired}
        facts = wgmma_facts(products, settled)
        found = _found(facts, settled)
        wrong = [blame.operand]
    verdicts = [_verdict(layout, name, claims, found[name], name in wrong, blame) for name in claims]
    d = claims["D"] if blame is None or blame.operand != "D" else blame.repaired
    verdicts.insert(2, _verdict_on_c(facts, layout.c, d))
    return tuple(verdicts)


def _found(facts: MmaFacts, claims: Claims) -> dict[str, Held]:
    """What each operand holds, seen through the claims on the two others."""
    a, b, d = claims["A"], claims["B"], claims["D"]
    by_a, by_b = facts.by_a, facts.by_b
    known_a, known_b = by_a.b != UNKNOWN, by_b.a != UNKNOWN
    return {
        "A": _agreed(a, by_b.a, d.row_of.ravel()[by_b.d], b.row_of.ravel()[by_b.b], known_b),
        "B": _agreed(b, by_a.b, a.column_of.ravel()[by_a.a], d.column_of.ravel()[by_a.d], known_a),
        "D": _agreed(d, by_a.d, a.row_of.ravel()[by_a.a], b.column_of.ravel()[by_a.b], known_a, by_a.d[~known_a]),
    }


def _agreed(
    like: Held,
    place: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    known: np.ndarray,
    unclear: np.ndarray | None = None,
) -> Held:
    """For each place the row and column on which its witnesses agree; UNUSED without any, UNKNOWN where they do not.

    known: which witnesses count. unclear: places that showed something which is no number.
    """
    result = []
    for values in (row, column):
        least, most = np.full(like.places, np.iinfo(np.int64).max), np.full(like.places, UNUSED)
        counted = np.where(values < 0, UNKNOWN, values)[known]
        np.minimum.at(least, place[known], counted)
        np.maximum.at(most, place[known], counted)
        agreed = np.where(most == UNUSED, UNUSED, np.where(least == most, most, UNKNOWN))
        if unclear is not None:
            agreed[unclear] = UNKNOWN
        result.append(agreed)
    torn = np.minimum(*result) == UNKNOWN
    row_of, column_of = (np.where(torn, UNKNOWN, each).reshape(like.row_of.shape) for each in result)
    return replace(like, row_of=row_of, column_of=column_of)


def _differs(found: Held, claimed: Held) -> np.ndarray:
    return (found.row_of != claimed.row_of) | (found.column_of != claimed.column_of)


def _explained(products: WarpgroupProducts, claims: Claims) -> Blame | None:
    """A descriptor that the device takes in another way than claimed, if that alone explains a product exactly."""
    layout = products.layout
    a, b, d = random_product(products, claims)
    places = {name: held.place_of() for name, held in claims.items()}
    for letter, operand, descriptor in (("A", layout.a, layout.a_descriptor), ("B", layout.b, layout.b_descriptor)):
        if not isinstance(operand, SharedMatrix):
            continue
        told, sought_so = offsets_by_descriptor(operand, descriptor)
        for cause, offsets in (*operand.variants(), (f"does as its descriptor says ({told})", sought_so)):
            sought = offsets // operand.element_bytes
            if sought.max() >= claims[letter].places:
                continue
            at = {**places, letter: sought}
            if np.array_equal(d[at["D"]], a[at["A"]] @ b[at["B"]]):
                return Blame(letter, _held_at(claims[letter], sought), f"{cause}, the layout data {_says(operand)}")
    return None


def _says(operand: SharedMatrix) -> str:
    swizzle = f"the {operand.swizzle_bytes}-byte swizzle" if operand.swizzle_bytes else "no swizzle"
    axis = "K" if operand.major == "k" else "M" if operand.operand == "A" else "N"
    text = f"says {swizzle}, {axis} contiguous, leading {operand.leading_bytes}, stride {operand.stride_bytes}"
    return text + (f", {operand.start_bytes} bytes on" if operand.start_bytes else "")


def _held_at(like: Held, places: np.ndarray) -> Held:
    """What places hold where each element is sought at one of them; UNKNOWN where several are."""
    several = np.bincount(places.ravel(), minlength=like.places) > 1
    result = []
    for index in np.indices(places.shape):
        flat = np.full(like.places, UNUSED)
        flat[places.ravel()] = index.ravel()
        result.append(np.where(several, UNKNOWN, flat).reshape(like.row_of.shape))
    return replace(like, row_of=result[0], column_of=result[1])


def _repaired(products: WarpgroupProducts, claims: Claims, found: Claims, wrong: list[str]) -> Blame | None:
    """The operand that, taken as it was found, makes new experiments agree in everything.

    Of several (rows of A and of D may be exchanged, no product tells) one that exchanges two registers comes first, and
    registers before shared memory, whose likely mistakes would have been explained.
    """
    layout = products.layout
    fragments = {"A": layout.a, "D": layout.c}
    blames = []
    for name in wrong:
        if not _is_complete(found[name]):
            continue
        settled = {**claims, name: found[name]}
        again = _found(wgmma_facts(products, settled), settled)
        if not any(_differs(again[each], settled[each]).any() for each in settled):
            claimed, held = fragments.get(name), found[name]
            exchange = isinstance(claimed, Fragment) and is_one_exchange(claimed, held.row_of, held.column_of)
            blames.append((not exchange, not isinstance(claimed, Fragment), Blame(name, held, "")))
    return min(blames, key=lambda each: each[:2])[2] if blames else None


def _is_complete(held: Held) -> bool:
    return bool(np.all(held.place_of() >= 0)) and int(np.sum(held.row_of != UNUSED)) == held.rows * held.columns


def _verdict(
    layout: WgmmaLayout, name: str, claims: Claims, found: Held, is_wrong: bool, blame: Blame | None
) -> OperandVerdict:
    operand: Fragment | SharedMatrix = {"A": layout.a, "B": layout.b, "D": layout.c}[name]
    claimed, status = claims[name], "failed" if is_wrong else "passed"
    if blame is not None and blame.cause and not is_wrong:
        found = claimed  # the explanation gave every element of a product through it
    shown = Found(found.row_of, found.column_of)
    message = ""
    if isinstance(operand, SharedMatrix):
        last = max(_last_line(claimed), _last_line(found)) + 1
        shown = Found(found.row_of[:last], found.column_of[:last])
    if is_wrong:
        message = _message(name, operand, claimed, found, blame)
    return OperandVerdict(name, status, operand, shown, message)


def _last_line(held: Held) -> int:
    """The last row of banks in which something lies."""
    return int(np.flatnonzero(np.any(held.row_of != UNUSED, axis=(1, 2)))[-1:].max(initial=0))


def _message(name: str, operand: Fragment | SharedMatrix, claimed: Held, found: Held, blame: Blame | None) -> str:
    suffix = "" if blame is not None else " (no change to one operand's data alone makes them agree)"
    if isinstance(operand, Fragment):
        return describe(name.lower(), operand, found.row_of, found.column_of) + suffix
    differs = _differs(found, claimed)
    line, unit, part = (int(i) for i in np.argwhere(differs)[0])
    byte = line * BANK_BYTES + (unit * claimed.row_of.shape[2] + part) * operand.element_bytes
    place = f"byte {byte} holds {_element(found, line, unit, part)}, the layout data says "
    place += _element(claimed, line, unit, part)
    if blame is not None and blame.cause:
        return f"the device {blame.cause}: {place}"
    return f"{int(differs.sum())} of {differs.size} places differ: {place}{suffix}"


def _element(held: Held, line: int, unit: int, part: int) -> str:
    row, column = int(held.row_of[line, unit, part]), int(held.column_of[line, unit, part])
    return (
        "nothing" if UNUSED in (row, column) else "nothing clear" if UNKNOWN in (row, column) else f"({row}, {column})"
    )


def _verdict_on_c(facts: MmaFacts, claimed: Fragment, d: Held) -> OperandVerdict:
    """C shows at places of D, whose elements are known by now."""
    like = Held(claimed.rows, claimed.columns, claimed.row_of, claimed.column_of)
    row, column = d.row_of.ravel()[facts.d_of_c], d.column_of.ravel()[facts.d_of_c]
    held = _agreed(like, facts.c, row, column, np.ones(len(facts.c), bool))
    found = Found(held.row_of, held.column_of)
    if not found.differs(claimed).any():
        return OperandVerdict("C", "passed", claimed, found)
    return OperandVerdict("C", "failed", claimed, found, describe("c", claimed, found.row, found.column))

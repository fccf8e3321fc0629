"""Measures the error model: is it sound (right computations within the bound) and sharp (wrong ones beyond it)?

Run `python -m refkit.numerics.soundness`; it prints the tables of docs/error_model.md. Each formula is evaluated once
on tracked arrays and once in float32 with its sums in several orders. *Worst* is the largest |error| / allowed over all
elements and orders, below 1 where the bound is sound; *width* is the median of allowed / |error| over the elements that
have an error, in the order that is worst. A fault is planted in the float32 evaluation; its worst ratio is above 1.

Measured: in float32 the worst ratio is below 0.5 and the width mostly 15 to 30 (2 to 7 where rounding is systematic);
with bf16 storage the width is 2. The planted faults exceed the bound 200 times and more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from refkit.numerics import summation
from refkit.numerics.bound import evaluate
from refkit.numerics.metrics import error_ratio
from refkit.numerics.precision import Precision
from refkit.numerics.storage import stored

Sum = Callable[[np.ndarray], np.ndarray]
EPS = np.float32(1e-5)


# Formulas. `total` sums over the last axis and keeps it: NumPy's sum for the reference, an order for the kernel.


def _plain_total(x: Any) -> Any:
    return x.sum(axis=-1, keepdims=True)


def _in_order(order: Sum) -> Callable[[Any], Any]:
    return lambda x: order(x)[..., None]


def layer_norm(x: Any, gamma: Any, beta: Any, total: Any = _plain_total) -> tuple[Any, ...]:
    """y, mean and rstd of x (T, C)."""
    n = np.float32(x.shape[-1])
    mean = total(x) / n
    centred = x - mean
    rstd = np.float32(1) / np.sqrt(total(centred * centred) / n + EPS)
    return centred * rstd * gamma + beta, mean, rstd


def layer_norm_dx(x: Any, gamma: Any, dy: Any, total: Any = _plain_total) -> Any:
    """dx (T, C), with the statistics computed anew."""
    n = np.float32(x.shape[-1])
    centred = x - total(x) / n
    rstd = np.float32(1) / np.sqrt(total(centred * centred) / n + EPS)
    xhat, dxhat = centred * rstd, dy * gamma
    return rstd * (dxhat - total(dxhat) / n - xhat * (total(dxhat * xhat) / n))


def layer_norm_dgamma(x: Any, dy: Any, total: Any = _plain_total) -> Any:
    """dgamma (C, 1)."""
    n = np.float32(x.shape[-1])
    centred = x - total(x) / n
    xhat = centred * (np.float32(1) / np.sqrt(total(centred * centred) / n + EPS))
    return total((dy * xhat).T)


def rms_norm(x: Any, gamma: Any, total: Any = _plain_total) -> Any:
    """x / sqrt(mean(x**2) + eps) * gamma."""
    return x * (np.float32(1) / np.sqrt(total(x * x) / np.float32(x.shape[-1]) + EPS)) * gamma


def softmax(x: Any, total: Any = _plain_total) -> Any:
    """Softmax over the last axis."""
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / total(p)


def cross_entropy(x: Any, label: Any, total: Any = _plain_total) -> tuple[Any, Any]:
    """Loss (T, 1) and the gradient of its sum (T, V) for logits x (T, V) and labels (T,)."""
    shifted = x - x.max(axis=-1, keepdims=True)
    p = np.exp(shifted)
    s = total(p)
    loss = np.log(s) - np.take_along_axis(shifted, label[:, None], axis=-1)
    return loss, p / s - (np.arange(x.shape[-1]) == label[:, None])


def gelu(x: Any, total: Any = _plain_total) -> Any:
    """GELU by the tanh formula."""
    return np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * (x * x * x))))


def silu(x: Any, total: Any = _plain_total) -> Any:
    """x sigmoid(x)."""
    return x * special.expit(x)


def attention(q: Any, k: Any, v: Any, total: Any = _plain_total) -> Any:
    """softmax(q k^T / sqrt(d)) v, with one sum per element."""
    scale = np.float32(1 / np.sqrt(q.shape[-1]))
    if isinstance(q, np.ndarray):
        scores = _product(q, np.ascontiguousarray(k.T), total) * scale
        return _product(softmax(scores, total), v, total)
    return softmax((q @ k.T) * scale) @ v


def matmul(a: Any, b: Any, total: Any = _plain_total) -> Any:
    """a @ b."""
    return _product(a, b, total) if isinstance(a, np.ndarray) else a @ b


def _product(a: np.ndarray, b: np.ndarray, total: Any) -> np.ndarray:
    return summation.matmul(a, b, lambda terms: total(terms)[..., 0])


def two_products(a: Any, b: Any, c: Any, total: Any = _plain_total) -> Any:
    """(a @ b) @ c."""
    return matmul(matmul(a, b, total), c, total)


def two_products_through_bf16(a: Any, b: Any, c: Any, total: Any = _plain_total) -> Any:
    """(a @ b) @ c with a @ b stored in bfloat16."""
    return matmul(stored(matmul(a, b, total), "bfloat16"), c, total)


def row_sum(x: Any, total: Any = _plain_total) -> Any:
    """The sum over the last axis, kept."""
    return total(x)


# What is measured


@dataclass(frozen=True)
class Measurement:
    """One line of the tables: a formula on one kind of data."""

    name: str
    formula: Callable[..., Any]
    arguments: dict[str, np.ndarray]
    storage: Any = np.float32
    orders: tuple[str, ...] = tuple(summation.ORDERS)
    precision: Precision = field(default_factory=Precision)

    def bounds(self) -> tuple[Any, ...]:
        """The bounds of the formula's outputs."""
        outputs = len(_as_tuple(self.run("sequential")))
        return evaluate(self.formula, self.arguments, self.precision, [self.storage] * outputs)

    def run(self, order: str | Sum) -> Any:
        """The formula in float32, its sums in the given order, its outputs rounded to storage."""
        total = _in_order(summation.ORDERS[order] if isinstance(order, str) else order)
        single = {k: x if x.dtype.kind == "i" else x.astype(np.float32) for k, x in self.arguments.items()}
        with np.errstate(all="ignore"):
            return tuple(np.asarray(y).astype(self.storage) for y in _as_tuple(self.formula(**single, total=total)))

    def measure(self) -> tuple[float, float]:
        """Return the worst ratio over orders and outputs, and the width where it is worst."""
        bounds = self.bounds()
        worst, width = 0.0, np.inf
        for order in self.orders:
            for got, bounded in zip(self.run(order), bounds):
                ratio = error_ratio(got, bounded)
                if ratio.max(initial=0.0) >= worst:
                    worst = float(ratio.max(initial=0.0))
                    positive = ratio[ratio > 0]
                    width = float(np.median(1 / positive)) if positive.size else np.inf
        return worst, width


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def right_computations(seed: int = 0) -> Iterator[Measurement]:
    """The computations that the bound has to admit."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, mean: float = 0.0) -> np.ndarray:
        return (rng.standard_normal(shape) + mean).astype(np.float32)

    alternating = np.resize([1.0, -1.0], 4096) * (1 + 1e-3 * rng.random((32, 4096)))
    kinds = {
        "normal": lambda k: normal(32, k),
        "uniform [0, 1)": lambda k: rng.random((32, k)),
        "mean 1000": lambda k: normal(32, k, mean=1e3),
        "sorted": lambda k: np.sort(normal(32, k), axis=-1),
        "ties": lambda k: rng.choice(normal(4), (32, k)),
        "constant": lambda k: np.repeat(normal(32, 1, mean=3.0), k, axis=1),
        "wide": lambda k: np.exp2(rng.uniform(-20, 20, (32, k))),
    }
    for kind, draw in kinds.items():
        for k in (16, 300, 4096, 65536):
            yield Measurement(f"sum, {kind}, n={k}", row_sum, {"x": draw(k).astype(np.float32)})
    yield Measurement("sum, alternating, n=4096", row_sum, {"x": alternating.astype(np.float32)})
    for kind, draw in kinds.items():
        for k in (16, 300, 4096):
            b = draw(k).T.astype(np.float32)[:, :16] if kind != "sorted" else np.ones((k, 16), np.float32)
            yield Measurement(f"matmul, {kind}, K={k}", matmul, {"a": draw(k).astype(np.float32), "b": b})
    a, b = normal(16, 65536), normal(65536, 4)
    yield Measurement("matmul, normal, K=65536", matmul, {"a": a, "b": b})
    for c in (1, 7, 256, 4096):
        for label, x in _rows(normal, c):
            gamma, dy = normal(c), normal(32, c)
            yield Measurement(f"layer_norm, {label}, C={c}", layer_norm, {"x": x, "gamma": gamma, "beta": normal(c)})
            yield Measurement(f"layer_norm dx, {label}, C={c}", layer_norm_dx, {"x": x, "gamma": gamma, "dy": dy})
            yield Measurement(f"layer_norm dgamma, {label}, C={c}", layer_norm_dgamma, {"x": x, "dy": dy})
            yield Measurement(f"rms_norm, {label}, C={c}", rms_norm, {"x": x, "gamma": gamma})
    yield from _other_operators(normal, rng)


def _rows(normal: Callable[..., np.ndarray], c: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "mean 0", normal(32, c)
    yield "mean 1e3", normal(32, c, mean=1e3)
    constant = np.repeat(normal(32, 1, mean=3.7) + np.float32(1e4), c, axis=1)
    constant[0] = np.float32(3.7) + np.float32(1e4)
    yield "constant near 1e4", constant


def _other_operators(normal: Callable[..., np.ndarray], rng: np.random.Generator) -> Iterator[Measurement]:
    for c in (1, 7, 4096):
        logits, label = 4 * normal(16, c), rng.integers(0, c, 16)
        yield Measurement(f"softmax, C={c}", softmax, {"x": logits})
        yield Measurement(f"cross_entropy, V={c}", cross_entropy, {"x": logits, "label": label})
    yield Measurement("gelu (tanh), magnitudes up to 20", gelu, {"x": 5 * normal(64, 256)}, orders=("sequential",))
    yield Measurement("silu, magnitudes up to 20", silu, {"x": 5 * normal(64, 256)}, orders=("sequential",))
    for length, d in ((64, 32), (256, 64)):
        q, k, v = (normal(length, d) for _ in range(3))
        yield Measurement(f"attention, L={length}, d={d}", attention, {"q": q, "k": k, "v": v})
    bf16 = ml_dtypes.bfloat16
    x, gamma, dy = (normal(32, 512).astype(bf16) for _ in range(3))
    for name, formula, extra in (
        ("layer_norm", layer_norm, {"gamma": gamma[0], "beta": dy[0]}),
        ("layer_norm dx", layer_norm_dx, {"gamma": gamma[0], "dy": dy}),
        ("rms_norm", rms_norm, {"gamma": gamma[0]}),
        ("softmax", softmax, {}),
        ("gelu (tanh)", gelu, {}),
    ):
        yield Measurement(f"{name}, bf16 storage, C=512", formula, {"x": x, **extra}, storage=bf16)
    yield Measurement("matmul, bf16 storage, K=512", matmul, {"a": x, "b": gamma.T.copy()}, storage=bf16)
    a, b, c = normal(32, 97), normal(97, 97), np.abs(normal(97, 16))
    for kind, middle in (("normal", b), ("equal columns", np.repeat(b[:, :1], 97, axis=1))):
        chain = {"a": a, "b": middle, "c": c}
        yield Measurement(f"two products, {kind}, K=97", two_products, chain)
        yield Measurement(f"two products through bf16, {kind}, K=97", two_products_through_bf16, chain)


@dataclass(frozen=True)
class Fault:
    """A planted fault: the bounds of the right computation, and what the wrong one gives."""

    name: str
    bounds: tuple[Any, ...]
    got: tuple[np.ndarray, ...]

    def measure(self) -> float:
        """Return the worst ratio."""
        return float(max(error_ratio(g, b).max(initial=0.0) for g, b in zip(self.got, self.bounds)))


def wrong_computations(seed: int = 1) -> Iterator[Fault]:
    """The faults that the bound has to reject."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((32, 4096)).astype(np.float32)
    b = rng.standard_normal((4096, 16)).astype(np.float32)
    product = Measurement("matmul", matmul, {"a": a, "b": b})
    bounds = product.bounds()
    yield Fault("matmul, K=4096: accumulated in bf16", bounds, product.run(summation.in_bfloat16))
    yield Fault("matmul, K=4096: last of K dropped", bounds, product.run(lambda t: summation.tree(t[..., :-1])))
    yield Fault("matmul, K=4096: one lane of 32 dropped", bounds, product.run(_without_a_lane))
    short = Measurement("matmul", matmul, {"a": a[:, :300].copy(), "b": b[:300].copy()})
    yield Fault("matmul, K=300: accumulated in bf16", short.bounds(), short.run(summation.in_bfloat16))
    x, gamma = a[:, :256].copy(), b[:256, 0].copy()
    norm = Measurement("layer_norm", layer_norm, {"x": x, "gamma": gamma, "beta": gamma})
    yield Fault("layer_norm, C=256: one lane of 32 dropped", norm.bounds(), norm.run(_without_a_lane))
    yield Fault("layer_norm, C=256: accumulated in bf16", norm.bounds(), norm.run(summation.in_bfloat16))
    small = Measurement("layer_norm", layer_norm, {"x": x * np.float32(1e-2), "gamma": gamma, "beta": gamma})
    wrong = x / np.sqrt(x.var(axis=-1, keepdims=True)) * gamma + gamma
    yield Fault("layer_norm, std 0.01: eps forgotten", small.bounds()[:1], (wrong,))
    shifted = Measurement("layer_norm", layer_norm, {"x": x + np.float32(1e4), "gamma": gamma, "beta": gamma})
    yield Fault("layer_norm, mean 1e4: E[x^2] - E[x]^2", shifted.bounds()[2:], (_naive_rstd(shifted.arguments["x"]),))
    soft = Measurement("softmax", softmax, {"x": 4 * x})
    yield Fault("softmax, C=256: last column dropped", soft.bounds(), soft.run(lambda t: summation.tree(t[..., :-1])))
    yield Fault("softmax, C=256: accumulated in bf16", soft.bounds(), soft.run(summation.in_bfloat16))


def _without_a_lane(terms: np.ndarray) -> np.ndarray:
    kept = terms.copy()
    kept[..., 5 :: summation.LANES] = 0
    return summation.lanes(kept)


def _naive_rstd(x: np.ndarray) -> np.ndarray:
    variance = (x * x).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2
    with np.errstate(invalid="ignore"):
        return np.float32(1) / np.sqrt(variance + EPS)


def main() -> None:
    """Print both tables as Markdown."""
    print("| right computation | worst error / allowed | median allowed / error |\n|---|---|---|")
    for measurement in right_computations():
        worst, width = measurement.measure()
        print(f"| {measurement.name} | {worst:.3f} | {f'{width:.3g}' if np.isfinite(width) else 'no error'} |")
    print("\n| planted fault | worst error / allowed |\n|---|---|")
    for fault in wrong_computations():
        print(f"| {fault.name} | {fault.measure():.3g} |")


if __name__ == "__main__":
    main()

"""erfc to 40 digits with Python's decimal: SciPy's own loses hundreds of ulp in the tail, and so cannot judge."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
CONTEXT = Context(prec=60, Emin=-999999, Emax=999999)


def erfc(x: Decimal) -> Decimal:
    """Taylor's series of erf near 0, Laplace's continued fraction beyond 2.5."""
    with localcontext(CONTEXT):
        if x < Decimal("-2.5"):
            return 2 - erfc(-x)
        if x > Decimal("2.5"):
            fraction = x
            for n in range(400, 0, -1):
                fraction = x + Decimal(n) / 2 / fraction
            return (-x * x).exp() / fraction / PI.sqrt()
        term, total, n = x, x, 0
        while abs(term) > Decimal("1e-58"):
            n += 1
            term = -term * x * x / n
            total += term / (2 * n + 1)
        return 1 - 2 * total / PI.sqrt()


def erfcx(x: Decimal) -> Decimal:
    """exp(x^2) erfc(x)."""
    with localcontext(CONTEXT):
        return (x * x).exp() * erfc(x)


def normcdf(x: Decimal) -> Decimal:
    """The standard normal distribution function."""
    with localcontext(CONTEXT):
        return erfc(-x / Decimal(2).sqrt()) / 2

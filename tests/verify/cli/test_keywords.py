"""`-k`: words, operators, parentheses; and a clear error for what cannot be read."""

import pytest

from refkit.verify.cli import CommandError
from refkit.verify.cli.keywords import compile_keywords

WORDS = ("layer_norm_dx", "layer_norm", "backward")


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("", True),
        ("norm", True),
        ("NORM", True),
        ("linear", False),
        ("not linear", True),
        ("norm and dx", True),
        ("norm and linear", False),
        ("linear or dx", True),
        ("not norm or backward", True),
        ("not (norm or backward)", False),
        ("norm and not (linear or forward)", True),
        ("linear or norm and forward", False),  # `and` binds closer than `or`
    ],
)
def test_expressions(expression, matches):
    assert compile_keywords(expression)(WORDS) is matches


@pytest.mark.parametrize("expression", ["and", "norm and", "(norm", "norm)", "not", "norm dx", "()"])
def test_what_cannot_be_read_is_a_wrong_call(expression):
    with pytest.raises(CommandError, match="-k") as caught:
        compile_keywords(expression)
    assert caught.value.status == 2

"""`-k EXPR`, as in pytest: words joined by `and`, `or`, `not` and parentheses; a word matches anywhere in a kernel's
words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from refkit.verify.cli import CommandError

Matcher = Callable[[Iterable[str]], bool]

_TOKEN = re.compile(r"\s*(?:(\()|(\))|([^\s()]+))")


def compile_keywords(expression: str) -> Matcher:
    """The test that `expression` stands for; it takes a kernel's words (name, operator, ...) and ignores case.

    Raises `CommandError` where the expression cannot be read.
    """
    tokens = _tokens(expression)
    if not tokens:
        return lambda words: True
    matcher, rest = _either(tokens, expression)
    if rest:
        raise _wrong(expression, f"{rest[0]!r} was not expected")
    return matcher


def _tokens(expression: str) -> list[str]:
    return [match.group().strip() for match in _TOKEN.finditer(expression) if match.group().strip()]


def _either(tokens: list[str], text: str) -> tuple[Matcher, list[str]]:
    left, tokens = _both(tokens, text)
    while tokens and tokens[0] == "or":
        right, tokens = _both(tokens[1:], text)
        left = _joined(any, left, right)
    return left, tokens


def _both(tokens: list[str], text: str) -> tuple[Matcher, list[str]]:
    left, tokens = _negated(tokens, text)
    while tokens and tokens[0] == "and":
        right, tokens = _negated(tokens[1:], text)
        left = _joined(all, left, right)
    return left, tokens


def _joined(how: Callable[[Iterable[bool]], bool], left: Matcher, right: Matcher) -> Matcher:
    return lambda words: how([left(words), right(words)])


def _negated(tokens: list[str], text: str) -> tuple[Matcher, list[str]]:
    if not tokens:
        raise _wrong(text, "it ends too early")
    head, rest = tokens[0], tokens[1:]
    if head == "not":
        inner, rest = _negated(rest, text)
        return (lambda words: not inner(words)), rest
    if head == "(":
        inner, rest = _either(rest, text)
        if not rest or rest[0] != ")":
            raise _wrong(text, "a ')' is missing")
        return inner, rest[1:]
    if head in (")", "and", "or"):
        raise _wrong(text, f"{head!r} was not expected")
    word = head.lower()
    return (lambda words: any(word in each.lower() for each in words)), rest


def _wrong(text: str, why: str) -> CommandError:
    return CommandError(f"-k {text!r}: {why}; expected words joined by and, or, not and parentheses")

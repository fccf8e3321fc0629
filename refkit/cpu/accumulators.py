"""Which values of a function are accumulators of `wgmma`, in the text of a kernel in SSA form.

A product takes its accumulator as values and gives it back as values; the kernel loads them from a local array and
stores them there. What lies in the array between the product and its wait may go into another product, and nowhere
else.
"""

import re
from collections import Counter

from .pointers import NAME

_PRODUCT = re.compile(
    rf"^\s+%(?P<name>{NAME}) = (?:tail )?call \{{[^}}]*\}} @rk\.ptx\.wgmma\.mma_async[\w.]*\((?P<arguments>.*)\)"
)
_PART = re.compile(rf"^\s+%(?P<name>{NAME}) = extractvalue \{{[^}}]*\}} %(?P<product>{NAME}), ")
_LOADED = re.compile(rf"^\s+%(?P<name>{NAME}) = load float, ptr (?P<pointer>%{NAME})")
_STORED = re.compile(rf"^\s+store float %(?P<value>{NAME}), ptr (?P<pointer>%{NAME})")
_FLOAT = re.compile(rf"\bfloat (?:noundef )?%({NAME})")
_FLAG = re.compile(r"i32 (?:noundef )?(\S+?)(?=, float|$)")
_SITE = re.compile(r"ptr (?:\w+ )*%rk\.thread, i32 (?:noundef )?(\d+)")
_VALUE = re.compile(rf"%({NAME})")


class Accumulators:
    """The products of one function's body, and the values that go into them and come out of them."""

    def __init__(self, body: list[str]) -> None:
        products = {i: match for i, line in enumerate(body) if (match := _PRODUCT.match(line))}
        self.present = bool(products)
        self._loads: dict[str, str] = {}
        self._results: set[str] = set()
        self._only_operands: set[str] = set()
        if not products:
            return
        names = {match["name"] for match in products.values()}
        parts = (_PART.match(line) for line in body)
        self._results = {match["name"] for match in parts if match is not None and match["product"] in names}
        loads = (_LOADED.match(line) for line in body)
        self._loads = {match["name"]: match["pointer"] for match in loads if match}
        wanted = {value for match in products.values() for value in _FLOAT.findall(match["arguments"])}
        elsewhere: Counter[str] = Counter()
        for i, line in enumerate(body):
            if i not in products:
                elsewhere.update(value for value in _VALUE.findall(line) if value in wanted)
        self._only_operands = {value for value in wanted & set(self._loads) if elsewhere[value] == 1}

    def feeds_products_only(self, line: str) -> bool:
        """Whether a line loads what nothing but products takes."""
        match = _LOADED.match(line)
        return match is not None and match["name"] in self._only_operands

    def stores_result(self, line: str) -> bool:
        """Whether a line stores what a product has given."""
        match = _STORED.match(line)
        return match is not None and match["value"] in self._results

    def operands(self, line: str) -> tuple[list[str], str, int]:
        """The pointers from which a product's accumulator was loaded, whether it adds to it (an i32), and its site."""
        match = _PRODUCT.match(line)
        if not match:
            return [], "0", 0
        flag = _FLAG.findall(match["arguments"])[-1]
        values = _FLOAT.findall(match["arguments"])
        pointers = [self._loads[value] for value in values if value in self._only_operands]
        return pointers, flag, int(_SITE.findall(match["arguments"])[0])

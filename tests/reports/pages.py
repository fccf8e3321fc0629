"""A written page taken apart by the standard library's parser, for the tests of the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "br", "wbr", "input", "img", "hr", "path", "use", "image", "rect"}


@dataclass
class Element:
    """An element with everything below it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Every element below with that tag whose attributes have these values (a class among its classes)."""
        found = []
        for child in self.children:
            if (not tag or child.tag == tag) and all(
                value in child.attributes.get(name.rstrip("_").replace("_", "-"), "").split(" ")
                or child.attributes.get(name.rstrip("_").replace("_", "-")) == value
                for name, value in attributes.items()
            ):
                found.append(child)
            found += child.all(tag, **attributes)
        return found


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("#root", {})
        self.open = [self.root]
        self.errors: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.errors.append(f"<{tag}> repeats an attribute at {self.getpos()}")
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.open[-1].tag != tag:
            self.errors.append(f"</{tag}> closes <{self.open[-1].tag}> at {self.getpos()}")
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def parse(page: Path) -> Element:
    """The page as a tree; AssertionError where an element is left open or closed out of turn."""
    builder = _Builder()
    builder.feed(page.read_text(encoding="utf-8"))
    builder.close()
    assert not builder.errors, builder.errors[:5]
    assert [element.tag for element in builder.open] == ["#root"], "elements are left open"
    return builder.root

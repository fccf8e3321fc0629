"""Where a device instruction stands in the user's file, read from the debug metadata of IR text."""

import functools
import os
import re


class Lines:
    """Source locations of one IR module."""

    def __init__(self, text: str, default_file: str) -> None:
        self.default = default_file
        self._text = text

    @functools.cached_property
    def _nodes(self) -> dict[str, str]:
        return dict(re.findall(r"\n(![0-9]+) = (?:distinct )?(![^\n]*)", self._text))

    def location(self, instruction: str) -> tuple[str, int]:
        """(file, line) of an instruction's text; line 0 where it carries none."""
        match = re.search(r"!dbg (![0-9]+)", instruction)
        node = self._nodes.get(match.group(1), "") if match else ""
        line = re.search(r"line: (\d+)", node)
        return self._file(node), int(line.group(1)) if line else 0

    def first_location(self, instructions: list[str]) -> tuple[str, int]:
        """(file, line) of the first instruction that carries a line."""
        for instruction in instructions:
            file, line = self.location(instruction)
            if line:
                return file, line
        return self.default, 0

    def _file(self, node: str) -> str:
        """The file of a scope, found by walking up its metadata."""
        for _ in range(16):
            if node.startswith("!DIFile"):
                name = re.search(r'filename: "([^"]*)"', node)
                directory = re.search(r'directory: "([^"]*)"', node)
                return os.path.join(directory.group(1) if directory else "", name.group(1) if name else self.default)
            link = re.search(r"file: (![0-9]+)", node) or re.search(r"scope: (![0-9]+)", node)
            if link is None:
                break
            node = self._nodes.get(link.group(1), "")
        return self.default

"""What kernels print: records that the device side appended to a buffer, formatted by the host after the launch.

A GPU does the same: its print queue has a fixed size, holds the arguments only, and is written out by the host.
"""

import ctypes
import re
import struct
import sys

import numpy as np

_CAPACITY = 1 << 20
_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?([diouxXeEfFgGcsp]))")


class PrintBuffer:
    """The print queue of one launch; its memory is taken on first use of the address."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self.capacity = capacity
        self._bytes = np.empty(capacity, np.uint8)

    @property
    def address(self) -> int:
        """Address of the first record."""
        return self._bytes.ctypes.data

    def flush(self, used: int) -> None:
        """Formats the records in the first `used` bytes and writes them to standard output."""
        if used == 0:
            return
        words = self._bytes.view(np.int64)
        position, end = 0, min(used, self.capacity) // 8
        while position + 2 <= end:
            count = int(words[position + 1])
            if position + 2 + count > end:
                break
            arguments = [int(word) for word in words[position + 2 : position + 2 + count]]
            sys.stdout.write(format_record(ctypes.string_at(int(words[position])).decode(errors="replace"), arguments))
            position += 2 + count
        if used > self.capacity:
            sys.stdout.write(
                f"[{used - self.capacity} bytes of output did not fit the print queue of {self.capacity} bytes]\n"
            )
        sys.stdout.flush()


def format_record(template: str, arguments: list[int]) -> str:
    """A printf template with its arguments, each a 64-bit word."""
    remaining = iter(arguments)

    def convert(match: re.Match[str]) -> str:
        conversion = match.group(1)
        if conversion is None:
            return "%"
        word = next(remaining, 0)
        specification = re.sub(r"hh|h|ll|l|z|j|t", "", match.group(0))
        if conversion == "s":
            return specification % ctypes.string_at(word).decode(errors="replace")
        if conversion in "eEfFgG":
            return specification % struct.unpack("<d", struct.pack("<q", word))[0]
        if conversion == "p":
            return hex(word & (2**64 - 1))
        if conversion in "di":
            return specification % word
        if conversion in "ouxX":
            return specification.replace("u", "d") % (word & (2**64 - 1))
        return chr(word & 0xFF)

    return _CONVERSION.sub(convert, template)

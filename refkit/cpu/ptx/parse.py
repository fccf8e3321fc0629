"""Reads the text of inline PTX: statements, operands, local registers; and LLVM's types and constraints beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, I1, I8, I16, I32, I64, POINTER, VOID


class UnknownInstruction(LookupError):
    """Inline PTX without a host meaning; `text` is the instruction, `reason` what about it is not known."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(f"no host meaning for PTX `{text.strip()}`" + (f": {reason}" if reason else ""))
        self.text = text
        self.reason = reason


@dataclass(frozen=True)
class Instruction:
    """One instruction: `opcode` with all its dots, operands as written, and its predicate (`p`, `!p` or empty)."""

    opcode: str
    operands: tuple[str, ...]
    predicate: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The opcode between its dots, the name first."""
        return tuple(self.opcode.split("."))

    @property
    def text(self) -> str:
        """The instruction as one line."""
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".strip()


@dataclass(frozen=True)
class Declaration:
    """Local registers of one PTX type."""

    type_: str
    names: tuple[str, ...]


PTX_TYPES: dict[str, ir.Type] = {"pred": I1, "f32": F32, "f64": F64, "f16": I16, "bf16": I16, "f16x2": I32}
PTX_TYPES |= {"bf16x2": I32, "tf32": I32, "e4m3x2": I16, "e5m2x2": I16}
for _letter in "bus":
    PTX_TYPES |= {f"{_letter}8": I8, f"{_letter}16": I16, f"{_letter}32": I32, f"{_letter}64": I64}


def ptx_type(name: str) -> ir.Type:
    """The LLVM type that holds a PTX type; half-precision numbers are held as their encodings. KeyError if unknown."""
    return PTX_TYPES[name]


def llvm_type(text: str) -> ir.Type:
    """The type that LLVM IR writes so: `i32`, `float`, `ptr` or `i8*`, `{ i32, i32 }`, `<4 x i32>`, `void`."""
    text = text.strip()
    simple = {"void": VOID, "float": F32, "double": F64, "ptr": POINTER, "half": ir.HalfType()}
    if text in simple:
        return simple[text]
    if text.endswith("*"):
        return POINTER
    if re.fullmatch(r"i\d+", text):
        return ir.IntType(int(text[1:]))
    if text.startswith("{") and text.endswith("}"):
        return ir.LiteralStructType([llvm_type(part) for part in split(text[1:-1])])
    if match := re.fullmatch(r"([<\[])(\d+) x (.+)[>\]]", text):
        make = ir.VectorType if match.group(1) == "<" else ir.ArrayType
        return make(llvm_type(match.group(3)), int(match.group(2)))
    raise UnknownInstruction(text, "a type that inline assembly does not have")


def split(text: str) -> list[str]:
    """Comma-separated parts, where brackets and braces hold together."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[(<") - (character in "}])>")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


def _statements(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    found = []
    for piece in text.split(";"):
        # Braces at the start of a statement open or close a scope; those of a vector operand follow an opcode.
        statement = re.sub(r"^[\s{}]+", "", " ".join(piece.split()))
        if statement:
            found.append(statement)
    return found


def program(text: str) -> list[Instruction | Declaration]:
    """The statements of inline PTX, in order.

    Raises UnknownInstruction for labels and for directives other than `.reg`.
    """
    result: list[Instruction | Declaration] = []
    for statement in _statements(text):
        if match := re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", statement):
            result.append(Declaration(match.group(1), tuple(_register_names(match.group(2)))))
            continue
        match = re.fullmatch(r"(?:@(!?[\w%$]+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?", statement)
        if not match or match.group(2).endswith(":"):
            raise UnknownInstruction(statement, "neither an instruction nor a register declaration")
        operands = tuple(split(match.group(3) or ""))
        result.append(Instruction(match.group(2), operands, match.group(1) or ""))
    return result


def _register_names(text: str) -> list[str]:
    names: list[str] = []
    for name in split(text):
        if match := re.fullmatch(r"([\w%$]+)<(\d+)>", name):
            names.extend(f"{match.group(1)}{i}" for i in range(int(match.group(2))))
        else:
            names.append(name)
    return names


@dataclass(frozen=True)
class Constraints:
    """How many outputs an asm has, and for each input the output it is tied to (or None)."""

    outputs: int
    inputs: tuple[int | None, ...]


def constraints(text: str) -> Constraints:
    """Reads LLVM's constraint string, such as `=r,=r,l,0,~{memory}`."""
    outputs = 0
    inputs: list[int | None] = []
    for part in split(text):
        if part.startswith("~"):
            continue
        if part.startswith("="):
            outputs += 1
        else:
            inputs.append(int(part) if part.isdigit() else None)
    return Constraints(outputs, tuple(inputs))

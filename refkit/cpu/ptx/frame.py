"""What an instruction's emitter works with: the function under construction, its operands and registers."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, I1, I32, I64, POINTER, VOID, constant
from refkit.cpu.ptx.parse import Declaration, Instruction, UnknownInstruction, ptx_type
from refkit.cpu.runtime.build import Library

_OPERAND = re.compile(r"\$(?:(\d+)|\{(\d+)(?::\w+)?\})")


def reinterpret(b: ir.IRBuilder, value: ir.Value, type_: ir.Type) -> ir.Value:
    """The same bits as another type; an integer register is cut or filled with zeros, as PTX does for narrow types."""
    if value.type == type_:
        return value
    if value.type == POINTER:
        return reinterpret(b, b.ptrtoint(value, I64), type_)
    if type_ == POINTER:
        return b.inttoptr(reinterpret(b, value, I64), POINTER)
    have, want = _as_integer(value.type), _as_integer(type_)
    bits = value if value.type == have else b.bitcast(value, have)
    if have.width != want.width:
        bits = b.trunc(bits, want) if have.width > want.width else b.zext(bits, want)
    return bits if type_ == want else b.bitcast(bits, type_)


def _as_integer(type_: ir.Type) -> ir.IntType:
    if isinstance(type_, ir.IntType):
        return type_
    if isinstance(type_, ir.VectorType):
        return ir.IntType(type_.count * _as_integer(type_.element).width)
    return ir.IntType({F32: 32, F64: 64}.get(type_, 16))


class Frame:
    """One inline-assembly call: reads and writes operands by the names that PTX gives them."""

    def __init__(self, b: ir.IRBuilder, thread: ir.Value, site: ir.Value) -> None:
        self.b = b
        self._thread, self._site = thread, site
        self.uses_thread = self.uses_site = False
        self.needs_fiber = False  # set by what waits for other threads, or keeps state in the thread
        self.libraries: set[Library] = set()
        self.types: dict[str, ir.Type] = {}
        self.values: dict[str, ir.Value] = {}
        self.carry: ir.Value = constant(I1, 0)  # the condition code CC.CF of extended-precision arithmetic
        self._guard: ir.Value | None = None

    @property
    def thread(self) -> ir.Value:
        """The executor's handle of the running thread."""
        self.uses_thread = True
        return self._thread

    @property
    def site(self) -> ir.Value:
        """The number of this place in the user's file, as i32, for reports."""
        self.uses_site = self.uses_thread = True
        return self._site

    def device_call(self, name: str, result: ir.Type, *arguments: ir.Value, library: Library | None = None) -> ir.Value:
        """Call of a function that the executor provides, or a library; it gets the thread first."""
        if library is not None:
            self.libraries.add(library)
        values = (self.thread, *arguments)
        function = self.b.module.globals.get(name)
        if function is None:
            function = ir.Function(self.b.module, ir.FunctionType(result, [v.type for v in values]), name)
        return self.b.call(function, values)

    def touch(self, access: str, address: ir.Value, size: int, *, shared: bool = False) -> None:
        """Tells the sanitizers of an access ("read", "write" or "atomic") of `size` bytes.

        shared: the instruction reaches shared memory only.
        """
        self.device_call(f"rk.touch.{'shared_' * shared}{access}", VOID, self.site, address, constant(I64, size))

    def collective(
        self, library: Library, handler: str, inputs: Sequence[ir.Value], results: Sequence[ir.Type]
    ) -> list[ir.Value]:
        """The results of an instruction that all 32 lanes of a warp execute together.

        `handler(lanes, lanes)`, a function of the library, is called once for all of them with the address of the
        first lane's control block. There `THREAD_VALUE` is the address of the lane's registers: one 64-bit word for
        each input, then one for each result.
        """
        b = self.b
        self.libraries.add(library)
        self.needs_fiber = True
        with b.goto_entry_block():
            registers = b.alloca(ir.ArrayType(I64, len(inputs) + len(results)))
        zero = constant(I32, 0)
        places = [b.gep(registers, [zero, constant(I32, i)]) for i in range(len(inputs) + len(results))]
        for value, place in zip(inputs, places):
            b.store(reinterpret(b, value, I64), place)
        function = b.module.globals.get(handler)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(VOID, [POINTER, POINTER]), handler)
        addresses = (b.ptrtoint(function, I64), b.ptrtoint(registers, I64))
        self.device_call("rk.collective", VOID, self.site, *addresses)
        words = [b.load(place) for place in places[len(inputs) :]]
        return [reinterpret(b, word, type_) for word, type_ in zip(words, results)]

    def declare(self, declaration: Declaration) -> None:
        """Adds local registers."""
        for name in declaration.names:
            try:
                self.types[name] = ptx_type(declaration.type_)
            except KeyError:
                raise UnknownInstruction(f".reg .{declaration.type_}", "a register type that is not known") from None

    def guard(self, instruction: Instruction) -> None:
        """Sets the predicate under which the next instruction writes."""
        if not instruction.predicate:
            self._guard = None
            return
        value = self.read(instruction.predicate.removeprefix("!"), I1)
        self._guard = self.b.not_(value) if instruction.predicate.startswith("!") else value

    @property
    def predicate(self) -> ir.Value | None:
        """The predicate of the running instruction: side effects stand in `with frame.b.if_then(frame.predicate)`."""
        return self._guard

    def read(self, operand: str, type_: ir.Type) -> ir.Value:
        """An operand (`$1`, a register, an immediate, `-x` or `!p`) as bits of that type."""
        if operand.startswith("!"):
            return self.b.not_(self.read(operand[1:], type_))
        if operand == "_":
            return constant(type_, 0)
        name = self._name(operand)
        if name in self.types:
            if name not in self.values:
                raise UnknownInstruction(operand, "a register that is read before it is written")
            return reinterpret(self.b, self.values[name], type_)
        return self._immediate(operand, type_)

    def write(self, operand: str, value: ir.Value) -> None:
        """Assigns an operand; a value narrower than the register is filled with zeros."""
        if operand == "_":
            return
        name = self._name(operand)
        if name not in self.types:
            raise UnknownInstruction(operand, "not an output or a register")
        value = reinterpret(self.b, value, self.types[name])
        if self._guard is not None:
            old = self.values.get(name, constant(self.types[name], ir.Undefined))
            value = self.b.select(self._guard, value, old)
        self.values[name] = value

    def width(self, operand: str) -> int:
        """Bits of the register behind an operand."""
        type_ = self.types[self._name(operand)]
        return 64 if type_ == POINTER else _as_integer(type_).width

    def is_register(self, operand: str) -> bool:
        """Whether the operand names a register or an asm operand."""
        return self._name(operand) in self.types

    def address(self, operand: str) -> ir.Value:
        """The pointer of a memory operand `[x]` or `[x+8]`."""
        match = re.fullmatch(r"\[\s*([\w%${}:]+?)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
        if not match:
            raise UnknownInstruction(operand, "an address of a form that is not known")
        if self.width(match.group(1)) < 64:
            raise UnknownInstruction(operand, "a 32-bit shared-memory address, which no host pointer fits")
        base = self.read(match.group(1), POINTER)
        offset = int(match.group(2) or "0", 0)
        return self.b.gep(base, [constant(I64, offset)], source_etype=ir.IntType(8)) if offset else base

    def _name(self, operand: str) -> str:
        match = _OPERAND.fullmatch(operand)
        return f"${match.group(1) or match.group(2)}" if match else operand

    def _immediate(self, operand: str, type_: ir.Type) -> ir.Value:
        text = operand.strip()
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            return reinterpret(self.b, constant(I32, int(match.group(1), 16)), type_)
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            return reinterpret(self.b, constant(I64, int(match.group(1), 16)), type_)
        if text == "WARP_SZ":
            return constant(type_, 32)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text):
            value = int(text.rstrip("U"), 8 if re.fullmatch(r"-?0\d+U?", text) else 0)
            if isinstance(type_, ir.IntType):
                return constant(type_, value & (2**type_.width - 1))
            return constant(type_, float(value))
        if re.fullmatch(r"-?\d+\.\d*([eE][-+]?\d+)?", text) and type_ in (F32, F64):
            number = float(text)
            return constant(type_, struct.unpack("f", struct.pack("f", number))[0] if type_ == F32 else number)
        raise UnknownInstruction(operand, "an operand that is not known")

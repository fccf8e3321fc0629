"""CUDA's integer intrinsics."""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library.build import I1, I8, I32, I64, DeviceFunction, constant, intrinsic

_PREFIXES = {"": (I32, True), "u": (I32, False), "ll": (I64, True), "ull": (I64, False)}


def mul_high(b: ir.IRBuilder, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    """The upper half of the product of two integers of one width."""
    width = x.type.width
    double = ir.IntType(2 * width)
    extend = b.sext if signed else b.zext
    product = b.mul(extend(x, double), extend(y, double))
    return b.trunc(b.lshr(product, constant(double, width)), x.type)


def mul24(b: ir.IRBuilder, x: ir.Value, y: ir.Value, signed: bool, high: bool = False) -> ir.Value:
    """The low (or bits 16 to 47) 32 bits of the product of the lowest 24 bits of two i32."""
    eight = constant(I32, 8)
    low = [(b.ashr if signed else b.lshr)(b.shl(v, eight), eight) for v in (x, y)]
    if not high:
        return b.mul(*low)
    product = b.mul(*((b.sext if signed else b.zext)(v, I64) for v in low))
    return b.trunc(b.lshr(product, constant(I64, 16)), I32)


def absolute_difference(b: ir.IRBuilder, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    """|x - y| modulo 2^width."""
    compare = b.icmp_signed if signed else b.icmp_unsigned
    return b.select(compare(">", x, y), b.sub(x, y), b.sub(y, x))


def average(b: ir.IRBuilder, x: ir.Value, y: ir.Value, signed: bool, up: bool) -> ir.Value:
    """(x + y) / 2 of two i32 without overflow, rounded down or up."""
    extend = b.sext if signed else b.zext
    total = b.add(extend(x, I64), extend(y, I64))
    if up:
        total = b.add(total, constant(I64, 1))
    return b.trunc(b.ashr(total, constant(I64, 1)), I32)


def permute_bytes(b: ir.IRBuilder, x: ir.Value, y: ir.Value, selector: ir.Value) -> ir.Value:
    """PTX `prmt.b32` in its default mode: four bytes of y:x, by nibbles; a nibble's top bit copies the byte's sign."""
    both = b.or_(b.shl(b.zext(y, I64), constant(I64, 32)), b.zext(x, I64))
    result = constant(I32, 0)
    for place in range(4):
        nibble = b.and_(b.lshr(selector, constant(I32, 4 * place)), constant(I32, 15))
        shift = b.zext(b.mul(b.and_(nibble, constant(I32, 7)), constant(I32, 8)), I64)
        byte = b.trunc(b.lshr(both, shift), I8)
        replicate = b.icmp_unsigned(">=", nibble, constant(I32, 8))
        byte = b.select(replicate, b.ashr(byte, constant(I8, 7)), byte)
        result = b.or_(result, b.shl(b.zext(byte, I32), constant(I32, 8 * place)))
    return result


def leading_zeros(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Leading zero bits as i32; the width for 0."""
    return _to_i32(b, intrinsic(b, "ctlz", x, constant(I1, 0)))


def population_count(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Bits that are one, as i32."""
    return _to_i32(b, intrinsic(b, "ctpop", x))


def find_first_set(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """1 + the position of the lowest one bit, 0 for 0, as i32."""
    position = b.add(_to_i32(b, intrinsic(b, "cttz", x, constant(I1, 0))), constant(I32, 1))
    return b.select(b.icmp_unsigned("==", x, constant(x.type, 0)), constant(I32, 0), position)


def _to_i32(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return x if x.type == I32 else b.trunc(x, I32)


def _functions() -> dict[str, DeviceFunction]:
    table: dict[str, DeviceFunction] = {}

    def add(name: str, type_: ir.Type, count: int, emit, result: ir.Type | None = None) -> None:
        table["__nv_" + name] = DeviceFunction(result or type_, (type_,) * count, lambda b, a: emit(b, *a))

    for prefix, (type_, signed) in _PREFIXES.items():
        kind = "s" if signed else "u"
        for which in ("min", "max"):
            add(prefix + which, type_, 2, lambda b, x, y, op=kind + which: intrinsic(b, op, x, y))
    for suffix_, type_ in (("", I32), ("ll", I64)):
        add("brev" + suffix_, type_, 1, lambda b, x: intrinsic(b, "bitreverse", x))
        for name, emit in (("clz", leading_zeros), ("popc", population_count), ("ffs", find_first_set)):
            add(name + suffix_, type_, 1, emit, I32)
        add(suffix_ + "abs", type_, 1, lambda b, x: intrinsic(b, "abs", x, constant(I1, 0)))
    for prefix, signed in (("", True), ("u", False)):
        add(prefix + "mulhi", I32, 2, lambda b, x, y, s=signed: mul_high(b, x, y, s))
        add(prefix + "mul64hi", I64, 2, lambda b, x, y, s=signed: mul_high(b, x, y, s))
        add(prefix + "mul24", I32, 2, lambda b, x, y, s=signed: mul24(b, x, y, s))
        add(prefix + "sad", I32, 3, lambda b, x, y, z, s=signed: b.add(absolute_difference(b, x, y, s), z))
        add(prefix + "hadd", I32, 2, lambda b, x, y, s=signed: average(b, x, y, s, up=False))
        add(prefix + "rhadd", I32, 2, lambda b, x, y, s=signed: average(b, x, y, s, up=True))
    # CUDA's __byte_perm takes the low three bits of a selector's nibble, where prmt takes four.
    add("byte_perm", I32, 3, lambda b, x, y, s: permute_bytes(b, x, y, b.and_(s, constant(I32, 0x7777))))
    return table


FUNCTIONS = _functions()

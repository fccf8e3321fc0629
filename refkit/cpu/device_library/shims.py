"""The C++ shims through which numba-cuda calls the half-precision headers (cuda_fp16.h, cuda_bf16.h).

What a shim computes follows from its symbol (`mangling.py`): a name, and the C++ types it takes. The functions of pairs
(`__hadd2`) are those of single numbers (`__hadd`), applied to each component.
"""

from __future__ import annotations

import re

from llvmlite import ir

from refkit.cpu.device_library import fp8, small_floats
from refkit.cpu.device_library.abi import TYPES, Components, CType, convert, load, shim_function, store
from refkit.cpu.device_library.build import I8, I16, I32, POINTER, DeviceFunction, constant, is_nan
from refkit.cpu.device_library.floats import Format, widen
from refkit.cpu.device_library.mangling import Shim, demangle

# In the names of conversion functions (`__bfloat162uint_rn`) the types are written differently.
_WORDS = {
    "float": "float",
    "double": "double",
    "bfloat16": "__nv_bfloat16",
    "half": "__half",
    "char": "signed char",
    "uchar": "unsigned char",
    "short": "short",
    "ushort": "unsigned short",
    "int": "int",
    "uint": "unsigned int",
    "ll": "long long",
    "ull": "unsigned long long",
}
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_CONVERSION = re.compile(rf"__({_WORD})2({_WORD})(?:_(r[nzdu]))?")
_REINTERPRETATION = re.compile(rf"__({_WORD})_as_({_WORD})")
_COMPONENTS = {
    # name: result type, and for each component (argument, component) that it takes
    "make_bfloat162": ("__nv_bfloat162", ((0, 0), (1, 0))),
    "__halves2bfloat162": ("__nv_bfloat162", ((0, 0), (1, 0))),
    "__bfloat162bfloat162": ("__nv_bfloat162", ((0, 0), (0, 0))),
    "__lowhigh2highlow": ("__nv_bfloat162", ((0, 1), (0, 0))),
    "__lows2bfloat162": ("__nv_bfloat162", ((0, 0), (1, 0))),
    "__highs2bfloat162": ("__nv_bfloat162", ((0, 1), (1, 1))),
    "__low2bfloat16": ("__nv_bfloat16", ((0, 0),)),
    "__high2bfloat16": ("__nv_bfloat16", ((0, 1),)),
    "__low2bfloat162": ("__nv_bfloat162", ((0, 0), (0, 0))),
    "__high2bfloat162": ("__nv_bfloat162", ((0, 1), (0, 1))),
    "__low2float": ("float", ((0, 0),)),
    "__high2float": ("float", ((0, 1),)),
    "__float2bfloat162_rn": ("__nv_bfloat162", ((0, 0), (0, 0))),
    "__floats2bfloat162_rn": ("__nv_bfloat162", ((0, 0), (1, 0))),
    "__float22bfloat162_rn": ("__nv_bfloat162", ((0, 0), (0, 1))),
    "__bfloat1622float2": ("float2", ((0, 0), (0, 1))),
}
_OPERATORS = {"+": "__hadd", "-": "__hsub", "*": "__hmul", "/": "__hdiv", "unary -": "__hneg"}
_RELATIONS = {"==": "eq", "!=": "neu", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _copied(shim: Shim, source: CType, target: CType, result: int, mode: str = "rn") -> DeviceFunction:
    """A shim whose last argument, converted, is its result; `result` is the parameter that receives it."""

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        values = [convert(b, x, source, target, mode) for x in load(b, arguments[-1], source)]
        store(b, values, arguments[result], target)

    return shim_function(result + 2, body)


def _constructor(shim: Shim) -> DeviceFunction | None:
    """`C(ignored, self, arguments...)`, of fp8 without the first; with no argument the object stays as it is."""
    target = TYPES.get(shim.name)
    types = [TYPES[p] for p in shim.parameters if p in TYPES]
    if target is None or len(types) < len(shim.parameters):
        return None
    this = 0 if target.component == I8 else 1
    if not types:
        return shim_function(this + 1, lambda b, arguments: None)
    if len(types) == 1:
        return _copied(shim, types[0], target, this)

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        store(b, [load(b, p, t)[0] for p, t in zip(arguments[this + 1 :], types)], arguments[this], target)

    return shim_function(this + 1 + len(types), body)


def _conversion(shim: Shim) -> DeviceFunction | None:
    source, target = TYPES.get(shim.parameters[0]), TYPES.get(shim.name)
    if source is None or target is None:
        return None
    if shim.name == "bool" and source.scale:  # no scale factor is zero
        return shim_function(2, lambda b, arguments: b.store(constant(I8, 1), arguments[0]))
    if shim.name != "bool":
        return _copied(shim, source, target, 0, "rn" if source.scale and target.format is not None else "rz")

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        (x,) = load(b, arguments[1], source)
        magnitude = b.and_(x, constant(x.type, 2 ** (x.type.width - 1) - 1))
        b.store(b.zext(b.icmp_unsigned("!=", magnitude, constant(x.type, 0)), I8), arguments[0])

    return shim_function(2, body)


def _elementwise(emit: small_floats.Scalar, type_: CType, count: int, assign: bool = False) -> DeviceFunction:
    """result[i] = emit(argument0[i], ...); with `assign` the first argument becomes the result too."""

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        operands = [load(b, p, type_) for p in arguments[1:]]
        values = [emit(b, *components) for components in zip(*operands)]
        store(b, values, arguments[0], type_)
        if assign:
            store(b, values, arguments[1], type_)

    return shim_function(1 + count, body)


def _comparison(name: str, type_: CType, form: str) -> DeviceFunction | None:
    """A comparison of every component: `bool` of all, `mask` of 16 bits each, or `number` 1.0 and 0.0."""
    relation = small_floats.comparison(name)
    if relation is None or type_.format is None:
        return None

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        pairs = zip(load(b, arguments[1], type_), load(b, arguments[2], type_))
        _store_truths(b, [small_floats.compare(b, relation[0], type_.half, x, y, relation[1]) for x, y in pairs])

    def _store_truths(b: ir.IRBuilder, truths: Components) -> None:
        result = b.function.args[0]
        if form == "bool":
            every = truths[0] if len(truths) == 1 else b.and_(*truths)
            b.store(b.zext(every, I8), result)
        elif form == "mask":
            store(b, [b.sext(t, I16) for t in truths], result, type_)
        else:
            store(b, _as_numbers(b, truths, type_), result, type_)

    return shim_function(3, body)


def _as_numbers(b: ir.IRBuilder, truths: Components, type_: CType) -> Components:
    one = (1 - type_.half.least_exponent) << type_.half.fraction_bits
    return [b.select(t, constant(I16, one), constant(I16, 0)) for t in truths]


def _operator(shim: Shim) -> DeviceFunction | None:
    type_ = TYPES.get(shim.parameters[0])
    if type_ is None or type_.format is None:
        return None
    if shim.name in _RELATIONS:
        return _comparison(_RELATIONS[shim.name], type_, "bool")
    if shim.name == "unary +":
        return _copied(shim, type_, type_, 0)
    assign = shim.name.endswith("=")
    emit = small_floats.arithmetic_function(_OPERATORS[shim.name.removesuffix("=")], type_.format)
    return _elementwise(emit, type_, len(shim.parameters), assign) if emit else None


def _free_function(shim: Shim) -> DeviceFunction | None:
    name, count = shim.name, len(shim.parameters)
    if name.startswith("__nv_cvt_"):
        return fp8.conversion_function(name)
    if name in _COMPONENTS:
        return _component_function(shim)
    if match := _CONVERSION.fullmatch(name):
        source, target = (TYPES[_WORDS[word]] for word in match.group(1, 2))
        return _copied(shim, source, target, 0, match.group(3) or "rn")
    if match := _REINTERPRETATION.fullmatch(name):
        return _copied(shim, CType(I16), CType(I16), 0)
    if match := re.fullmatch(r"__ld(g|cg|ca|cs|lu|cv)", name):
        return _memory(shim, stores=False)
    if match := re.fullmatch(r"__st(wb|cg|cs|wt)", name):
        return _memory(shim, stores=True)
    if name == "atomicAdd":
        return _atomic_add(shim)
    type_ = TYPES.get(shim.parameters[0]) if shim.parameters else None
    if type_ is None or type_.format is None:
        return None
    return _half_function(_single_name(name, type_.count), name, type_, count)


def _single_name(name: str, count: int) -> str:
    """The name for single numbers of a function of pairs: `__hadd2_rn` is `__hadd_rn`, `h2exp2` is `hexp2`."""
    if count == 1:
        return name
    if name.startswith(("h2", "__h2")):
        return name.replace("h2", "h", 1)
    return re.sub(r"2(?=_|$)", "", name, count=1)


def _half_function(single: str, name: str, type_: CType, count: int) -> DeviceFunction | None:
    format_ = type_.half
    if single == "__hcmadd":
        return _complex_multiply_add(type_)
    if single == "__hisinf":
        return shim_function(
            2, lambda b, a: b.store(small_floats.infinity_sign(b, format_, *load(b, a[1], type_)), a[0])
        )
    if single == "__hisnan":
        return _is_nan(type_)
    emit = small_floats.arithmetic_function(single, format_)
    if emit is not None:
        return _elementwise(emit, type_, count)
    if match := re.fullmatch(r"__h(b?)(\w\w)(u?)(_mask)?", single):
        form = "mask" if match.group(4) else "bool" if match.group(1) or type_.count == 1 else "number"
        return _comparison(match.group(2) + match.group(3), type_, form)
    return None


def _is_nan(type_: CType) -> DeviceFunction:
    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        truths = [is_nan(b, widen(b, x, type_.half)) for x in load(b, arguments[1], type_)]
        if type_.count == 1:
            b.store(b.zext(truths[0], I8), arguments[0])
        else:
            store(b, _as_numbers(b, truths, type_), arguments[0], type_)

    return shim_function(2, body)


def _complex_multiply_add(type_: CType) -> DeviceFunction:
    """a * b + c of complex numbers (real, imaginary), by four fused operations in the header's order."""

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        (ar, ai), (br, bi), (cr, ci) = (load(b, p, type_) for p in arguments[1:])
        fused = lambda *a: small_floats.fused(b, type_.half, *a)  # noqa: E731
        real = fused(small_floats.sign_bit(b, "neg", ai), bi, fused(ar, br, cr))
        imaginary = fused(ai, br, fused(ar, bi, ci))
        store(b, [real, imaginary], arguments[0], type_)

    return shim_function(4, body)


def _component_function(shim: Shim) -> DeviceFunction | None:
    result_name, picks = _COMPONENTS[shim.name]
    target, sources = TYPES[result_name], [TYPES[p] for p in shim.parameters]

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        objects = [load(b, p, t) for p, t in zip(arguments[1:], sources)]
        component = CType(target.component, 1, target.format)
        values = [
            convert(b, objects[i][k], CType(sources[i].component, 1, sources[i].format), component, "rn")
            for i, k in picks
        ]
        store(b, values, arguments[0], target)

    return shim_function(1 + len(sources), body)


def _memory(shim: Shim, stores: bool) -> DeviceFunction | None:
    """Loads and stores with a cache hint: the pointer itself lies behind a pointer."""
    type_ = TYPES.get(shim.parameters[0].removesuffix("*"))
    if type_ is None:
        return None

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        address = b.load(arguments[1], typ=POINTER)
        source, target = (arguments[2], address) if stores else (address, arguments[0])
        store(b, load(b, source, type_), target, type_)

    return shim_function(3 if stores else 2, body)


def _atomic_add(shim: Shim) -> DeviceFunction | None:
    """*address += value by compare-and-swap; gives the old value. A pair's two sums are atomic each for itself."""
    type_ = TYPES.get(shim.parameters[0].removesuffix("*"))
    if type_ is None or type_.format is None:
        return None
    format_ = type_.format

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        address = b.load(arguments[1], typ=POINTER)
        added = load(b, arguments[2], type_)
        for i, value in enumerate(added):
            place, result = (b.gep(p, [constant(I32, i)], source_etype=I16) for p in (address, arguments[0]))
            b.store(_swap_until_added(b, place, value, format_), result)

    return shim_function(3, body)


def _swap_until_added(b: ir.IRBuilder, place: ir.Value, value: ir.Value, format_: Format) -> ir.Value:
    first = b.load_atomic(place, "monotonic", 2, typ=I16)
    before, again, done = b.block, b.append_basic_block("again"), b.append_basic_block("done")
    b.branch(again)
    b.position_at_end(again)
    old = b.phi(I16)
    old.add_incoming(first, before)
    new = small_floats.binary(b, "add", format_, old, value)
    swapped = b.cmpxchg(place, old, new, "monotonic", "monotonic")
    old.add_incoming(b.extract_value(swapped, 0), again)
    b.cbranch(b.extract_value(swapped, 1), done, again)
    b.position_at_end(done)
    return old


def resolve(symbol: str) -> DeviceFunction | None:
    """The host meaning of a half-precision shim, or None where the symbol is not one that is known."""
    shim = demangle(symbol)
    if shim is None:
        return None
    makers = {
        "constructor": _constructor,
        "conversion": _conversion,
        "operator": _operator,
        "function": _free_function,
    }
    return makers[shim.kind](shim)

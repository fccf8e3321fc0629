"""Memory that a kernel allocates: numba-cuda's reference-counted blocks, which arrays made in a kernel live in.

A block is `{count, destructor, destructor's argument, data, size}`, five words, and the data behind it; the layout is
that of `MemInfo` in numba-cuda's nrt.cuh. The memory comes from the host's allocator.
"""

from __future__ import annotations

from llvmlite import ir

from refkit.cpu.device_library.build import I32, I64, POINTER, VOID, DeviceFunction, constant

COUNTER = "rk_count_allocation"
ALLOC, FREE, BLOCK_ALLOC, BLOCK_FREE = range(4)  # what is counted
_COUNT, _DESTRUCTOR, _, _DATA, _SIZE = range(5)
_BLOCK_BYTES = 5 * 8


def _external(b: ir.IRBuilder, name: str, result: ir.Type, *parameters: ir.Type) -> ir.Function:
    known = b.module.globals.get(name)
    return known or ir.Function(b.module, ir.FunctionType(result, parameters), name)


def _count(b: ir.IRBuilder, *events: int) -> None:
    for event in events:
        b.call(_external(b, COUNTER, VOID, I64), [constant(I64, event)])


def _word(b: ir.IRBuilder, block: ir.Value, index: int) -> ir.Value:
    return b.gep(block, [constant(I32, index)], source_etype=I64)


def _allocate(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
    """A block of `size` bytes whose data are aligned, counted once."""
    size, align = arguments
    wide = b.zext(align, I64)
    room = b.add(b.add(size, wide), constant(I64, _BLOCK_BYTES))
    block = b.call(_external(b, "malloc", POINTER, I64), [room])
    first = b.add(b.ptrtoint(block, I64), constant(I64, _BLOCK_BYTES))
    rest = b.urem(first, wide)
    gap = b.select(b.icmp_unsigned("==", rest, constant(I64, 0)), rest, b.sub(wide, rest))
    zero = constant(I64, 0)
    for index, value in enumerate((constant(I64, 1), zero, zero, b.add(first, gap), size)):
        b.store(value, _word(b, block, index))
    _count(b, ALLOC, BLOCK_ALLOC)
    return block


def _data(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
    return b.load(_word(b, arguments[0], _DATA), typ=POINTER)


def _acquire(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
    (block,) = arguments
    with b.if_then(_is_block(b, block)):
        b.atomic_rmw("add", _word(b, block, _COUNT), constant(I64, 1), "monotonic")


def _release(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
    """One reference fewer; the last one frees the block."""
    (block,) = arguments
    with b.if_then(_is_block(b, block)):
        before = b.atomic_rmw("sub", _word(b, block, _COUNT), constant(I64, 1), "acq_rel")
        with b.if_then(b.icmp_unsigned("==", before, constant(I64, 1))):
            b.call(_external(b, "free", VOID, POINTER), [block])
            _count(b, FREE, BLOCK_FREE)


def _is_block(b: ir.IRBuilder, block: ir.Value) -> ir.Value:
    return b.icmp_unsigned("!=", b.ptrtoint(block, I64), constant(I64, 0))


FUNCTIONS = {
    "NRT_MemInfo_alloc_aligned": DeviceFunction(POINTER, (I64, I32), _allocate),
    "NRT_MemInfo_data_fast": DeviceFunction(POINTER, (POINTER,), _data),
    "NRT_incref": DeviceFunction(VOID, (POINTER,), _acquire),
    "NRT_decref": DeviceFunction(VOID, (POINTER,), _release),
}

"""Compiles IR text and gives NumPy callables that run one of its functions over arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_TYPES = {"f4": ir.FloatType(), "f8": ir.DoubleType()}
_ENGINES: list = []  # machine code lives as long as its engine


def _type(dtype: np.dtype) -> ir.Type:
    return _TYPES.get(dtype.str[1:]) or ir.IntType(8 * dtype.itemsize)


def _loop(name: str, result: np.dtype | None, passed: Sequence[tuple[np.dtype, bool]], status: bool) -> str:
    """IR of `loop(i64 n, ptr result, ptr argument...)`, which calls `name` once for each element."""
    module = ir.Module()
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    types = [pointer if by_pointer else _type(dtype) for dtype, by_pointer in passed]
    returned = ir.IntType(32) if status else _type(result) if result is not None else ir.VoidType()
    callee = ir.Function(module, ir.FunctionType(returned, types), name)
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64, pointer] + [pointer] * len(passed)), "loop")
    entry, head, body, done = (loop.append_basic_block() for _ in range(4))
    b = ir.IRBuilder(entry)
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(i64)
    i.add_incoming(ir.Constant(i64, 0), entry)
    b.cbranch(b.icmp_signed("<", i, loop.args[0]), body, done)
    b.position_at_end(body)
    arguments = []
    for (dtype, by_pointer), base in zip(passed, loop.args[2:]):
        place = b.gep(base, [i], source_etype=_type(dtype))
        arguments.append(place if by_pointer else b.load(place, typ=_type(dtype)))
    value = b.call(callee, arguments)
    if result is not None and not status:
        b.store(value, b.gep(loop.args[1], [i], source_etype=_type(result)))
    after = b.add(i, ir.Constant(i64, 1))
    i.add_incoming(after, body)
    b.branch(head)
    b.position_at_end(done)
    b.ret_void()
    return "\n".join(line for line in str(module).splitlines() if not line.startswith("target "))


def vectorised(
    definitions: str, name: str, result: str | None, parameters: Sequence[str], *, status: bool = False
) -> Callable:
    """A function of arrays that applies `name` elementwise.

    Args:
        definitions: IR text that defines `name`.
        result: dtype of the returned value, None for void.
        parameters: dtypes; one that starts with `*` is passed as the address of the element and so may be written.
        status: the function returns an i32 that is ignored (the convention of the half-precision shims).

    Returns: `f(*arrays)`; arrays of `*` parameters are used in place. The result array, or None.
    """
    passed = [(np.dtype(p.lstrip("*")), p.startswith("*")) for p in parameters]
    out = np.dtype(result) if result else None
    module = llvm.parse_assembly(definitions)
    module.link_in(llvm.parse_assembly(_loop(name, out, passed, status)))
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(passed)))(
        engine.get_function_address("loop")
    )

    def run(*arrays: np.ndarray) -> np.ndarray | None:
        held = [
            array if by_pointer else np.ascontiguousarray(array, dtype)
            for array, (dtype, by_pointer) in zip(arrays, passed)
        ]
        assert all(array.flags.c_contiguous and array.dtype == dtype for array, (dtype, _) in zip(held, passed))
        n = held[0].size
        assert all(array.size == n for array in held)
        values = np.zeros(n, out or np.int8)
        loop(n, values.ctypes.data, *(array.ctypes.data for array in held))
        return values if out is not None else None

    return run

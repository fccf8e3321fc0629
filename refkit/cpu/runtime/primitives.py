"""What the scheduler needs beyond Numba's dialect: addresses as word arrays, the context switch, calls, atomics."""

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

words_type = types.CPointer(types.int64)
_WORD = ir.IntType(64)
_WORDS = _WORD.as_pointer()


@intrinsic
def words(typingctx, address):
    """The words at an address given as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], _WORDS)

    return words_type(types.int64), generate


@intrinsic
def address_of(typingctx, pointer):
    """The address of a word array, as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], _WORD)

    return types.int64(words_type), generate


@intrinsic
def switch(typingctx, save, target):
    """Saves the running context's stack pointer into `save[0]` and continues at the stack pointer `target`."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.VoidType(), [_WORDS, _WORD])
        function = cgutils.get_or_insert_function(builder.module, function_type, "rk_switch")
        builder.call(function, arguments)
        return context.get_dummy_value()

    return types.void(words_type, types.int64), generate


@intrinsic
def call_address(typingctx, address, first, second):
    """Calls the function at `address` with two word arrays."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.VoidType(), [_WORDS, _WORDS])
        builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, words_type, words_type), generate


def _symbol_address(symbol):
    @intrinsic
    def function(typingctx):
        def generate(context, builder, signature, arguments):
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), symbol)
            return builder.ptrtoint(function, _WORD)

        return types.int64(), generate

    return function


address_of_start = _symbol_address("rk_start")
address_of_thread_main = _symbol_address("rk_thread_main")
address_of_plain_main = _symbol_address("rk_plain_main")


def _atomic(operation):
    @intrinsic
    def function(typingctx, pointer, index, value):
        def generate(context, builder, signature, arguments):
            target = builder.gep(arguments[0], [arguments[1]])
            return builder.atomic_rmw(operation, target, arguments[2], "seq_cst")

        return types.int64(words_type, types.int64, types.int64), generate

    return function


fetch_add = _atomic("add")


@intrinsic
def load(typingctx, pointer, index):
    """An atomic load: another operating-system thread may write this word."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(builder.gep(arguments[0], [arguments[1]]), "monotonic", 8)

    return types.int64(words_type, types.int64), generate


@intrinsic
def compare_exchange(typingctx, pointer, index, expected, desired):
    """The old value of `pointer[index]`, which becomes `desired` if it was `expected`."""

    def generate(context, builder, signature, arguments):
        target = builder.gep(arguments[0], [arguments[1]])
        pair = builder.cmpxchg(target, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 0)

    return types.int64(words_type, types.int64, types.int64, types.int64), generate


@intrinsic
def fill_bytes(typingctx, address, value, count):
    """Sets `count` bytes at an address."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        memset = builder.module.declare_intrinsic("llvm.memset", [pointer.type, _WORD])
        byte = builder.trunc(arguments[1], ir.IntType(8))
        builder.call(memset, [pointer, byte, arguments[2], ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(typingctx, address):
    """Asks for the cache line at an address, which is written soon."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type] + [ir.IntType(32)] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, ir.IntType(32)(1), ir.IntType(32)(3), ir.IntType(32)(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def byte_at(typingctx, address):
    """The unsigned byte at an address."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def copy_bytes(typingctx, destination, source, count):
    """Copies `count` bytes between two addresses."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        to, origin = (builder.inttoptr(address, byte) for address in arguments[:2])
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, _WORD])
        builder.call(memcpy, [to, origin, arguments[2], ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def reallocate(typingctx, address, size):
    """C's `realloc`: an allocation of `size` bytes with the contents of the old one (0 for none), as an address."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(_WORD, [_WORD, _WORD])
        function = cgutils.get_or_insert_function(builder.module, function_type, "realloc")
        return builder.call(function, arguments)

    return types.int64(types.int64, types.int64), generate

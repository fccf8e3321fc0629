"""Everything that numba-cuda can declare has a definition of the same signature, or is listed here with a reason."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import numba.cuda
import pytest
from numba.cuda import libdevicefuncs

from refkit.cpu import engine
from refkit.cpu.device_library import UnknownDeviceFunction, definitions, is_known, known_libdevice_functions
from refkit.cpu.device_library.mangling import demangle

TYPES = {"int16": "i16", "int32": "i32", "int64": "i64", "float32": "float", "float64": "double", "none": "void"}
# Shuffles in the C++ headers: numba-cuda exports none of them, and a shim has no hidden thread to shuffle with.
SHUFFLES = re.compile(r"_ZL\d+__shfl_(up_|down_|xor_)?sync")


def shim_symbols() -> dict[str, int]:
    """Each shim's symbol and its number of parameters, from the C++ text in numba-cuda's generated bindings."""
    found = {}
    for name in ("cuda_bf16.py", "cuda_fp16.py", "cuda_fp8.py"):
        text = (Path(numba.cuda.__file__).parent / "_internal" / name).read_text()
        for symbol, parameters in re.findall(r'extern "C" __device__ int\s+(\w+)\(([^)]*)\)', text):
            found.setdefault(symbol, set()).add(parameters.count(",") + 1)
    return found


def test_every_libdevice_function_has_the_signature_that_numba_declares():
    module = llvm.parse_assembly(definitions(libdevicefuncs.functions))
    module.verify()
    defined = {f.name: f for f in module.functions if not f.is_declaration}
    assert set(libdevicefuncs.functions) <= set(defined)
    for name, (result, parameters) in libdevicefuncs.functions.items():
        function = defined[name]
        expected = ["ptr" if p.is_ptr else TYPES[str(p.ty)] for p in parameters]
        assert [str(a.type) for a in function.arguments] == expected, name
        assert str(function.global_value_type).split(" (")[0] == TYPES[str(result)], name


def test_every_half_precision_shim_is_defined_or_listed():
    symbols = shim_symbols()
    assert len(symbols) > 400
    unknown = {symbol for symbol in symbols if not is_known(symbol)}
    assert {symbol for symbol in unknown if not SHUFFLES.match(symbol)} == set()
    assert len(list(filter(SHUFFLES.match, unknown))) == 12
    known = {symbol: counts for symbol, counts in symbols.items() if symbol not in unknown}
    module = llvm.parse_assembly(definitions(known))
    module.verify()
    for function in module.functions:
        if function.name in known:
            assert [str(a.type) for a in function.arguments] == ["ptr"] * len(list(function.arguments))
            assert len(list(function.arguments)) in known[function.name], function.name


def test_every_external_symbol_is_one_of_the_process():
    """A JIT does not report an unresolved symbol, it jumps to address 0."""
    symbols = known_libdevice_functions() | {symbol for symbol in shim_symbols() if is_known(symbol)}
    module = llvm.parse_assembly(definitions(symbols))
    external = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    assert len(external) > 20
    engine.load(
        engine.machine_code(llvm.parse_assembly(engine.host_header()))
    )  # LLVM looks into the process from then on
    assert {name for name in external if not llvm.address_of_symbol(name)} == set()


def test_definitions_are_one_for_each_name_and_free_of_a_target():
    text = definitions(["__nv_expf", "__nv_expf", "__nv_exp"])
    assert text.count("define ") == 2
    assert "target" not in text
    assert text.count("declare") == 1  # exp, for both


def test_an_unknown_name_is_named():
    with pytest.raises(UnknownDeviceFunction, match="__nv_no_such_function") as raised:
        definitions(["__nv_expf", "__nv_no_such_function"])
    assert raised.value.name == "__nv_no_such_function"


@pytest.mark.parametrize(
    ("symbol", "kind", "name", "parameters"),
    [
        ("_ZmlRK13__nv_bfloat16S1__nbst", "operator", "*", ("__nv_bfloat16", "__nv_bfloat16")),
        ("_ZN6__halfC1Ei_nbst", "constructor", "__half", ("int",)),
        ("_ZN14__nv_bfloat162C1ERK13__nv_bfloat16S2__nbst", "constructor", "__nv_bfloat162", ("__nv_bfloat16",) * 2),
        ("____nv_bfloat16__ZNK13__nv_bfloat16cvfEv_1", "conversion", "float", ("__nv_bfloat16",)),
        ("_ZL9atomicAddP6__halfS__nbst", "function", "atomicAdd", ("__half*", "__half")),
        ("_ZL14make_bfloat16213__nv_bfloat16S__nbst", "function", "make_bfloat162", ("__nv_bfloat16",) * 2),
    ],
)
def test_symbols_are_read(symbol, kind, name, parameters):
    shim = demangle(symbol)
    assert (shim.kind, shim.name, shim.parameters) == (kind, name, parameters)


def test_other_symbols_are_no_shims():
    assert demangle("__nv_expf") is None
    assert demangle("_ZN6__half_nbst") is None

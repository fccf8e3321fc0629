"""Turns a kernel's device IR into host IR, as text: names, address spaces, inline assembly, hidden thread argument.

Text, because LLVM upgrades or rejects some of the device intrinsics as soon as it parses them, and because llvmlite
offers no way to change a parsed instruction. The order of the steps is the order of the functions below.
"""

import re
from dataclasses import dataclass, field

from llvmlite import binding as llvm

from . import engine
from .debug_lines import Lines
from .faults import Unsupported
from .ptx import Meaning, UnknownInstruction, meaning

# device operations that take a site: the place in the user's file, for reports
_SITED = (
    "nvvm.barrier0|nvvm.barrier0.popc|nvvm.barrier0.and|nvvm.barrier0.or|nvvm.bar.warp.sync|nvvm.shfl.sync.i32|nvvm.shfl.sync.f32"
    "|nvvm.vote.sync|nvvm.match.any.sync.i32|nvvm.match.any.sync.i64|nvvm.match.all.sync.i32|nvvm.match.all.sync.i64"
    "|cudaCGSynchronize|rk.bounds"
)
_SITED_PARTS = ("nvvm.bar", "nvvm.shfl", "nvvm.vote", "nvvm.match", "cudaCGSynchronize", "rk.bounds")  # of their names
_NAME = r'(?:"(?:[^"\\]|\\.)*"|[-\w$.]+)'
_CALL_SITE = re.compile(rf'(call [^@\n]*@"(?:{_SITED})")\((.*?)\)([^\n]*)$', re.MULTILINE)
_DECLARE_SITED = re.compile(rf'^(declare [^@\n]*@"(?:{_SITED})")\(', re.MULTILINE)
_ASSEMBLY_CALL = re.compile(
    r'^(?P<left>\s*(?:%"[^"]*" = )?)call (?P<type>[^@\n]*?) asm (?:sideeffect )?\s*(?:alignstack )?'
    r'"(?P<text>(?:[^"\\]|\\.)*)", "(?P<constraints>[^"]*)"\s*'
    r"\((?P<arguments>.*)\)(?P<rest>(?:, !dbg ![0-9]+)?)\s*$",
    re.MULTILINE,
)
_SHARED_VARIABLE = re.compile(
    r'^@"(?P<name>[^"]+)" = (?P<external>external )?addrspace\(3\) global (?P<type>\[[^\n]*\])(?: undef)?'
    r"(?:, align (?P<align>\d+))?\s*$",
    re.MULTILINE,
)
_SHARED_ADDRESS = re.compile(
    r'(?P<result>%"[^"]+") = addrspacecast \[[^\n]*?\] addrspace\(3\)\* @"(?P<name>[^"]+)" to i8\*', re.MULTILINE
)
_SHARED_MADE = re.compile(r'addrspacecast \[[^\n]*?\] addrspace\(3\)\* @"(?P<name>[^"]+)" to i8\*[^\n]*')
_ATOMIC_ADD = re.compile(
    r'call (?P<type>float|double) @"llvm\.nvvm\.atomic\.load\.add\.f(?:32|64)\.p0f(?:32|64)"'
    r"\((?P<pointer>[^,]+), (?P<value>[^)]+)\)"
)


@dataclass(frozen=True)
class SharedArray:
    """A shared array: where it lies in the block's shared memory, its element's bytes, and where it is made."""

    offset: int  # -1: dynamic, behind all static ones
    size: int
    element: int
    file: str
    line: int


@dataclass
class Translation:
    """A kernel as host IR text, and what the launch has to know about it."""

    text: str = ""
    entry: str = ""
    quoted_entry: str = ""
    entry_types: tuple[str, ...] = ()
    sites: list[tuple[str, int]] = field(default_factory=list)  # site -> (file, line)
    shared_bytes: int = 0
    dynamic_alignment: int = 16  # of dynamic shared memory, which begins behind all static arrays
    shared_cell: int = 4  # bytes of the smallest element of shared memory, at most 4
    shared_arrays: list[SharedArray] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)  # device operations that appear
    meanings: dict[str, Meaning] = field(default_factory=dict)
    instructions: dict[int, str] = field(default_factory=dict)  # site -> PTX opcode, of inline assembly


_MOST_STORED = 1024  # bytes of a local array that is zeroed element by element, so that it can live in registers


def translate(modules: tuple[str, ...], entry: str, file: str, *, watched: bool = False) -> Translation:
    """Host IR for a kernel given as device IR modules.

    watched: the zeros that Numba puts into a local array do not count as written.

    Raises `Unsupported` for inline assembly that has no host meaning, naming it and the kernel's line.
    """
    result = Translation(entry=entry)
    linked: llvm.ModuleRef | None = None
    for text in modules:
        lines = Lines(text, file)
        text = _atomics(text)
        if "_cudapy_lmem" in text:
            text = _local_zeros(text) if watched else _large_zeros(text)
        text = text.replace("llvm.nvvm.", "nvvm.")  # plain names: LLVM leaves them alone
        if any(part in text for part in _SITED_PARTS):
            text = _number_sites(text, lines, result)
        if " asm " in text:
            text = _inline_assembly(text, lines, result)
        if "addrspace(3)" in text:
            text = _shared_memory(text, lines, result)
        text = _plain_metadata(text)
        text = _exception_helper(text, entry)
        text = text.replace("addrspace(4)*", "*").replace(" addrspace(4) ", " ").replace("addrspacecast ", "bitcast ")
        module = llvm.parse_assembly(engine.retarget(_contract(text)))
        if linked is None:
            linked = module
        else:
            linked.link_in(module)
    assert linked is not None
    if result.dynamic_alignment > 16:
        result.shared_bytes = -(-result.shared_bytes // result.dynamic_alignment) * result.dynamic_alignment
    canonical = str(linked)
    result.quoted_entry = entry if re.fullmatch(r"[-\w$.]+", entry) else f'"{entry}"'
    result.entry_types = _parameter_types(canonical, entry)
    result.text = _thread_argument(canonical, result)
    return result


def _atomics(text: str) -> str:
    """Float atomic adds: float64 as `atomicrmw`, float32 as a call: the device flushes subnormals in global memory."""

    def add(match: re.Match[str]) -> str:
        if match["type"] == "double":
            return f"atomicrmw fadd {match['pointer']}, {match['value']} monotonic"
        return f'call float @"rk.atomic.add.f32"({match["pointer"]}, {match["value"]})'

    if "nvvm.atomic.load.add" not in text:  # a search for a word takes a hundredth of one for a pattern
        return text
    declaration = r'^declare [^\n]*@"llvm\.nvvm\.atomic\.load\.add[^\n]*$'
    replaced = re.sub(declaration, "", _ATOMIC_ADD.sub(add, text), flags=re.MULTILINE)
    if '@"rk.atomic.add.f32"' in replaced:
        replaced += '\ndeclare float @"rk.atomic.add.f32"(float*, float)\n'
    return replaced


_LOCAL_ZEROS = re.compile(
    r'^  store (?P<type>\[[^\n]*\]) zeroinitializer, \[[^\n]*\]\* (?P<name>%"_cudapy_lmem[^"]*")[^\n]*$', re.MULTILINE
)


def _local_zeros(text: str) -> str:
    """Hides Numba's zero fill of local arrays in a call, which the instrumentation leaves alone."""

    def call(match: re.Match[str]) -> str:
        size = size_of(match["type"])
        pointer = match["name"][:-1] + '.zeroed"'
        cast = f"  {pointer} = bitcast {match['type']}* {match['name']} to i8*"
        return f'{cast}\n  call void @"rk.zero"(i8* {pointer}, i64 {size})'

    replaced = _LOCAL_ZEROS.sub(call, text)
    return replaced + ('\ndeclare void @"rk.zero"(i8*, i64)\n' if replaced != text else "")


def _large_zeros(text: str) -> str:
    """Numba's zero fill of large local arrays as memset: LLVM would make a store of each element of it."""

    def fill(match: re.Match[str]) -> str:
        size = size_of(match["type"])
        if size <= _MOST_STORED:
            return match.group(0)
        pointer = match["name"][:-1] + '.zeroed"'
        cast = f"  {pointer} = bitcast {match['type']}* {match['name']} to i8*"
        return f'{cast}\n  call void @"llvm.memset.p0i8.i64"(i8* {pointer}, i8 0, i64 {size}, i1 false)'

    replaced = _LOCAL_ZEROS.sub(fill, text)
    declaration = 'declare void @"llvm.memset.p0i8.i64"(i8*, i8, i64, i1)'
    return text if replaced == text else f"{replaced}\n{'' if declaration in text else declaration}\n"


def _number_sites(text: str, lines: Lines, result: Translation) -> str:
    """Gives every synchronising call a first argument that tells it from the others: LLVM would merge equal ones."""

    def number(match: re.Match[str]) -> str:
        result.sites.append(lines.location(match.group(0)))
        site = f"i32 {len(result.sites) - 1}"
        arguments = f"{site}, {match.group(2)}" if match.group(2) else site
        return f"{match.group(1)}({arguments}){match.group(3)}"

    def declare(match: re.Match[str]) -> str:
        return f"{match.group(1)}(i32, "

    text = _CALL_SITE.sub(number, text)
    return _DECLARE_SITED.sub(declare, text).replace("(i32, )", "(i32)")


def _inline_assembly(text: str, lines: Lines, result: Translation) -> str:
    """Replaces inline assembly by calls of functions that `refkit.cpu.ptx` defines."""
    declarations: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        types = tuple(_argument_types(match["arguments"]))
        result_type = match["type"].strip()
        assembly = match["text"].replace("\\0a", "\n").replace("\\09", "\t").replace("\\22", '"')
        file, line = lines.location(match.group(0))
        if assembly.strip().startswith("activemask"):
            result.sites.append((file, line))
            declarations["rk.activemask.at"] = 'declare i32 @"rk.activemask.at"(i32)'
            return f'{match["left"]}call i32 @"rk.activemask.at"(i32 {len(result.sites) - 1})'
        try:
            host = meaning(assembly, match["constraints"], result_type, types)
        except UnknownInstruction:
            message = f"inline assembly that the CPU executor does not know: {assembly.strip()!r}"
            raise Unsupported(message, file=file, line=line) from None
        result.meanings[host.name] = host
        arguments = match["arguments"]
        if host.needs_site:
            result.instructions[len(result.sites)] = host.opcode
            arguments = ", ".join((f"i32 {len(result.sites)}", arguments)).rstrip(", ")
            types = ("i32", *types)
            result.sites.append((file, line))
        declarations[host.name] = f'declare {result_type} @"{host.name}"({", ".join(types)})'
        return f'{match["left"]}call {result_type} @"{host.name}"({arguments})'

    text = _ASSEMBLY_CALL.sub(replace, text)
    present = set(re.findall(rf"\ndeclare [^@\n]*@({_NAME})\(", text))
    return text + "\n" + "\n".join(d for name, d in declarations.items() if f'"{name}"' not in present)


def _argument_types(arguments: str) -> list[str]:
    """The types of a call's arguments, which may be structures or hold commas."""
    types, depth, start = [], 0, 0
    for position, character in enumerate(arguments + ","):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth == 0:
            if argument := arguments[start:position].strip():
                types.append(argument.rsplit(" ", 1)[0])
            start = position + 1
    return types


def _shared_memory(text: str, lines: Lines, result: Translation) -> str:
    """Static shared arrays become offsets into the block's shared memory, dynamic ones its end."""
    offsets: dict[str, str] = {}
    shapes: dict[str, tuple[int, int]] = {}
    for match in _SHARED_VARIABLE.finditer(text):
        size = size_of(match["type"])
        shapes[match["name"]] = size, _element_bytes(match["type"])
        if match["external"] or size == 0:
            offsets[match["name"]] = "dynamic"
            result.dynamic_alignment = max(result.dynamic_alignment, int(match["align"] or 16))
        else:
            alignment = max(16, int(match["align"] or 16))
            start = -(-result.shared_bytes // alignment) * alignment
            offsets[match["name"]] = str(start)
            result.shared_bytes = start + size
    if not offsets:
        return text

    made = {match["name"]: lines.location(match.group(0)) for match in _SHARED_MADE.finditer(text)}
    for name, (size, element) in shapes.items():
        file, line = made.get(name, (lines.default, 0))
        offset = -1 if offsets[name] == "dynamic" else int(offsets[name])
        result.shared_arrays.append(SharedArray(offset, size, element, file, line))
        result.shared_cell = min(result.shared_cell, element)

    def address(match: re.Match[str]) -> str:
        offset = offsets[match["name"]]
        if offset == "dynamic":
            return f'{match["result"]} = call i8* @"rk.dynamic_shared"()'
        return f'{match["result"]} = call i8* @"rk.shared"(i64 {offset})'

    text = _SHARED_ADDRESS.sub(address, text)
    text = _SHARED_VARIABLE.sub("", text)
    return text + '\ndeclare i8* @"rk.shared"(i64)\ndeclare i8* @"rk.dynamic_shared"()\n'


def _element_bytes(type_text: str) -> int:
    """Bytes of an array type's innermost element."""
    while array := re.match(r"\[\d+ x (.*)\]$", type_text.strip()):
        type_text = array.group(1)
    return size_of(type_text)


_SCALAR_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "float": 4,
    "double": 8,
    "half": 2,
    "bfloat": 2,
    "ptr": 8,
}


def size_of(type_text: str) -> int:
    """Bytes of an array type such as `[64 x float]` or an array of literal structures."""
    text = type_text.strip()
    if array := re.match(r"\[(\d+) x (.*)\]$", text):
        return int(array.group(1)) * size_of(array.group(2))
    if text in _SCALAR_BYTES:
        return _SCALAR_BYTES[text]
    if text.endswith("*"):
        return 8
    if text.startswith("{"):
        size, alignment = 0, 1
        for member in _argument_types_of_structure(text):
            member_size = size_of(member)
            member_alignment = min(8, member_size) or 1
            size = -(-size // member_alignment) * member_alignment + member_size
            alignment = max(alignment, member_alignment)
        return -(-size // alignment) * alignment
    raise Unsupported(f"a shared array of LLVM type {text}")


def _argument_types_of_structure(text: str) -> list[str]:
    members, depth, start = [], 0, 1
    for position, character in enumerate(text):
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        if (character == "," and depth == 1) or position == len(text) - 1:
            members.append(text[start:position].strip())
            start = position + 1
    return [member for member in members if member]


def _plain_metadata(text: str) -> str:
    """Drops the annotations that would give the kernel a device calling convention, and records of variables."""
    if '@"llvm.dbg.' in text:
        text = re.sub(r"^.*@\"llvm\.dbg\.(?:declare|value)\".*$", "", text, flags=re.MULTILINE)
    # Patterns that begin with plain characters are many times as fast as anchored ones.
    text = re.sub(r'\n@"llvm\.used" = [^\n]*', "", text)
    return re.sub(r"\n!nvvm(?:ir)?\.\w+ = [^\n]*", "", text)


def without_metadata(text: str) -> str:
    """IR text without metadata: its numbers would clash with those of the text that is added."""
    text = re.sub(r", ![\w.]+ ![0-9]+", "", text)
    text = re.sub(r" ![\w.]+ ![0-9]+", "", text)
    return re.sub(r"\n![^\n]*", "", text)


def _exception_helper(text: str, entry: str) -> str:
    """Numba's own helper writes to globals, which launches would share; the runtime's records per launch."""
    helper = f"{entry}__exc_helper__"
    if helper not in text:
        return text
    text = re.sub(
        rf'^define void @"{re.escape(helper)}"\(i32[^)]*\)\s*\{{.*?^\}}', "", text, flags=re.MULTILINE | re.DOTALL
    )
    if helper in text:
        text = text.replace(helper, "rk.exception") + '\ndeclare void @"rk.exception"(i32)\n'
    return text


def _contract(text: str) -> str:
    """Allows multiply and add to fuse, as NVVM does by default."""
    return re.sub(r"= (fadd|fsub|fmul) (?=float|double)", r"= \1 contract ", text)


def _parameter_types(canonical: str, entry: str) -> tuple[str, ...]:
    match = re.search(rf'^define [^@\n]*@"?{re.escape(entry)}"?\(([^\n]*)\) ', canonical, re.MULTILINE)
    if match is None:
        raise AssertionError(f"the kernel's entry {entry} is missing from its own module")
    return tuple(part.strip().split(" ")[0] for part in match.group(1).split(",") if part.strip())


# library functions without a thread argument are all that is declared and in neither of these families
_THREAD_NAMES = re.compile(r"(nvvm\.|rk\.|cudaCG|vprintf$|numba_attempt_nocopy_reshape$)")


def _thread_argument(canonical: str, result: Translation) -> str:
    """Adds the first parameter `ptr %rk.thread` to every defined function and to every device operation."""
    defined = set(re.findall(rf"\ndefine [^@\n]*@({_NAME})\(", canonical))
    declared = set(re.findall(rf"\ndeclare [^@\n]*@({_NAME})\(", canonical))

    def wants_thread(name: str) -> bool:
        bare = name.strip('"')
        if name in defined:
            return True
        host = result.meanings.get(bare)
        return host.needs_thread if host is not None else bool(_THREAD_NAMES.match(bare))

    result.uses = {name.strip('"') for name in declared}
    threaded = {name for name in defined | declared if wants_thread(name)}

    def insert(match: re.Match[str]) -> str:
        if match.group(1) not in threaded:
            return match.group(0)
        return f"@{match.group(1)}(ptr %rk.thread" + ("" if match.group(2) == ")" else ", ") + match.group(2)

    out = []
    for line in canonical.splitlines():
        if line.startswith("declare"):
            line = re.sub(rf"@({_NAME})\((.)", insert, line)
            line = line.replace("(ptr %rk.thread", "(ptr")
        elif line.startswith(("define", " ")) and "@" in line:
            line = re.sub(rf"@({_NAME})\((.)", insert, line)
        out.append(line)
    return "\n".join(out)

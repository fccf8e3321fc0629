"""The device operations of a few instructions each, as IR text: special registers, shared memory, fences, adapters.

What needs the scheduler is in `runtime/device.py`; here are its adapters for operations that return a structure, which
the C convention of the runtime cannot.
"""

from .runtime import layout

_THREAD_WORD = {
    "tid.x": layout.THREAD_TID_X,
    "tid.y": layout.THREAD_TID_Y,
    "tid.z": layout.THREAD_TID_Z,
    "laneid": layout.THREAD_LANE,
    "warpid": layout.THREAD_WARP,
}
_BLOCK_WORD = {
    "ctaid.x": layout.BLOCK_CTAID_X,
    "ctaid.y": layout.BLOCK_CTAID_Y,
    "ctaid.z": layout.BLOCK_CTAID_Z,
    "ntid.x": layout.BLOCK_NTID_X,
    "ntid.y": layout.BLOCK_NTID_Y,
    "ntid.z": layout.BLOCK_NTID_Z,
    "nctaid.x": layout.BLOCK_NCTAID_X,
    "nctaid.y": layout.BLOCK_NCTAID_Y,
    "nctaid.z": layout.BLOCK_NCTAID_Z,
}
_LIMIT = {"tid": 1024, "laneid": 32, "warpid": 32, "ntid": 1025, "ctaid": 2**31 - 1, "nctaid": 2**31 - 1}

_ADAPTERS = """
define linkonce_odr i32 @nvvm.read.ptx.sreg.warpsize(ptr %thread) alwaysinline {
  ret i32 32
}
define linkonce_odr i32 @nvvm.atomic.load.inc.32.p0i32(ptr %thread, ptr %p, i32 %bound) alwaysinline {
  %old = atomicrmw uinc_wrap ptr %p, i32 %bound monotonic
  ret i32 %old
}
define linkonce_odr i32 @nvvm.atomic.load.dec.32.p0i32(ptr %thread, ptr %p, i32 %bound) alwaysinline {
  %old = atomicrmw udec_wrap ptr %p, i32 %bound monotonic
  ret i32 %old
}
define linkonce_odr float @rk.flush(float %value) alwaysinline {
  %magnitude = call float @llvm.fabs.f32(float %value)
  %small = fcmp olt float %magnitude, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %value)
  %result = select i1 %small, float %zero, float %value
  ret float %result
}
define linkonce_odr float @rk.atomic.add.f32(ptr %thread, ptr %p, float %value) alwaysinline {
entry:
  %base = call ptr @rk.shared(ptr %thread, i64 0)
  %p.i = ptrtoint ptr %p to i64
  %base.i = ptrtoint ptr %base to i64
  %offset = sub i64 %p.i, %base.i
  %bytes = call i64 @rk.shared_bytes(ptr %thread)
  %shared = icmp ult i64 %offset, %bytes
  br i1 %shared, label %plain, label %global
plain:
  %old.shared = atomicrmw fadd ptr %p, float %value monotonic
  ret float %old.shared
global:
  %flushed = call float @rk.flush(float %value)
  %first = load atomic i32, ptr %p monotonic, align 4
  br label %again
again:
  %seen = phi i32 [ %first, %global ], [ %now, %again ]
  %old = bitcast i32 %seen to float
  %old.flushed = call float @rk.flush(float %old)
  %sum = fadd float %old.flushed, %flushed
  %new = call float @rk.flush(float %sum)
  %new.i = bitcast float %new to i32
  %pair = cmpxchg ptr %p, i32 %seen, i32 %new.i monotonic monotonic
  %now = extractvalue {i32, i1} %pair, 0
  %done = extractvalue {i32, i1} %pair, 1
  br i1 %done, label %end, label %again
end:
  ret float %old
}
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
declare ptr @llvm.stacksave.p0()
define linkonce_odr void @rk.stack(ptr %thread, i32 %code) alwaysinline {
  %here = call ptr @llvm.stacksave.p0()
  %address = ptrtoint ptr %here to i64
  %p = getelementptr i64, ptr %thread, i64 STACK_LIMIT
  %limit = load i64, ptr %p
  %low = icmp ult i64 %address, %limit
  br i1 %low, label %over, label %enough
over:
  call void @rk.stack.overflow(ptr %thread, i32 %code)
  unreachable
enough:
  ret void
}
define linkonce_odr {i32, i1} @rk.pair(i64 %packed) alwaysinline {
  %low = trunc i64 %packed to i32
  %shifted = lshr i64 %packed, 32
  %flag = trunc i64 %shifted to i1
  %first = insertvalue {i32, i1} poison, i32 %low, 0
  %both = insertvalue {i32, i1} %first, i1 %flag, 1
  ret {i32, i1} %both
}
define linkonce_odr {i32, i1} @nvvm.shfl.sync.i32(ptr %thread, i32 %site, i32 %mask, i32 %mode, i32 %value,
    i32 %source, i32 %clamp) alwaysinline {
  %packed = call i64 @rk.shuffle(ptr %thread, i32 %site, i32 %mask, i32 %mode, i32 %value, i32 %source, i32 %clamp)
  %result = call {i32, i1} @rk.pair(i64 %packed)
  ret {i32, i1} %result
}
define linkonce_odr {i32, i1} @nvvm.vote.sync(ptr %thread, i32 %site, i32 %mask, i32 %mode,
    i1 %predicate) alwaysinline {
  %wide = zext i1 %predicate to i32
  %packed = call i64 @rk.vote(ptr %thread, i32 %site, i32 %mask, i32 %mode, i32 %wide)
  %result = call {i32, i1} @rk.pair(i64 %packed)
  ret {i32, i1} %result
}
define linkonce_odr {i32, i1} @nvvm.match.all.sync.i32(ptr %thread, i32 %site, i32 %mask, i32 %value) alwaysinline {
  %packed = call i64 @rk.match.all.i32(ptr %thread, i32 %site, i32 %mask, i32 %value)
  %result = call {i32, i1} @rk.pair(i64 %packed)
  ret {i32, i1} %result
}
define linkonce_odr {i32, i1} @nvvm.match.all.sync.i64(ptr %thread, i32 %site, i32 %mask, i64 %value) alwaysinline {
  %packed = call i64 @rk.match.all.i64(ptr %thread, i32 %site, i32 %mask, i64 %value)
  %result = call {i32, i1} @rk.pair(i64 %packed)
  ret {i32, i1} %result
}
define linkonce_odr i64 @cudaCGGetIntrinsicHandle(ptr %thread, i32 %scope) alwaysinline {
  ret i64 1
}
define linkonce_odr i32 @cudaCGSynchronize(ptr %thread, i32 %site, i64 %handle, i32 %flags) alwaysinline {
  call void @rk.grid.barrier(ptr %thread, i32 %site)
  ret i32 0
}
define linkonce_odr i32 @vprintf(ptr %thread, ptr %format, ptr %arguments) alwaysinline {
  %f = ptrtoint ptr %format to i64
  %a = ptrtoint ptr %arguments to i64
  %count = call i32 @rk.print(ptr %thread, i64 %f, i64 %a)
  ret i32 %count
}
"""


def _declaration(name: str, return_type: str, arguments: tuple[str, ...]) -> str:
    return f"declare {return_type} @{name}({', '.join(('ptr', *arguments))})\n"


_FENCE = """define linkonce_odr void @nvvm.membar.{scope}(ptr %thread) alwaysinline {{
  fence seq_cst
{note}  ret void
}}
"""

_WATCH = """
define linkonce_odr void @rk.zero(ptr %thread, ptr %p, i64 %size) alwaysinline {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %size, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define linkonce_odr void @rk.bounds(ptr %thread, i32 %site, ptr %data, i64 %index, i64 %length,
    i32 %axis) alwaysinline {
  %inside = icmp ult i64 %index, %length
  br i1 %inside, label %end, label %outside
outside:
  %address = ptrtoint ptr %data to i64
  call void @rk.bounds.at(ptr %thread, i32 %site, i64 %address, i64 %index, i64 %length, i32 %axis)
  br label %end
end:
  ret void
}
define linkonce_odr void @rk.local_read(ptr %thread, i32 %site, i8 %written) alwaysinline {
  %unwritten = icmp eq i8 %written, 0
  br i1 %unwritten, label %report, label %end
report:
  call void @rk.local_read.at(ptr %thread, i32 %site, i32 0)
  br label %end
end:
  ret void
}
"""


def definitions(
    *, fibers: bool, watched: bool, shared_bytes: int, runtime: list[tuple[str, str, tuple[str, ...]]]
) -> str:
    """IR text of the small device operations.

    fibers: threads keep their control block for their life, so that reads of it may move freely; in a plain loop over
    the threads the control block is a local variable that LLVM turns into registers.
    watched: the sanitizers watch, and fences and bounds are their business too.
    runtime: the runtime's functions, as (name, return type, argument types after the thread).
    """
    invariant = ", !invariant.load !0" if fibers else ""
    parts = [_declaration(*function) for function in runtime]
    for register, word in _THREAD_WORD.items():
        parts.append(
            f"define linkonce_odr i32 @nvvm.read.ptx.sreg.{register}(ptr %thread) alwaysinline {{\n"
            f"  %p = getelementptr i64, ptr %thread, i64 {word}\n"
            f"  %v = load i32, ptr %p, !range !{_range(register)}{invariant}\n  ret i32 %v\n}}\n"
        )
    for register, word in _BLOCK_WORD.items():
        parts.append(
            f"define linkonce_odr i32 @nvvm.read.ptx.sreg.{register}(ptr %thread) alwaysinline {{\n"
            f"  %b = getelementptr i64, ptr %thread, i64 {layout.THREAD_BLOCK}\n"
            f"  %block = load ptr, ptr %b{invariant}\n"
            f"  %p = getelementptr i64, ptr %block, i64 {word}\n"
            f"  %v = load i32, ptr %p, !range !{_range(register)}, !invariant.load !0\n  ret i32 %v\n}}\n"
        )
    parts.append(
        "define linkonce_odr ptr @rk.shared(ptr %thread, i64 %offset) alwaysinline {\n"
        f"  %b = getelementptr i64, ptr %thread, i64 {layout.THREAD_BLOCK}\n"
        f"  %block = load ptr, ptr %b{invariant}\n"
        f"  %p = getelementptr i64, ptr %block, i64 {layout.BLOCK_SHARED}\n"
        "  %base = load ptr, ptr %p, !align !1, !nonnull !0, !invariant.load !0\n"
        "  %address = getelementptr inbounds i8, ptr %base, i64 %offset\n  ret ptr %address\n}\n"
        "define linkonce_odr i64 @rk.shared_bytes(ptr %thread) alwaysinline {\n"
        f"  %b = getelementptr i64, ptr %thread, i64 {layout.THREAD_BLOCK}\n"
        f"  %block = load ptr, ptr %b{invariant}\n"
        f"  %p = getelementptr i64, ptr %block, i64 {layout.BLOCK_SHARED_BYTES}\n"
        "  %bytes = load i64, ptr %p, !invariant.load !0\n  ret i64 %bytes\n}\n"
        "define linkonce_odr ptr @rk.dynamic_shared(ptr %thread) alwaysinline {\n"
        f"  %address = call ptr @rk.shared(ptr %thread, i64 {-(-shared_bytes // 16) * 16})\n  ret ptr %address\n}}\n"
    )
    parts.append(_ADAPTERS.replace("STACK_LIMIT", str(layout.THREAD_STACK_LIMIT)))
    for scope, device in (("cta", 0), ("gl", 1), ("sys", 1)):
        note = f"  call void @rk.fence(ptr %thread, i32 {device})\n" if watched else ""
        parts.append(_FENCE.format(scope=scope, note=note))
    parts.extend(
        _touch(access, number, shared, watched)
        for number, access in enumerate(("read", "write", "atomic"))
        for shared in (False, True)
    )
    if watched:
        parts.append(_WATCH)
    parts.append("!0 = !{}\n!1 = !{i64 128}\n")
    limits = sorted(set(_LIMIT.values()))
    parts.extend(f"!{2 + i} = !{{i32 0, i32 {limit}}}\n" for i, limit in enumerate(limits))
    return "".join(parts)


def _touch(access: str, number: int, shared: bool, watched: bool) -> str:
    """The definition of `rk.touch.<access>` or `rk.touch.shared_<access>`: inline assembly says which memory it reads
    or writes."""
    note = (
        "  %a = ptrtoint ptr %address to i64\n"
        f"  call void @rk.within(ptr %thread, i32 %site, i64 %a, i64 %size, i32 {number}, i32 {int(shared)})\n"
        f"  call void @rk.{access}(ptr %thread, i32 %site, i64 %a, i64 %size)\n"
        if watched
        else ""
    )
    return (
        f"define linkonce_odr void @rk.touch.{'shared_' * shared}{access}"
        "(ptr %thread, i32 %site, ptr %address, i64 %size) alwaysinline {\n"
        f"{note}  ret void\n}}\n"
    )


def _range(register: str) -> int:
    return 2 + sorted(set(_LIMIT.values())).index(_LIMIT[register.split(".")[0]])

"""The function through which the scheduler calls a kernel, as IR text.

A kernel that waits gets `rk_entry(thread, worker)`, run once per fiber. One that never waits gets `rk_entry(block,
worker)`, a loop over the threads of a block into which the kernel is inlined, so that LLVM sees the whole block.
"""

from .runtime import layout

_LOAD_ARGUMENTS = """
  %launch.p = getelementptr i64, ptr %worker, i64 {launch}
  %launch = load ptr, ptr %launch.p, !invariant.load !0
  %arguments.p = getelementptr i64, ptr %launch, i64 {arguments}
  %arguments = load ptr, ptr %arguments.p, !invariant.load !0
"""


def entry(kernel: str, types: tuple[str, ...], *, fibers: bool) -> str:
    """IR text of `rk_entry` for a kernel's quoted name and its parameter types, without the thread."""
    loads = _LOAD_ARGUMENTS.format(launch=layout.WORKER_LAUNCH, arguments=layout.LAUNCH_ARGUMENTS)
    for i, kind in enumerate(types):
        loads += f"  %p{i} = getelementptr i64, ptr %arguments, i64 {i}\n"
        loads += f"  %a{i} = load {kind}, ptr %p{i}, !invariant.load !0\n"
    arguments = "".join(f", {kind} %a{i}" for i, kind in enumerate(types))
    if fibers:
        return (
            f"define void @rk_entry(ptr %thread, ptr %worker) {{\n{loads}"
            f"  call void @{kernel}(ptr %thread{arguments})\n  ret void\n}}\n"
        )
    return _thread_loop(kernel, loads, arguments)


def _store(word: int, value: str) -> str:
    name = f"%w{word}"
    return f"  {name} = getelementptr i64, ptr %thread, i64 {word}\n  store i64 {value}, ptr {name}\n"


def _thread_loop(kernel: str, loads: str, arguments: str) -> str:
    def dimension(word: int, name: str) -> str:
        return (
            f"  %{name}.p = getelementptr i64, ptr %block, i64 {word}\n"
            f"  %{name} = load i64, ptr %{name}.p, !invariant.load !0\n"
        )

    per_thread = "".join(
        (
            "  %linear = phi i64 [ %row.linear, %row ], [ %linear.next, %column ]\n",
            "  %x = phi i64 [ 0, %row ], [ %x.next, %column ]\n",
            _store(layout.THREAD_TID_X, "%x"),
            _store(layout.THREAD_TID_Y, "%y"),
            _store(layout.THREAD_TID_Z, "%z"),
            _store(layout.THREAD_LINEAR, "%linear"),
            "  %lane = and i64 %linear, 31\n  %warp = lshr i64 %linear, 5\n",
            _store(layout.THREAD_LANE, "%lane"),
            _store(layout.THREAD_WARP, "%warp"),
            f"  call void @{kernel}(ptr %thread{arguments})\n",
        )
    )
    return (
        "define void @rk_entry(ptr %block, ptr %worker) {\nentry:\n"
        f"  %thread = alloca [{layout.THREAD_WORDS} x i64], align 16\n{loads}"
        f"{dimension(layout.BLOCK_NTID_X, 'nx')}{dimension(layout.BLOCK_NTID_Y, 'ny')}"
        f"{dimension(layout.BLOCK_NTID_Z, 'nz')}"
        "  %block.i = ptrtoint ptr %block to i64\n  %worker.i = ptrtoint ptr %worker to i64\n"
        f"  %limit.p = getelementptr i64, ptr %worker, i64 {layout.WORKER_STACK_LIMIT}\n"
        f"  %limit = load i64, ptr %limit.p, !invariant.load !0\n{_store(layout.THREAD_STACK_LIMIT, '%limit')}"
        f"{_store(layout.THREAD_BLOCK, '%block.i')}{_store(layout.THREAD_WORKER, '%worker.i')}"
        f"{_store(layout.THREAD_IS_FIBER, '0')}{_store(layout.THREAD_FUEL, str(layout.POLL_FUEL))}"
        "  br label %plane\n"
        "plane:\n  %z = phi i64 [ 0, %entry ], [ %z.next, %plane.end ]\n"
        "  %plane.linear = phi i64 [ 0, %entry ], [ %linear.next, %plane.end ]\n  br label %row\n"
        "row:\n  %y = phi i64 [ 0, %plane ], [ %y.next, %row.end ]\n"
        "  %row.linear = phi i64 [ %plane.linear, %plane ], [ %linear.next, %row.end ]\n  br label %column\n"
        f"column:\n{per_thread}"
        "  %x.next = add nuw nsw i64 %x, 1\n  %linear.next = add nuw nsw i64 %linear, 1\n"
        "  %x.more = icmp ult i64 %x.next, %nx\n  br i1 %x.more, label %column, label %row.end\n"
        "row.end:\n  %y.next = add nuw nsw i64 %y, 1\n  %y.more = icmp ult i64 %y.next, %ny\n"
        "  br i1 %y.more, label %row, label %plane.end\n"
        "plane.end:\n  %z.next = add nuw nsw i64 %z, 1\n  %z.more = icmp ult i64 %z.next, %nz\n"
        "  br i1 %z.more, label %plane, label %done\n"
        "done:\n  ret void\n}\n"
    )

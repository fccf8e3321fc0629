"""Stops workers that run a loop without polls: a signal whose handler leaves the kernel's code for the scheduler.

The signal goes to a worker's own operating-system thread, and has an effect only while that runs kernel code: there it
holds no lock, and what it leaves behind is a fiber's stack that the next launch begins anew.
"""

import ctypes
import signal
import threading
from collections.abc import Iterable

from .runtime import build
from .workers import Worker

SIGNAL = signal.SIGRTMIN + 7
_SA_SIGINFO, _SA_RESTART, _SA_NODEFER = 0x4, 0x10000000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_lock = threading.Lock()


class _SignalAction(ctypes.Structure):
    """`struct sigaction` of glibc on 64-bit Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def leave_kernels(workers: Iterable[Worker]) -> None:
    """Makes each worker leave the thread that it runs, if it runs one; its launch is marked as stopped before."""
    with _lock:
        # left installed: the signal may arrive late, and its default action would end the process
        action = _SignalAction(handler=build.scheduler_address("rk_leave_kernel"))
        action.flags = _SA_SIGINFO | _SA_RESTART | _SA_NODEFER
        if _libc.sigaction(SIGNAL, ctypes.byref(action), None) != 0:
            raise OSError(ctypes.get_errno(), f"no handler for signal {SIGNAL}")
        for worker in workers:
            if worker.thread is not None:
                value = ctypes.c_void_p(worker.memory.worker.ctypes.data)
                _libc.pthread_sigqueue(ctypes.c_ulong(worker.thread), SIGNAL, value)

"""Tensor cores on the CPU: what `mma.sync`, `ldmatrix` and `stmatrix` do to the registers of a warp, bit for bit.

`instruction.py` reads an opcode, `model.py` says how an architecture computes, `fragments.py` who holds which element.
The `*_sum.py` files hold the arithmetic, as functions that serve a whole warp, in Numba's dialect like the scheduler.
"""

"""Who holds what in `mma.sync`: the row and column of each element of each register of each lane.

PTX ISA 9.1, "Matrix Fragments for mma.m16n8k4" to "... m16n8k32" and "... mma.m8n8k4 with .f64". All of them follow one
rule: lane / 4 ("groupID") gives the row of A, C and D and the column of B; lane % 4 ("threadID_in_group") gives the
place within a run of four registers' worth of elements along K, or of two columns of C. Written in Numba's dialect.
"""

from numba import cuda


@cuda.jit(device=True)
def a_row(lane, register):
    """The row of A: registers alternate between rows 0 to 7 and 8 to 15."""
    return (lane >> 2) + 8 * (register & 1)


@cuda.jit(device=True)
def a_column(lane, register, part, per_register):
    """The column of A, of element `part` of a register that holds `per_register`."""
    return (register >> 1) * 4 * per_register + (lane & 3) * per_register + part


@cuda.jit(device=True)
def b_row(lane, register, part, per_register):
    return register * 4 * per_register + (lane & 3) * per_register + part


@cuda.jit(device=True)
def b_column(lane):
    return lane >> 2


@cuda.jit(device=True)
def c_row(lane, element):
    """The row of C or D; `element` counts the lane's elements, two to a row."""
    return (lane >> 2) + 8 * (element >> 1)


@cuda.jit(device=True)
def c_column(lane, element):
    return 2 * (lane & 3) + (element & 1)

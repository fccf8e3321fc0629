"""What a program means, stated in NumPy: all threads of the grid at once, one vector element a thread.

It shares nothing with the CPU executor but the program: no IR, no source text, no Numba. Branches and loops are masks
over the threads; a barrier is simply the end of a statement.
"""

from .program import interpret

__all__ = ["interpret"]

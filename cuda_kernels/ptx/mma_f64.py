"""`mma.sync` on float64: m8n8k4 (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type").

With g = lane / 4 and t = lane % 4:

    A (8 x 4): row g, column t
    B (4 x 8): row t, column g
    C, D (8 x 8): register i: row g, column 2 t + i
"""

from .assembly import F64
from .mma import Operand, mma_instruction

mma_m8n8k4_f64 = mma_instruction(
    "mma_m8n8k4_f64",
    "m8n8k4",
    Operand("f64", 2, F64),
    Operand("f64", 1, F64),
    Operand("f64", 1, F64),
    capability=(8, 0),
    doc="A and B are one float64 each, C and D 2 x float64; who holds what: see this module.",
)

"""The truth: each operator's forward and vector-Jacobian product in NumPy, written for reading and evaluated in float64.

One module per operator. The functions use ufuncs, matmul, sums, means and indexing only, so that an array type that
tracks rounding errors can take the place of the float64 arrays.
"""

"""The truth: each operator's forward and vector-Jacobian product in float64 NumPy, written for reading.

One module per operator. The functions use ufuncs, matmul, sums, means and indexing only, so that an array type that
tracks rounding errors can take the place of the float64 arrays.
"""

"""The executor fuzzed against itself: random kernels, run on the CPU executor, by an independent interpreter, and on a GPU."""

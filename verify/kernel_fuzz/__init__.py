"""The executor fuzzed: random kernels on the CPU executor, by an interpreter of their own, and on a GPU."""

"""The strides of a reshaped array: what numba-cuda's own device code computes in C for `array.reshape`."""


def reshape_strides(thread, ndim, shape, strides, new_ndim, new_shape, new_strides, itemsize, fortran):
    """1 and the strides of the same elements in a new shape, in the same order; 0 where that would need a copy.

    Old axes that follow each other in memory are one run; each new axis takes its part of a run.
    """
    size, new_size = 1, 1
    for axis in range(ndim):
        size *= shape[axis]
    for axis in range(new_ndim):
        new_size *= new_shape[axis]
    if size != new_size:
        return 0
    direction, axis = (1, 0) if fortran else (-1, ndim - 1)
    step, left = itemsize, 1  # of the run: bytes from element to element, and how many of its elements are left
    for k in range(new_ndim):
        new_axis = k if fortran else new_ndim - 1 - k
        length = new_shape[new_axis]
        if size == 0:
            new_strides[new_axis] = itemsize
            continue
        if length > 1 and left == 1:
            while shape[axis] == 1:
                axis += direction
            step, left = strides[axis], shape[axis]
            axis += direction
            while 0 <= axis and axis < ndim and (shape[axis] == 1 or strides[axis] == step * left):
                left *= shape[axis]
                axis += direction
        if left % length != 0:
            return 0
        new_strides[new_axis] = step
        step *= length
        left //= length
    return 1

"""Views of device arrays on arrays of every layout, broadcast axes included, against NumPy's views."""

import numpy as np
import pytest
from numba import cuda

from refkit.cpu import DeviceArray
from refkit.cuda_kernels.launch.views import part_of, transposed

RAMP = np.arange(24, dtype=np.float32).reshape(4, 6)
LAYOUTS = {
    "contiguous": RAMP,
    "transposed": RAMP.T.copy().T,
    "every second": np.repeat(RAMP, 2, axis=1)[:, ::2],
    "backwards": np.ascontiguousarray(RAMP[::-1, ::-1])[::-1, ::-1],
    "broadcast rows": np.broadcast_to(RAMP[0], RAMP.shape),
    "broadcast columns": np.broadcast_to(RAMP[:, :1], RAMP.shape),
    "one number": np.broadcast_to(np.float32(7), RAMP.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("axis", "first", "count"), [(0, 1, 2), (1, 2, 3), (1, 0, 6), (0, 3, 1), (1, 4, 0), (0, 4, 0)])
def test_a_part_of_an_axis_is_numpys(layout, axis, first, count):
    host = LAYOUTS[layout]
    part = part_of(DeviceArray.wrap(host), axis, first, count)
    want = host[first : first + count] if axis == 0 else host[:, first : first + count]
    assert part.shape == want.shape
    assert not count or part.strides == host.strides
    np.testing.assert_array_equal(part.host, want)


@pytest.mark.parametrize(("first", "count"), [(5, 2), (-1, 2), (3, -1), (7, 0)])
def test_a_part_outside_of_its_axis_is_refused(first, count):
    with pytest.raises(ValueError, match=f"elements {first} to {first + count} do not lie inside axis 1 of length 6"):
        part_of(cuda.to_device(RAMP), 1, first, count)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_transposed_view_copies_nothing(layout):
    array = DeviceArray.wrap(LAYOUTS[layout])
    view = transposed(array)
    np.testing.assert_array_equal(view.host, LAYOUTS[layout].T)
    assert view.host.ctypes.data == array.host.ctypes.data

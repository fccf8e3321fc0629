"""What Python imports first in the processes that numba-cuda's tests start: their kernels run on the executor too."""

from tests.numba_suite.launches import emulate_this_process

emulate_this_process()

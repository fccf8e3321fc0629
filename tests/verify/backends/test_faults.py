"""What a launch raised, as one clear line with the user's own file and line."""

import pytest
from numba import cuda
from numba.core import errors

from refkit.verify.backends import LaunchFault, Unavailable, faults, open_backend
from refkit.verify.backends.cuda import _FATAL, _fault, gpu_problem

NUMBA_MESSAGE = f"""Failed in cuda mode pipeline (step: nopython frontend)
\x1b[1mUnknown attribute 'foo' of type float32

File "../elsewhere/kernel.py", line 6:
def k(x, y):
    <source elided>

During: typing of get attribute at {__file__} (6)

File "{__file__}", line 6:
During: Pass nopython_type_inference"""


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_compile_error_keeps_its_message_and_its_place():
    fault = faults.from_exception(errors.TypingError(NUMBA_MESSAGE))
    assert fault.kind == "compile"
    assert str(fault) == f"{__file__}:6: the kernel does not compile: Unknown attribute 'foo' of type float32"


def test_the_list_of_overloads_is_left_out():
    text = "No implementation of function add found for signature:\n >>> add(str, float32)\nThere are 28"
    fault = faults.from_exception(errors.TypingError(text))
    assert fault.message.endswith("found for signature: >>> add(str, float32)")


def test_a_launchers_own_error_has_the_line_that_raised_it():
    fault = faults.from_exception(raised(ValueError("two\nlines")))
    assert fault.kind == "launcher"
    assert fault.message == "the launcher raised ValueError: two lines"
    assert fault.location.startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("path", "users"),
    [
        (__file__, True),
        ("/home/me/kernel.py", True),
        (faults.__file__, False),
        (cuda.__file__, False),
        ("<string>", False),
        (pytest.__file__, False),
    ],
)
def test_whose_code_it_is(path, users):
    assert faults.is_users(path) is users


def test_refkits_own_kernels_and_specs_are_what_is_tested():
    from refkit import numerics
    from refkit.cuda_kernels import linear
    from refkit.reference import linear as reference
    from refkit.verify.specs import linear as specs

    assert faults.is_users(linear.__file__)
    assert faults.is_users(reference.__file__)
    assert not faults.is_users(numerics.__file__)
    assert faults.is_users(specs.__file__)


class CudaAPIError(Exception):
    def __init__(self, code, name):
        super().__init__(code, name)
        self.code = type("Code", (int,), {"name": name})(code)


class CUDAError(Exception):
    pass


@pytest.mark.parametrize("code", sorted(_FATAL))
def test_an_error_that_kills_the_context_is_fatal(code):
    fault = _fault(raised(CudaAPIError(code, "CUDA_ERROR_X")))
    assert fault.fatal
    assert fault.message == f"{_FATAL[code]} (CUDA_ERROR_X)"


def test_a_refused_launch_is_not_fatal():
    fault = _fault(raised(CudaAPIError(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")))
    assert (fault.kind, fault.fatal) == ("configuration", False)


def test_an_error_that_only_names_its_code_is_read_by_name():
    fault = _fault(raised(CUDAError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")))
    assert (fault.kind, fault.fatal) == ("memory", True)


def test_a_mistake_of_the_executor_is_not_blamed_on_the_kernel():
    from refkit.cpu import DeviceArray

    with pytest.raises(AttributeError) as mistake:
        DeviceArray.wrap(None)
    assert faults.from_exception(mistake.value).kind == "internal"
    with pytest.raises(ValueError, match="strides") as refusal:
        DeviceArray((2, 2), (8,), "float32")
    assert faults.from_exception(refusal.value).kind == "launcher"


def test_a_fault_passes_through_as_it_is():
    fault = LaunchFault("no_progress", "for ever", fatal=True)
    assert _fault(fault) is fault
    assert faults.from_exception(fault) is fault


@pytest.mark.skipif(cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_reason_is_one_line():
    assert "\n" not in gpu_problem()
    with pytest.raises(Unavailable, match="--backend cuda: no usable NVIDIA GPU"):
        open_backend("cuda")
    assert open_backend("auto").name == "cpu"


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="'tpu'"):
        open_backend("tpu")

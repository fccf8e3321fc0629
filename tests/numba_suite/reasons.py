"""Why a test that counts does not agree: the first pattern that fits its id gives the reason."""

import fnmatch

_CACHE = (
    "Looks into Numba's cache of GPU code on disk, its files, its hits or the stale code it returns; the executor has "
    "a cache of its own, of machine code by content."
)
_LAUNCH_CONFIGURATION = (
    "Reads the launch configuration while the kernel compiles, through internals of Numba's that compile for a GPU; "
    "the executor compiles a kernel without one."
)
_NO_COPY = "Expects a warning that a host array is copied to the device or a grid is too small; on a CPU neither costs."
_NO_STREAM = (
    "Expects the stream of a foreign array to be synchronised before a launch; on the executor its work has ended."
)
_COOPERATIVE = "Asks the compiled GPU kernel whether it is to be launched cooperatively."

REASONS = {
    "*test_atomics.py::*::test_atomic_sub3": (
        "Passes a uint32 array where int32 is declared: a GPU reads the bytes unchecked, the executor refuses."
    ),
    "*test_caching.py::*aunch_config_sensitive_c*": _LAUNCH_CONFIGURATION,
    "*test_caching.py::*": _CACHE,
    "*test_cooperative_groups.py::*_is_cooperative": _COOPERATIVE,
    "*test_cuda_array_interface.py::*::test_launch_sync*": _NO_STREAM,
    "*test_debuginfo.py::*::test_missing_source": (
        "Expects a warning that a function has no source; the executor, which always wants lines, hides it."
    ),
    "*test_dispatcher.py::*::test_explicit_signatures_ambiguous_resolution": (
        "Expects a launch that fits two declared signatures equally well to be refused; the executor takes the first."
    ),
    "*test_dispatcher.py::*::test_explicit_signatures_device": (
        "The launch is refused as expected, but its signature stays in the kernel's `overloads`."
    ),
    "*test_dispatcher.py::*launch_config*": _LAUNCH_CONFIGURATION,
    "*test_dispatcher.py::*::test_capture_compile_config": _LAUNCH_CONFIGURATION,
    "*test_enums.py::*::test_compare": (
        "Passes a member of an enumeration of tuples as a kernel argument, which the executor does not take."
    ),
    "*test_exception.py::*::test_raise_in_device_function": (
        "Expected to fail, since a GPU does not report exceptions of device functions; the executor does."
    ),
    "*test_gufunc.py::*::test_inefficient_launch_configuration": _NO_COPY,
    "*test_launch_config_sensitive.py::*": _LAUNCH_CONFIGURATION,
    "*test_userexc.py::*::test_user_exception": (
        "The exception is raised as its own class, but with the executor's text, not Numba's."
    ),
    "*test_warning.py::*::test_float16_warn_if_lto_missing": (
        "Expects a warning that float16 without link-time optimisation is slow; the executor links nothing."
    ),
    "*test_warning.py::*::test_*warn_on_host_array": _NO_COPY,
    "*test_warp_ops.py::*::test_vote_sync_type_validation": (
        "Expects a type error as soon as a kernel with a declared signature is made; the executor compiles at launch."
    ),
}


def reason_for(identity: str) -> str | None:
    """The reason for the test, or None where none is known."""
    return next((reason for pattern, reason in REASONS.items() if fnmatch.fnmatchcase(identity, pattern)), None)

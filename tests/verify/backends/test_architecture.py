import pytest

from refkit.verify import Dim, In, KernelSpec, Out, SpecError
from refkit.verify.backends import architecture

N = Dim("N")


@pytest.mark.parametrize(
    ("needs", "capability", "runs"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (12, 0), True),
        ("sm_89", (8, 6), False),
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_120", (12, 0), True),
    ],
)
def test_which_gpus_run_a_kernel(needs, capability, runs):
    assert (architecture.mismatch(needs, capability) == "") is runs


def test_the_reason_names_both():
    expected = "needs sm_90a (compute capability 9.0); this GPU has 10.0"
    assert architecture.mismatch("sm_90a", (10, 0)) == expected


def test_the_cpu_executor_lacks_nothing():
    assert architecture.lacking("cpu", "sm_90a") == ""


def spec(**more):
    return KernelSpec(launch=lambda x, y: None, reference=lambda x: x, args={"x": In(N), "y": Out(N)}, **more)


def test_a_wrong_name_is_the_specs_mistake():
    with pytest.raises(SpecError, match="needs is 'hopper'; expected an architecture such as 'sm_80' or 'sm_90a'"):
        spec(needs="hopper")


def test_a_kernel_that_this_gpu_cannot_run_is_skipped_with_the_reason(monkeypatch):
    from refkit.verify.runner import verify_spec
    from tests.verify.numpy_backend import NumpyBackend

    monkeypatch.setattr(architecture, "device_capability", lambda: (8, 6))
    backend = NumpyBackend()
    backend.name = "cuda"
    record = verify_spec(spec(needs="sm_90a"), backend=backend)
    assert record.status.value == "skipped"
    assert "needs sm_90a" in record.message
    assert record.cases == 0

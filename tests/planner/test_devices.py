"""Devices as data."""

import pytest

from refkit.planner.devices import DEVICES, FORMATS, device, machine


def test_every_device_says_where_its_figures_come_from_and_holds_together():
    for each in DEVICES.values():
        assert each.source
        assert each.multiprocessor.compute_capability == each.compute_capability
        assert set(each.tflops) <= set(FORMATS)
        rates = [each.tflops[name] for name in ("float32", "tf32", "bfloat16", "float8") if name in each.tflops]
        assert rates == sorted(rates), each.name
        assert each.measured == each.name.endswith("-measured")


def test_what_was_measured_is_below_the_data_sheet():
    peak, measured = device("h200"), device("h200-measured")
    assert measured.bandwidth == 4230
    assert measured.tflops == {"float32": 50.7, "tf32": 370, "bfloat16": 789, "float16": 789, "float8": 1329}
    assert measured.bandwidth < peak.bandwidth
    assert all(rate < peak.tflops[name] for name, rate in measured.tflops.items())


def test_the_laptop_rate_is_its_lanes_times_its_clock():
    laptop = device("RTX4070-laptop")
    assert laptop.tflops["float32"] == pytest.approx(36 * 128 * 2 * 1.2e9 / 1e12, rel=0.005)


def test_a_rate_by_hand_takes_the_place_of_the_device_s():
    given = machine(device("t4"), "bfloat16", tflops=12.5, bandwidth=100)
    assert (given["rate"], given["bandwidth"], given["SMs"]) == (12.5e12, 100e9, 40)
    assert given["vector_rate"] == 8.1e12
    own = machine(device("t4"), "float16")
    assert (own["rate"], own["bandwidth"], own["element"]) == (65e12, 320e9, 2)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: device("h300"), "'h300' is not known.*h200-measured"),
        (lambda: machine(device("a100"), "int8"), "'int8' is not known.*bfloat16"),
        (lambda: machine(device("a100"), "float8"), "a100 has no rate for float8"),
    ],
)
def test_wrong_calls_name_what_is_known(call, named):
    with pytest.raises(ValueError, match=named):
        call()

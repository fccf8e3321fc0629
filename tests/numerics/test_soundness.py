"""The error model's two promises: right computations stay within the bound, planted faults do not."""

import numpy as np
import pytest

from refkit.numerics import error_ratio, soundness

RIGHT = list(soundness.right_computations(seed=0))
WRONG = list(soundness.wrong_computations(seed=1))


@pytest.mark.parametrize("measurement", RIGHT, ids=lambda m: m.name)
def test_right_computations_stay_within_the_bound(measurement):
    assert all(b.kind == "tracked" for b in measurement.bounds())
    worst, _ = measurement.measure()
    assert worst <= 1 if measurement.storage is not np.float32 else worst < 0.8


@pytest.mark.parametrize("fault", WRONG, ids=lambda f: f.name)
def test_planted_faults_are_beyond_the_bound(fault):
    assert fault.measure() > 10


def test_a_zero_output_is_beyond_the_bound_of_every_computation_that_is_not_zero():
    for measurement in RIGHT:
        if "constant near 1e4" in measurement.name:
            continue  # variance 0 next to a mean of 10,000: in float32 nothing of the result is left to judge
        for bounded in measurement.bounds():
            if np.abs(bounded.value).max() > 1e-6:
                assert error_ratio(np.zeros(bounded.value.shape), bounded).max() > 1, measurement.name


def test_the_rstd_of_a_constant_row_covers_what_float32_gives():
    x = np.full((1, 4096), np.float32(3.7) + np.float32(1e4), np.float32)
    rstd = soundness.Measurement("layer_norm", soundness.layer_norm, {"x": x, "gamma": x[0] * 0 + 1, "beta": x[0] * 0})
    bounded = rstd.bounds()[2]
    assert bounded.value == pytest.approx(316.2, abs=0.1)
    for order in rstd.orders:
        assert error_ratio(rstd.run(order)[2], bounded).max() < 1


def test_the_tables_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(soundness, "right_computations", lambda: RIGHT[:1])
    monkeypatch.setattr(soundness, "wrong_computations", lambda: WRONG[-1:])
    soundness.main()
    printed = capsys.readouterr().out
    assert RIGHT[0].name in printed
    assert WRONG[-1].name in printed

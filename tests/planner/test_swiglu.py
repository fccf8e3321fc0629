import pytest

from refkit.planner.swiglu import SwigluLedger

MIB = 2**20
LAYER = SwigluLedger(M=8192, K=768, I=9216, element_bytes=2)


def gigaflops(flops):
    return round(flops / 1e9)


def test_the_four_backward_products_of_a_bf16_layer():
    products = (LAYER.dout_flops, LAYER.dw_down_flops, LAYER.dx_flops, LAYER.dw_flops)
    assert [gigaflops(flops) for flops in products] == [116, 116, 232, 232]
    assert gigaflops(LAYER.backward_flops) == 696
    assert gigaflops(LAYER.forward_flops) == 348
    assert LAYER.backward_flops == 2 * LAYER.forward_flops


def test_the_traffic_of_a_bf16_layer():
    assert LAYER.dout_bytes == 144 * MIB
    assert LAYER.de_bytes == 288 * MIB
    assert LAYER.dout_round_trip_bytes == 288 * MIB
    assert LAYER.unfused_bytes == (12 + 13.5 + 144 + 144 + 288 + 288) * MIB
    assert LAYER.fused_bytes == (12 + 13.5 + 288 + 288) * MIB
    assert LAYER.saved_bytes == (12 + 288 + 144) * MIB


def test_fusing_saves_the_round_trip_whatever_the_sizes():
    for ledger in (LAYER, SwigluLedger(M=3, K=5, I=7, element_bytes=4), SwigluLedger(1, 1, 1)):
        assert ledger.unfused_bytes - ledger.fused_bytes == ledger.dout_round_trip_bytes


def test_each_formula_on_small_sizes():
    ledger = SwigluLedger(M=3, K=5, I=7, element_bytes=4)
    assert ledger.dout_flops == ledger.dw_down_flops == 2 * 3 * 5 * 7
    assert ledger.dx_flops == ledger.dw_flops == 2 * 3 * 5 * 14
    assert ledger.forward_flops == 2 * 3 * 5 * 14 + 2 * 3 * 7 * 5
    assert ledger.dout_bytes == 3 * 7 * 4
    assert ledger.w_down_bytes == 7 * 5 * 4
    assert ledger.token_bytes == 3 * 5 * 4


def test_bytes_follow_the_element_size_and_operations_do_not():
    wide = SwigluLedger(M=8192, K=768, I=9216, element_bytes=4)
    assert wide.dout_bytes == 2 * LAYER.dout_bytes
    assert wide.backward_flops == LAYER.backward_flops


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="I is 0; expected at least 1"):
        SwigluLedger(M=1, K=1, I=0)

"""Responses: what training draws from, and ranges that leave out their own number."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rlstack.kinds.wheeled_base.spec_response import RESPONSE_PARAMETERS, Response, range_key


def test_every_number_has_a_range_and_without_one_it_is_itself() -> None:
    ranged = {range_key(name) for name in RESPONSE_PARAMETERS}
    assert {field.name for field in fields(Response)} == {*RESPONSE_PARAMETERS, *ranged}
    response = Response(linear_time_constant_s=0.1, angular_slip=0.05, angular_slip_range=(-0.1, 0.2))
    assert response.range_of("linear_time_constant_s") == (0.1, 0.1)
    assert response.range_of("angular_slip") == (-0.1, 0.2)


@pytest.mark.parametrize("bad", [(0.2, 0.3), (0.0, 0.05), (0.3, 0.0)])
def test_a_range_that_leaves_out_its_number_is_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"command_delay_range_s: \[.*command_delay_s \(0.1\) within"):
        Response(command_delay_s=0.1, command_delay_range_s=bad)

"""Modes: the same for all guards, and each kind's own."""

from __future__ import annotations

import pytest

from rlstack.guard import CommonMode, Mode
from rlstack.kinds.manipulator.guard import ManipulatorMode
from rlstack.kinds.quadrotor.guard import QuadrotorMode
from rlstack.kinds.wheeled_base.guard import WheeledBaseMode

ROLES = {
    CommonMode: {"disarmed": "off", "policy": "normal", "estop": "off"},
    QuadrotorMode: {"takeoff": "normal", "return": "intervention", "hover": "intervention", "land": "intervention"},
    WheeledBaseMode: {"stop": "intervention", "fallback": "intervention"},
    ManipulatorMode: {"hold": "intervention", "park": "intervention"},
}


@pytest.mark.parametrize("modes", ROLES, ids=lambda modes: modes.__name__)
def test_modes_have_a_text_and_say_what_they_mean(modes: type[Mode]) -> None:
    assert {str(mode): mode.role for mode in modes} == ROLES[modes]
    assert all(mode == str(mode) == mode.value for mode in modes)

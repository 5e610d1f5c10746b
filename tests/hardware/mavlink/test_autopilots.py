from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.mavlink.autopilots import ARDUPILOT, PX4, ThrustModel
from rlstack.robots.spec import STANDARD_GRAVITY


@pytest.mark.parametrize("curve", [0.0, 0.3, 0.65, 1.0])
def test_thrust_hovers_at_the_hover_thrust_and_lifts_as_asked(curve: float) -> None:
    model = ThrustModel(0.45, curve)
    assert np.isclose(model.of(STANDARD_GRAVITY), 0.45)
    for wanted in (2.0, 5.0, 12.0):
        t = model.of(wanted)
        # the autopilot's motor command for it, and what rotors lift whose speed follows the command
        command = t if curve == 0.0 else (np.sqrt((1 - curve) ** 2 + 4 * curve * t) - (1 - curve)) / (2 * curve)
        assert np.isclose(STANDARD_GRAVITY * (command / model.hover_command) ** 2, wanted)


def test_thrust_stays_between_nothing_and_all() -> None:
    model = ThrustModel(0.5, 0.3)
    assert model.of(-1.0) == 0.0 and model.of(500.0) == 1.0
    assert np.all(np.diff([model.of(a) for a in np.linspace(0.0, 30.0, 50)]) > 0.0)


def test_parameters_that_must_be_changed_are_named_with_both_values() -> None:
    required = ARDUPILOT.parameters(termination=True)
    ARDUPILOT.check(required, {"GUID_OPTIONS": 9.0})
    with pytest.raises(UserError, match="GUID_OPTIONS is 1, must be 9"):
        ARDUPILOT.check(required, {"GUID_OPTIONS": 1.0})
    assert not PX4.parameters(termination=False)
    with pytest.raises(UserError, match="CBRK_FLIGHTTERM is 121212, must be 0"):
        PX4.check(PX4.parameters(termination=True), {"CBRK_FLIGHTTERM": 121212.0})


def test_modes_have_their_names() -> None:
    assert PX4.mode_name(6 << 16) == "OFFBOARD" and PX4.mode_name(4 << 16 | 6 << 24) == "AUTO.LAND"
    assert ARDUPILOT.mode_name(20) == "GUIDED_NOGPS" and ARDUPILOT.mode_name(99) == "mode 0x63"

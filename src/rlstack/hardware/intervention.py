"""Detection of human interventions on an arm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.hardware.devices import TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator

MOVED = 0.005
"""Share of a joint's range, or of a revolution, by which a leader arm must move to take control: 10 to 20 ticks of a
servo; a released one rests within 2."""


class InterventionDetector:
    """Decides when the operator is in control: from the request on or, if it persists, from the first motion on.

    Control ends when the operator hands back or the episode ends.
    """

    def __init__(self) -> None:
        self._before = TeleopInput()
        """The operator's last input; at first, without control."""
        self._leads = False

    def leads(self, hand: TeleopInput, begins: bool) -> bool:
        """Return whether the operator controls the coming step, which may begin an episode."""
        moves = bool(hand.linear.any() or hand.angular.any()) or hand.gripper not in (0.0, self._before.gripper)
        goes_on = self._leads and not begins
        self._leads = hand.intervene and (moves or not self._before.intervene or goes_on)
        self._before = hand
        return self._leads


class LeaderArmMotion:
    """Detects motion of a leader arm from its rest position, beyond the noise of its servos."""

    def __init__(self) -> None:
        self._stood: dict[str, float] = {}
        self._moved = False

    def forget(self) -> None:
        """Take the next position as the rest position."""
        self._stood, self._moved = {}, False

    def moved(self, robot: Manipulator, joints: Mapping[str, float]) -> bool:
        """Return whether any joint (by the robot's names, rad or m) has moved far enough, now or before."""
        for drive in robot.drives:
            if (place := joints.get(drive.name)) is not None:
                away = abs(place - self._stood.setdefault(drive.name, place))
                self._moved |= away > MOVED * min(drive.upper - drive.lower, 2.0 * np.pi)
        return self._moved

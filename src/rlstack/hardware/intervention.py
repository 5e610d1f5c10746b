"""Detects when a human intervenes and takes over an arm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.hardware.devices import TeleopInput
from rlstack.kinds.manipulator.spec import Manipulator

MOVED = 0.005
"""Share of a joint's range, or of a turn, by which a leader arm must be moved to lead: some 10 to 20 ticks of a servo,
and one that is let go rests within 2."""


class InterventionDetector:
    """When a hand overrules another: from when it says so or, where it does so already, from its first motion on.

    Until it hands back, or an episode ends.
    """

    def __init__(self) -> None:
        self._before = TeleopInput()
        """What the hand did last; at first, it is not known to have taken over."""
        self._leads = False

    def leads(self, hand: TeleopInput, begins: bool) -> bool:
        """Return whether the hand leads the coming step, with which an episode may begin."""
        moves = bool(hand.linear.any() or hand.angular.any()) or hand.gripper not in (0.0, self._before.gripper)
        goes_on = self._leads and not begins
        self._leads = hand.intervene and (moves or not self._before.intervene or goes_on)
        self._before = hand
        return self._leads


class LeaderArmMotion:
    """Whether a leader arm has been moved from where it stood, by more than its servos' readings shake."""

    def __init__(self) -> None:
        self._stood: dict[str, float] = {}
        self._moved = False

    def forget(self) -> None:
        """Take where it is next for where it stands."""
        self._stood, self._moved = {}, False

    def moved(self, robot: Manipulator, joints: Mapping[str, float]) -> bool:
        """Return whether any of its joints (by the robot's names, rad or m) has gone far enough, now or before."""
        for drive in robot.drives:
            if (place := joints.get(drive.name)) is not None:
                away = abs(place - self._stood.setdefault(drive.name, place))
                self._moved |= away > MOVED * min(drive.upper - drive.lower, 2.0 * np.pi)
        return self._moved

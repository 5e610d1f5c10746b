"""When a hand takes over from whatever else moves an arm."""

from __future__ import annotations

from rlstack.hardware.devices import Hand


class Takeover:
    """When a hand overrules another: from when it says so or, where it does so already, from its first motion on.

    Until it hands back, or an episode ends.
    """

    def __init__(self) -> None:
        self._before = Hand()
        """What the hand did last; at first, it is not known to have taken over."""
        self._leads = False

    def leads(self, hand: Hand, begins: bool) -> bool:
        """Return whether the hand leads the coming step, with which an episode may begin."""
        moves = bool(hand.linear.any() or hand.angular.any()) or hand.gripper not in (0.0, self._before.gripper)
        goes_on = self._leads and not begins
        self._leads = hand.intervene and (moves or not self._before.intervene or goes_on)
        self._before = hand
        return self._leads

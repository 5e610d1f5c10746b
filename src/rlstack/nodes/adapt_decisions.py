"""When a robot is adapted to in flight: once it differs from what its policy is for, and has settled."""

from __future__ import annotations

from typing import Literal

from rlstack.identification.kind_adaptation import Told

Decision = Literal["nothing", "look again", "adapt", "return"]


class Decisions:
    """Decides what follows from each look at the robot.

    A change within the seconds that were looked at is told as a part of it, so two looks must agree.

    Args:
        unchanged: What a robot tells that is as its file says.
    """

    def __init__(self, unchanged: Told) -> None:
        self.unchanged = self._flown = unchanged
        self._seen: Told | None = None
        self._refused: Told | None = None

    def seen(self, told: Told) -> Decision:
        """Return what to do after a look: nothing, look again soon, adapt, or return to the policy of the file."""
        before, self._seen = self._seen, told
        if told.apart(self._flown) < 1.0 or (self._refused is not None and told.apart(self._refused) < 1.0):
            return "nothing"
        if before is None or told.apart(before) >= 1.0:
            return "look again"
        return "return" if told.apart(self.unchanged) < 1.0 else "adapt"

    def flies(self, told: Told | None) -> None:
        """Take note that the policy for what was told flies; None: that of the file."""
        self._flown, self._refused = told or self.unchanged, None

    def refused(self, told: Told) -> None:
        """Take note that there is no policy for that: it is not tried again."""
        self._refused = told

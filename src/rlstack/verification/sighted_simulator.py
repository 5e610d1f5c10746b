"""Trials in an engine whose policy in process takes images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rlstack.interfaces.messages import seconds_to_ns
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.jointed_trials import JointedSimulator


class SightedSimulator(JointedSimulator):
    """Adds the images that a policy in process takes to its signals; over topics, nodes deliver them."""

    images: CameraInputs | None = None
    """None: the policy is not in process."""

    def place(self, number: int) -> None:
        """Start a trial."""
        super().place(number)
        if self.images is not None:
            self.images.begin()

    def look(self) -> None:
        """Take the images that are due in this control period."""
        if self.images is not None:
            self.images.look(self._now_ns)

    def signals(self) -> Mapping[str, NDArray[Any]]:
        """Return the signals that the policy may take."""
        images = {} if self.images is None else self.images.signals(self._now_ns)
        return {**super().signals(), **images}

    @property
    def _now_ns(self) -> int:
        return seconds_to_ns(self.period / self.robot.control_rate_hz)

"""A human shows it: what a hand does becomes the action, in real time, alone or as a correction of who else acts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.evaluation.demonstrations.recording import Choice, Decide
from rlstack.hardware.devices import Hand
from rlstack.tasks.arms.station import Station

Array = NDArray[np.float64]


class ByHand:
    """See :data:`rlstack.evaluation.demonstrations.recording.Decide`.

    Args:
        device: Open; see :class:`rlstack.hardware.devices.Device`.
        otherwise: Who acts while the hand does not intervene; None: the hand alone acts, and an episode begins with its
            first motion.
        say: Called with a sentence when a command was clipped, at most once a second for each.
        show: Called before every step, so that the human sees something.
    """

    def __init__(
        self,
        device: Any,
        otherwise: Decide | None = None,
        say: Callable[[str], None] = lambda sentence: None,
        show: Callable[[Station], None] = lambda station: None,
    ) -> None:
        self._device, self._otherwise, self._say, self._show = device, otherwise, say, show
        self._due, self._said_at = 0.0, dict[str, float]()

    def __call__(self, station: Station) -> Choice:
        """Wait until it is time for the next step, and return what is to be done in it."""
        self._show(station)
        if self._device.live:
            self._wait(1.0 / station.task.rate_hz)
        hand: Hand = self._device.read()
        still = np.zeros(station.pipeline.action_size)
        if hand.said:
            return Choice(still, by_hand=True, said=hand.said[0])
        if self._otherwise is not None and not hand.intervene:
            return self._otherwise(station)
        if self._otherwise is None and station.steps == 0 and (hand.idle or not hand.intervene):
            return Choice(still, by_hand=True, waiting=True)
        action = action_of(hand, station.task.axes)
        for sentence in clippings(station, action):
            now = time.monotonic()
            if now - self._said_at.get(sentence, -1e9) >= 1.0:
                self._said_at[sentence] = now
                self._say(sentence)
        return Choice(action, by_hand=True)

    def _wait(self, period_s: float) -> None:
        now = time.monotonic()
        self._due = max(self._due + period_s, now - period_s)  # late once does not mean hurrying for ever
        if self._due > now:
            time.sleep(self._due - now)


def action_of(hand: Hand, axes: tuple[str, ...]) -> Array:
    """Return what the hand does as an action (actions,), not clipped."""
    moved = {**dict(zip("xyz", hand.linear)), "yaw": hand.angular[2], "gripper": hand.gripper}
    return np.array([moved[axis] for axis in axes], dtype=float)


def clippings(station: Station, action: Array) -> list[str]:
    """Return in sentences which limits an action would break, and what is done instead."""
    found, motion, task = [], station.pipeline.motion, station.task
    units = {"yaw": f"{motion.yaw_rate_rad_s:g} rad/s", "gripper": "the joints' speed"}
    for axis, share in zip(task.axes, action):
        if abs(share) > 1.0 + 1e-6:
            found.append(f"{axis} is clipped to {units.get(axis, f'{motion.speed_m_s:g} m/s')}.")
    seen = station.senses()
    step = motion.speed_m_s / task.rate_hz
    for k, (axis, low, high) in enumerate(zip("xyz", *task.workspace.corners)):
        share = dict(zip(task.axes, action)).get(axis, 0.0)
        wanted = seen["target_position"][k] + step * float(np.clip(share, -1.0, 1.0))
        if share and not low - 1e-6 <= wanted <= high + 1e-6:
            bound = f"{axis} >= {low:g} m" if wanted < low else f"{axis} <= {high:g} m"
            found.append(f"The tool is kept in the workspace, {bound}.")
    if action.any():
        for drive, target in zip(station.robot.drives[: station.pipeline.arm], seen["target"]):
            if not drive.lower + 1e-4 < target < drive.upper - 1e-4:
                found.append(f"{drive.name} is at its limit, {target:.3g} rad.")
    return found

"""Demonstrations by teleoperation in real time: the operator acts alone, or corrects another demonstrator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.teleoperation import placed
from rlstack.demonstrations.recording import Choice, Decide
from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.hardware.intervention import InterventionDetector, LeaderArmMotion
from rlstack.tasks.manipulator.action_recovery import action_toward
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment
from rlstack.tasks.manipulator.environment import ArmEnvironment


class Teleoperator:
    """Demonstrates by hand; see :data:`rlstack.demonstrations.recording.Decide`.

    Args:
        device: An open device; see :class:`rlstack.hardware.devices.Device`.
        otherwise: Demonstrator that acts while the operator does not intervene; None: the operator acts alone, and an
            episode begins with the first motion. A leader arm, once moved, leads until the episode ends.
        say: Called with a sentence when a command is clipped, at most once a second for each.
        show: Called before every step, to display the simulation.
    """

    def __init__(
        self,
        device: Any,
        otherwise: Decide | None = None,
        say: Callable[[str], None] = lambda sentence: None,
        show: Callable[[DemonstrationEnvironment], None] = lambda station: None,
    ) -> None:
        self._device, self._otherwise, self._show = device, otherwise, show
        self._pace, self._clippings, self._takeover = Pace(), Clippings(say), InterventionDetector()
        self._waiting = False
        self._moved = LeaderArmMotion()

    def __call__(self, station: DemonstrationEnvironment) -> Choice:
        """Wait until the next step is due, and return its action.

        Raises:
            UserError: The device is disconnected, or moves joints that the robot lacks.
        """
        self._show(station)
        if self._device.live:
            self._pace.wait(1.0 / station.task.rate_hz)
        if station.steps == 0 and not self._waiting:
            self._begin()
        hand: TeleopInput = self._device.read()
        self._waiting = False
        still = np.zeros(station.pipeline.action_size)
        if hand.events:
            return Choice(still, by_hand=True, said=hand.events[0])
        led = None if hand.joints is None else _led(station, hand.joints)  # refused before anything moves
        if hand.joints is not None:
            leads = hand.intervene and self._moved.moved(station.robot, hand.joints)
        elif self._otherwise is not None:
            leads = self._takeover.leads(hand, station.steps == 0)
        else:
            leads = hand.intervene
        if self._otherwise is not None and not leads:
            return self._otherwise(station)
        if self._otherwise is None and station.steps == 0 and (hand.idle or not leads):
            self._waiting = True
            return Choice(still, by_hand=True, waiting=True)
        said: list[str] = []
        if led is None:
            action = action_of(hand, station.task.axes)
        elif leads:
            action, said = action_toward(station, led[0]), led[1]
        else:
            action = still
        self._clippings.tell([*said, *clippings(station.environment, station.senses(), action)])
        return Choice(action, by_hand=True)

    def _begin(self) -> None:
        """Prepare for another episode: earlier motion of the device does not start it."""
        forget_gripper(self._device)
        self._moved.forget()


class Pace:
    """Paces steps in real time."""

    def __init__(self) -> None:
        self._due = 0.0

    def wait(self, period_s: float) -> None:
        """Wait until the next step is due."""
        now = time.monotonic()
        self._due = max(self._due + period_s, now - period_s)  # do not catch up on a long delay
        if self._due > now:
            time.sleep(self._due - now)


class Clippings:
    """Reports the clipped parts of an action to the operator, each at most once a second.

    Args:
        say: Called with a sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said_at = say, dict[str, float]()

    def tell(self, sentences: Iterable[str]) -> None:
        """Report the sentences that were not reported in the last second; see :func:`clippings`."""
        for sentence in sentences:
            now = time.monotonic()
            if now - self._said_at.get(sentence, -1e9) >= 1.0:
                self._said_at[sentence] = now
                self._say(sentence)


def forget_gripper(device: Any) -> None:
    """Reset the gripper command of a device that stores one, for another episode."""
    if (forget := getattr(device, "forget", None)) is not None:
        forget()


def action_of(hand: TeleopInput, axes: tuple[str, ...]) -> Array:
    """Return a device's twist as an action (actions,), not clipped; for devices other than leader arms."""
    moved = {**dict(zip("xyz", hand.linear)), "yaw": hand.angular[2], "gripper": hand.gripper}
    return np.array([moved[axis] for axis in axes], dtype=float)


def _led(station: DemonstrationEnvironment, joints: Mapping[str, float]) -> tuple[Array, list[str]]:
    """Return a leader arm's joint targets (joints,) rad or m, and in sentences what was clipped."""
    try:
        return placed(station.robot, station.senses()["target"], joints)
    except ValueError as error:
        raise UserError(f"The leader arm cannot be followed: {error}.") from error


def clippings(environment: ArmEnvironment, seen: Mapping[str, Array], action: Array) -> list[str]:
    """Return in sentences the limits that an action would break, and what is done instead."""
    found, motion, task = [], environment.pipeline.motion, environment.task
    units = {"yaw": f"{motion.yaw_rate_rad_s:g} rad/s", "gripper": "the joints' speed"}
    for axis, share in zip(task.axes, action):
        if abs(share) > 1.0 + 1e-6:
            found.append(f"{axis} is clipped to {units.get(axis, f'{motion.speed_m_s:g} m/s')}.")
    step = motion.speed_m_s / task.rate_hz
    for k, (axis, low, high) in enumerate(zip("xyz", *task.workspace.corners)):
        share = dict(zip(task.axes, action)).get(axis, 0.0)
        wanted = seen["target_position"][k] + step * float(np.clip(share, -1.0, 1.0))
        if share and not low - 1e-6 <= wanted <= high + 1e-6:
            bound = f"{axis} >= {low:g} m" if wanted < low else f"{axis} <= {high:g} m"
            found.append(f"The tool is kept in the workspace, {bound}.")
    if action.any():
        for drive, target in zip(environment.robot.drives[: environment.pipeline.arm], seen["target"]):
            if not drive.lower + 1e-4 < target < drive.upper - 1e-4:
                found.append(f"{drive.name} is at its limit, {target:.3g} rad.")
    return found

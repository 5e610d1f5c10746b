"""A robot as LeRobot names it: flat features, ``shoulder_pan.pos`` or ``x.vel``, and their units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.robots import RobotSpec

Units = Literal["rad", "degrees", "range"]
"""Units of joints and turns.

``rad``: the robot file's: rad, m where a joint slides, and rad/s. ``degrees`` and ``range`` are those of LeRobot's own
arms after their calibration, whose zero is the middle of each joint's range: degrees from there, or -100 to 100 from
one end to the other; the gripper is 0 to 100 in both. Turn rates are then in degrees/s, forward speeds in m/s.
"""

_AXES = ("x", "y", "z")
_TURNS = ("roll", "pitch", "yaw")


@dataclass(frozen=True)
class _Element:
    """One feature: ``(value - zero) * scale`` of an element of a signal."""

    name: str
    signal: str
    index: int
    scale: float = 1.0
    zero: float = 0.0

    def shown(self, signals: Mapping[str, Array]) -> float:
        return (float(signals[self.signal][self.index]) - self.zero) * self.scale


class LerobotFeatures:
    """The features of a robot's state and action, and what they are as signals.

    Args:
        robot: The robot.
        units: See :data:`Units`.
        reverse: Joints that count the other way in LeRobot than in the robot file.
        speeds: Whether the state has each joint's speed, ``NAME.vel``, after all positions, as in datasets that rlstack
            records; LeRobot's own arms have none.

    Raises:
        UserError: Unknown units or joints, speeds of a robot whose state has its own, or LeRobot's rates do not suit
            what the robot takes.
    """

    def __init__(
        self, robot: RobotSpec, units: str = "rad", reverse: Collection[str] = (), *, speeds: bool = False
    ) -> None:
        if units not in get_args(Units):
            raise UserError(f"units: '{units}' is not allowed: give {', '.join(get_args(Units))}.")
        self._robot, self._units, self._reverse = robot, units, frozenset(reverse)
        self.command = command_of(robot).name
        """The signal that an action commands."""
        makers = {
            "joint_target": self._joints,
            "twist": self._twist,
            "planar_twist": self._twist,
            "rates_thrust": self._rates,
        }
        if self.command not in makers:
            raise UserError(
                f"{robot.name} takes {self.command}, for which LeRobot's loops are too slow: choose a robot that takes"
                f" {', '.join(makers)}, such as crazyflie_rates."
            )
        if unknown := self._reverse - {joint.name for joint in robot.drives}:
            raise UserError(
                f"reverse: {robot.name} has no joint '{sorted(unknown)[0]}'; it has:"
                f" {', '.join(joint.name for joint in robot.drives)}."
            )
        if speeds and self.command != "joint_target":
            raise UserError(
                f"speeds: {robot.name} takes no joint targets, and its state has speeds already: leave it out."
            )
        self._state, self._action = makers[self.command]()
        if speeds:
            self._state += [
                _Element(one.name.replace(".pos", ".vel"), "joint_velocity", one.index, one.scale)
                for one in self._state
            ]
        self.inputs = tuple(dict.fromkeys(element.signal for element in self._state))
        """Names of the signals that the state needs."""
        self.state_names = tuple(element.name for element in self._state)
        self.action_names = tuple(element.name for element in self._action)

    def state(self, sensed: Mapping[str, Array]) -> dict[str, float]:
        """Return the state, by feature, of sensed signals."""
        return {element.name: element.shown(sensed) for element in self._state}

    def command_values(self, action: Array) -> Array:
        """Return the command's values, in the signal's units, of an action (actions,) in the order of its names."""
        scales, zeros = ([getattr(e, key) for e in self._action] for key in ("scale", "zero"))
        values: Array = np.asarray(action, dtype=float) / np.array(scales) + np.array(zeros)
        return values

    def action(self, command: Array) -> dict[str, float]:
        """Return the action, by feature, of a command's values."""
        return {element.name: element.shown({self.command: command}) for element in self._action}

    def standstill(self, sensed: Mapping[str, Array], last: Array | None) -> Array | None:
        """Return the command under which the robot stays as it is, until there are actions; None: there is none.

        Args:
            sensed: The newest signals.
            last: The last command; a gripper keeps its target, so that it drops nothing.
        """
        if self.command == "rates_thrust":
            return None
        if self.command != "joint_target":
            return np.zeros(len(self._action))
        low, high = command_range(self._robot, self.command)
        target: Array = np.clip(sensed["joint_position"], low, high)
        if last is not None:
            grips = self._gripper()
            keep = [name in grips for name in (joint.name for joint in self._robot.drives)]
            target[keep] = last[keep]
        return target

    def _gripper(self) -> frozenset[str]:
        return frozenset(joint.name for joint in getattr(self._robot, "gripper", ()))

    def _joints(self) -> tuple[list[_Element], list[_Element]]:
        grips = self._gripper()
        state: list[_Element] = []
        action: list[_Element] = []
        for index, joint in enumerate(self._robot.drives):
            reversed_, span = joint.name in self._reverse, joint.upper - joint.lower
            scale, zero = 1.0, 0.0
            if self._units != "rad" and not np.isfinite(span):
                raise UserError(f"units: {joint.name} of {self._robot.name} has no ends: give rad.")
            if self._units != "rad" and joint.name in grips:
                scale, zero = 100.0 / span, joint.upper if reversed_ else joint.lower
            elif self._units == "range":
                scale, zero = 200.0 / span, 0.5 * (joint.upper + joint.lower)
            elif self._units == "degrees" and joint.type != "prismatic":
                scale, zero = float(np.rad2deg(1.0)), 0.5 * (joint.upper + joint.lower)
            scale = -scale if reversed_ else scale
            for into, signal in ((state, "joint_position"), (action, "joint_target")):
                into.append(_Element(f"{joint.name}.pos", signal, index, scale, zero))
        return state, action

    def _twist(self) -> tuple[list[_Element], list[_Element]]:
        turn = 1.0 if self._units == "rad" else float(np.rad2deg(1.0))
        ways = _AXES[: 2 if self.command == "planar_twist" else 1]
        state = [_Element(f"{axis}.vel", "linear_velocity", k) for k, axis in enumerate(ways)]
        action = [_Element(f"{axis}.vel", self.command, k) for k, axis in enumerate(ways)]
        return (
            [*state, _Element("theta.vel", "angular_velocity", 2, turn)],
            [*action, _Element("theta.vel", self.command, len(ways), turn)],
        )

    def _rates(self) -> tuple[list[_Element], list[_Element]]:
        turn = 1.0 if self._units == "rad" else float(np.rad2deg(1.0))
        state = [
            *(_Element(f"{axis}.pos", "position", k) for k, axis in enumerate(_AXES)),
            *(_Element(f"q{axis}", "orientation", k) for k, axis in enumerate("xyzw")),
            *(_Element(f"{axis}.vel", "linear_velocity", k) for k, axis in enumerate(_AXES)),
            *(_Element(f"{axis}.vel", "angular_velocity", k, turn) for k, axis in enumerate(_TURNS)),
        ]
        action = [_Element(f"{axis}.vel", self.command, k, turn) for k, axis in enumerate(_TURNS)]
        return state, [*action, _Element("thrust", self.command, 3)]

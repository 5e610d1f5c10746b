"""Franka's arms by libfranka: ``fci://172.16.0.2``."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.franka.attempt import Attempt
from rlstack.hardware.franka.hand import Hand
from rlstack.hardware.franka.modes import REFLEX, error_names, hindrance
from rlstack.hardware.joint_limits import check_limits
from rlstack.hardware.linked_robot import LinkedRobot, checked_options
from rlstack.hardware.payload import mass_behind, moved_link
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Reading
from rlstack.libraries import import_library
from rlstack.robots.joints import clip_targets
from rlstack.robots.kind_models import robot_model
from rlstack.robots.model import read_urdf

_LOG = logging.getLogger(__name__)
_JOINTS = 7
_CONNECT_S, _STOP_S, _END_S = 2.0, 0.5, 0.05
_CLOSE_M, _CLOSE_RAD = 0.005, 0.01
"""By how much an axis may be elsewhere: another arm's is further off."""
_WAY_S = 2.0
"""The state that came quickest within this time gives the controller's clock."""
_EXAMPLE = "fci://172.16.0.2"


class FrankaArm(LinkedRobot):
    """One arm, with its hand where the robot file has a gripper. libfranka's loop at 1 kHz follows the targets.

    Args:
        robot: The robot: seven joints, and the hand's.
        uri: The controller's address and options.

    Raises:
        UserError: The URI or an option is refused, or the robot is not such an arm.
    """

    NAME = "franka"
    LET_GO = "at rest, where it holds itself"
    sensed = ("joint_position", "joint_velocity")
    commanded = ("joint_target",)

    def __init__(self, robot: Any, *, uri: str = "") -> None:
        options: dict[str, Any] = {
            "rate": 200.0,
            "realtime": True,
            "torque_threshold": 20.0,
            "force_threshold": 30.0,
            "payload_tolerance": 0.3,
            "gripper": "",
            **OPTIONS,
        }
        given = parse_uri(uri, self.NAME, {"fci": _EXAMPLE}, options)
        checked_options(
            self.NAME,
            given.options,
            {
                "rate": (10.0, 1000.0),
                "torque_threshold": (1.0, 100.0),
                "force_threshold": (1.0, 100.0),
                "payload_tolerance": (0.0, 50.0),
            },
        )
        if not given.host or given.port:
            raise UserError(
                f"The URI '{uri}' is not allowed: the driver '{self.NAME}' takes an address without a port, {_EXAMPLE}."
            )
        turning = [joint for joint in robot.drives if joint.type == "revolute"] if robot.end_effector else []
        if len(turning) != _JOINTS or robot.drives[:_JOINTS] != tuple(turning):
            raise UserError(f"{robot.name} is not an arm with seven joints: the driver '{self.NAME}' moves those.")
        if given.options["gripper"] not in ("", "fixed"):
            raise UserError(f"The URI '{uri}' has gripper={given.options['gripper']}: must be fixed, or left out.")
        super().__init__(robot, given.options["rate"], Captures(robot, given.options))
        self._options, self._host = given.options, given.host
        self._joints, self._fingers = turning, robot.drives[_JOINTS:]
        stiffness, damping, effort, speed = (
            np.array([getattr(joint, what) for joint in turning])
            for what in ("stiffness", "damping", "effort_max", "velocity_max")
        )
        self._gains = {"stiffness": stiffness, "damping": damping}
        self._furthest = np.minimum(effort / stiffness, speed * damping / stiffness)
        """rad that a target may be ahead of its joint: what its effort and its speed allow."""
        self._ways: deque[float] = deque(maxlen=round(_WAY_S * given.options["rate"]))
        self._library: Any = None
        self._attempt: Attempt | None = None
        self._arm: Any = None
        self._motion: Any = None
        self._hand: Hand | None = None
        self._measured_s = 0.0
        self._mode = ""
        self._begun = False
        """Whether a motion was started since the last ``disarm`` whose end was not seen yet."""
        self._fallen = ""
        """Why the motion ended that nobody had ended; commands are refused until the next ``disarm``."""

    # Before anything moves ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._library = library = import_library("franky", "franka")
        if self._attempt is None or self._attempt.done:
            self._attempt = Attempt(self._connected)
        try:
            self._arm = self._attempt.result(_CONNECT_S)
            self._attempt = None
            self._same_arm()
            state = self._called(lambda: self._arm.state)
            self._same_payload(float(state.m_ee), float(state.m_load))
            if self._fingers and not self._options["gripper"]:
                self._hand = Hand(library, self._host, self._fingers)
        except UserError:
            raise
        except library.RealtimeException as error:
            raise UserError(
                f"This machine has no real-time kernel ({error}): install one (PREEMPT_RT), or give realtime=false,"
                " with which the arm stops whenever this machine is late."
            ) from error
        except Exception as error:  # of a dozen types without a common one
            raise UserError(
                f"The arm at {self._host} cannot be connected with: {error}. Are its joints unlocked and FCI activated"
                " in Desk, and is no other program connected?"
            ) from error
        self._ways.clear()
        self._measured_s = 0.0

    def _connected(self) -> Any:
        library, options = self._library, self._options
        config = library.RealtimeConfig.Enforce if options["realtime"] else library.RealtimeConfig.Ignore
        return library.Robot(
            self._host,
            default_torque_threshold=options["torque_threshold"],
            default_force_threshold=options["force_threshold"],
            realtime_config=config,
        )

    def _called(self, call: Callable[[], Any]) -> Any:
        """Return what a call of the library returns; whatever it raises is a lost link."""
        try:
            return call()
        except Exception as error:
            raise LinkLost(str(error)) from error

    def _same_arm(self) -> None:
        where = f"the model that the arm at {self._host} sends"
        theirs = read_urdf(self._arm.model_urdf, where)
        turning = [joint for joint in theirs.joints if joint.type == "revolute"]
        if len(turning) != _JOINTS:
            raise UserError(f"The arm at {self._host} has {len(turning)} joints, and {self.robot.name} has {_JOINTS}.")
        ours = {joint.name: joint for joint in robot_model(self.robot).seen_from("base_link").joints}
        for joint, found in zip(self._joints, turning):
            check_limits(self.robot.name, joint, found.lower, found.upper, found.velocity, "the arm")
            said = ours[joint.name]
            apart = found.position - said.position
            apart = apart - (apart @ said.axis) * said.axis
            if np.linalg.norm(apart) > _CLOSE_M or np.linalg.norm(found.axis - said.axis) > _CLOSE_RAD:
                places = [np.round(one.position, 3).tolist() for one in (found, said)]
                raise UserError(
                    f"The arm at {self._host} is not a {self.robot.name}: with all joints at zero the axis of"
                    f" {joint.name} passes {places[0]} m by the arm, and {places[1]} m by the robot file."
                )

    def _same_payload(self, hand: float, load: float) -> None:
        wanted = mass_behind(self.robot, moved_link(self.robot, self._joints[-1].name))
        if abs(hand + load - wanted) > self._options["payload_tolerance"]:
            raise UserError(
                f"The arm counts {hand:.2f} kg of end effector and {load:.2f} kg of load, and behind the flange of"
                f" {self.robot.name} the robot file has {wanted:.2f} kg: set the end effector in Desk."
            )

    # Every period ---------------------------------------------------------------------------------------------

    def _poll(self) -> Reading | None:
        if self._arm is None:
            raise LinkLost("it is not open")
        if self._hand is not None and self._hand.lost:
            raise LinkLost(self._hand.lost)
        state = self._called(lambda: self._arm.state)
        arrived, measured_s = time.time(), float(state.time.to_sec())
        self._judge(state)
        if measured_s == self._measured_s:
            return None
        self._measured_s = measured_s
        self._ways.append(arrived - measured_s)
        rest = np.array([finger.rest for finger in self._fingers])
        fingers = self._hand.state if self._hand is not None else (rest, 0.0 * rest)
        return Reading(
            min(measured_s + min(self._ways), arrived),
            {
                "joint_position": np.concatenate([np.array(state.q, dtype=float), fingers[0]]),
                "joint_velocity": np.concatenate([np.array(state.dq, dtype=float), fingers[1]]),
            },
        )

    def _judge(self, state: Any) -> None:
        self._mode = state.robot_mode.name
        hindered = hindrance(self._mode, error_names(state.current_errors))
        if self._begun and not self._arm.is_in_control:
            self._begun, self.powered, self._motion = False, False, None
            self._fallen = self._ended() or hindered or "its motion ended"
        if hindered and self._mode != REFLEX:
            self.trouble = f"{self.robot.name} does not move: {hindered}"
        elif self._fallen:
            why = self._fallen if hindered in self._fallen else f"{hindered}; {self._fallen}"
            self.trouble = f"{self.robot.name} has stopped: {why}; look why, disarm, then arm anew"
        else:
            self.trouble = ""  # a reflex is recovered from by the next command

    def _ended(self) -> str:
        """Return why the last motion ended, in libfranka's words."""
        try:
            self._arm.poll_motion()
        except Exception as error:
            return str(error)
        return ""

    # Moving ---------------------------------------------------------------------------------------------------

    def _limited(self, command: Array) -> Array:
        targets = clip_targets(self.robot.drives, command)
        at = self.read().signals["joint_position"][:_JOINTS]
        targets[:_JOINTS] = np.clip(targets[:_JOINTS], at - self._furthest, at + self._furthest)
        if self._fingers and self._hand is None:
            targets[_JOINTS:] = [finger.rest for finger in self._fingers]
        return targets

    def _power(self) -> None:
        """Start the loop, which holds the arm where it is."""
        if self._mode == REFLEX:
            _LOG.warning("%s: recovering from a reflex", self.NAME)
            if not self._called(lambda: Attempt(self._arm.recover_from_errors).result(_CONNECT_S)):
                raise UserError(f"{self.robot.name} does not recover from its error: see Desk.")
        self._ended()  # an error of a motion before is told once
        self._motion = self._library.JointImpedanceTrackingMotion(**self._gains)
        state = self._called(lambda: self._arm.state)
        self._motion.set_reference(self._library.JointReference(q=np.array(state.q)))
        self._called(lambda: self._arm.move(self._motion, asynchronous=True))
        self._begun = True

    def _send(self, command: Array) -> None:
        if self._motion is None:
            return
        self._motion.set_reference(self._library.JointReference(q=command[:_JOINTS]))
        if self._hand is not None:
            self._hand.want(command[_JOINTS:])

    def disarm(self) -> None:
        """Bring the arm to rest now, where it holds itself; the hand begins no motion. Drop what was not sent."""
        super().disarm()
        self._begun, self._fallen = False, ""

    def _unpower(self) -> None:
        arm, self._motion = self._arm, None
        if self._hand is not None:
            self._hand.rest()
        if arm is None or not arm.is_in_control:
            return
        end = time.monotonic() + _STOP_S
        while arm.is_in_control:  # a motion that is still starting does not hear the first stop
            if time.monotonic() > end:
                raise UserError(f"{self.robot.name} does not say that it has stopped.")
            self._called(lambda: Attempt(arm.stop).result(_STOP_S))
            try:
                arm.join_motion(_END_S)
            except Exception as error:  # that it was preempted is what was asked for
                _LOG.debug("%s: the motion ended: %s", self.NAME, error)

    def _shut(self) -> None:
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.close()
        self._arm = self._motion = None


BACKEND = FrankaArm

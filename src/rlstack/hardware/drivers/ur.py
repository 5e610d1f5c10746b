"""Universal Robots' arms by RTDE: ``rtde://192.168.0.10``."""

from __future__ import annotations

import random
import time
from collections import deque
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.joint_limits import check_limits
from rlstack.hardware.linked_robot import LinkedRobot, checked_options
from rlstack.hardware.payload import mass_behind, moved_link
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.ur.client_interface import ClientInterface, Configuration
from rlstack.hardware.ur.modes import hindrance
from rlstack.hardware.ur.program import RUNNING, SEQUENCE, STOP, TARGETS, TOKEN, follow
from rlstack.hardware.ur.session import RtdeSession
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Reading
from rlstack.robots.joints import clip_targets
from rlstack.robots.kinematics import chain_of, tool_motion

_OUTPUTS = (
    "timestamp",
    "actual_q",
    "actual_qd",
    "robot_mode",
    "safety_mode",
    "speed_scaling",
    "payload",
    RUNNING,
)
_INPUTS = (SEQUENCE, TOKEN, *TARGETS)
_OLDEST = (5, 11)
_START_S, _STOP_S = 5.0, 0.15
_CLOSE_M = 0.01
"""Calibration moves a flange by a few mm; another model by more than this."""
_ANGLE, _SPEED = 7.0, 30.0
"""What no joint of these arms reaches, rad and rad/s."""
_EXAMPLE = "rtde://192.168.0.10"


class UrArm(LinkedRobot):
    """One arm. Its first command starts a program in its controller, which follows targets by ``servoj``.

    Args:
        robot: The robot: six joints, from base to flange.
        uri: The controller's address and options.

    Raises:
        UserError: The URI or an option is refused, or the robot is not such an arm.
    """

    NAME = "ur"
    LET_GO = "at rest, where it holds itself"
    sensed = ("joint_position", "joint_velocity")
    commanded = ("joint_target",)

    def __init__(self, robot: Any, *, uri: str = "") -> None:
        options: dict[str, Any] = {
            "script_port": 30002,
            "rate": 125.0,
            "timeout": 0.25,
            "lookahead": 0.1,
            "gain": 300.0,
            "payload_tolerance": 0.3,
            "gripper": "",
            **OPTIONS,
        }
        given = parse_uri(uri, self.NAME, {"rtde": _EXAMPLE}, options)
        checked_options(
            self.NAME,
            given.options,
            {
                "script_port": (1, 65535),
                "rate": (10.0, 500.0),
                "timeout": (0.05, 1.0),
                "lookahead": (0.03, 0.2),
                "gain": (100.0, 2000.0),
                "payload_tolerance": (0.0, 50.0),
            },
        )
        if not given.host:
            raise UserError(f"The URI '{uri}' names no address: the driver '{self.NAME}' takes {_EXAMPLE}.")
        turning = [joint for joint in robot.drives if joint.type == "revolute"] if robot.end_effector else []
        if len(turning) != 6 or robot.drives[:6] != tuple(turning):
            raise UserError(f"{robot.name} is not an arm with six joints: the driver '{self.NAME}' moves those.")
        if given.options["gripper"] not in ("", "fixed"):
            raise UserError(f"The URI '{uri}' has gripper={given.options['gripper']}: must be fixed, or left out.")
        if len(robot.drives) > 6 and not given.options["gripper"]:
            raise UserError(
                f"The robot file of {robot.name} has a gripper, which RTDE does not move: give gripper=fixed, and its"
                " joints count as standing at rest_m whatever is commanded; or use a robot file without one."
            )
        super().__init__(robot, given.options["rate"], Captures(robot, given.options))
        self._options, self._host, self._port = given.options, given.host, given.port or 30004
        self._joints = turning
        self._fixed = np.array([joint.rest for joint in robot.drives[6:]])
        self._session: RtdeSession | None = None
        self._client = ClientInterface(given.host, given.options["script_port"])
        self._ways: deque[float] = deque(maxlen=round(10.0 * given.options["rate"]))
        self._sequence, self._token = 0, 0
        self._begun = False
        """Whether a program was sent since the last ``disarm``, running yet or not."""
        self._fallen = ""
        """Why the program ended that nobody had ended; commands are refused until the next ``disarm``."""
        self.state: dict[str, Any] = {}
        """The controller's last data package: ``robot_mode``, ``safety_mode``, ``speed_scaling`` and others."""

    # Before anything moves ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._session = session = RtdeSession(self._host, self._port, self._options["rate"], _OUTPUTS, _INPUTS)
        self._ways.clear()
        if session.version[:2] < _OLDEST:
            found = ".".join(str(part) for part in session.version[:2])
            raise UserError(
                f"The controller at {self._host} has PolyScope {found}; this driver needs"
                f" {'.'.join(str(part) for part in _OLDEST)} or newer."
            )
        self._same_arm(self._client.configuration())
        end = time.monotonic() + 2.0
        while self._poll() is None:
            if time.monotonic() > end:
                raise UserError(f"The controller at {self._host} sends no data packages.")
        self._same_payload(self.state["payload"])

    def _same_arm(self, found: Configuration) -> None:
        name = self.robot.name
        for k, joint in enumerate(self._joints):
            lower, upper, speed = found.lower[k], found.upper[k], found.velocity_max[k]
            check_limits(name, joint, lower, upper, speed, "the controller")
        flange = self._flange_link()
        chain = chain_of(self.robot, flange)
        for posture in np.array([[0.0] * 6, [0.3, -1.2, 1.5, -0.7, 0.9, 0.4], [-1.0, -0.6, -1.1, 0.5, -1.4, 2.0]]):
            theirs = found.flange(posture)
            ours = tool_motion(chain.screws, posture[None]).position[0]
            each = [np.array([np.hypot(place[0], place[1]), place[2]]) for place in (theirs, ours)]
            if np.abs(each[0] - each[1]).max() > _CLOSE_M:
                raise UserError(
                    f"The arm at {self._host} is not a {name}: with its joints at {posture.tolist()} the flange is"
                    f" {each[0][0]:.3f} m from its axis and {each[0][1]:.3f} m high by the controller, and"
                    f" {each[1][0]:.3f} and {each[1][1]:.3f} m by the robot file."
                )

    def _flange_link(self) -> str:
        return moved_link(self.robot, self._joints[-1].name)

    def _same_payload(self, found: float) -> None:
        wanted = mass_behind(self.robot, self._flange_link())
        if abs(found - wanted) > self._options["payload_tolerance"]:
            raise UserError(
                f"The controller's payload is {found:.2f} kg, and behind the flange of {self.robot.name} the robot file"
                f" has {wanted:.2f} kg: set the payload on the pendant (Installation > Payload)."
            )

    # Every period ---------------------------------------------------------------------------------------------

    def _poll(self) -> Reading | None:
        found = self._there.latest(0.5 * self._period_s)
        if found is None:
            return None
        arrived = time.time()
        position, velocity = np.array(found["actual_q"]), np.array(found["actual_qd"])
        if np.abs(position).max() > _ANGLE or np.abs(velocity).max() > _SPEED:
            raise LinkLost("joints are measured where no joint can be")
        self.state = found
        self._judge()
        self._ways.append(arrived - found["timestamp"])
        return Reading(
            min(found["timestamp"] + min(self._ways), arrived),
            {
                "joint_position": np.concatenate([position, self._fixed]),
                "joint_velocity": np.concatenate([velocity, 0.0 * self._fixed]),
            },
        )

    def health(self) -> tuple[str, dict[str, Any]]:
        """Return why it does not move, and what its controller says of itself."""
        known = ("robot_mode", "safety_mode", "speed_scaling", "payload")
        return self.trouble, {name: self.state[name] for name in known if name in self.state}

    @property
    def _there(self) -> RtdeSession:
        if self._session is None:
            raise LinkLost("it is not open")
        return self._session

    @property
    def _runs(self) -> bool:
        return bool(self._token) and self.state.get(RUNNING) == self._token

    def _judge(self) -> None:
        hindered = hindrance(self.state["safety_mode"], self.state["robot_mode"])
        if hindered and (self._begun or self._fallen):
            self._fallen = hindered
        elif self.powered and not self._runs and not self._fallen:
            self._fallen = "its program was stopped on the pendant, or commands ceased"
        self.powered = self.powered and self._runs
        if hindered:
            self.trouble = f"{self.robot.name} does not move: {hindered}"
        elif self._fallen:
            self.trouble = f"{self.robot.name} has stopped: {self._fallen}; disarm, then arm anew"
        else:
            self.trouble = ""

    # Moving ---------------------------------------------------------------------------------------------------

    def _limited(self, command: Array) -> Array:
        return np.concatenate([clip_targets(self._joints, command[:6]), self._fixed])

    def _tell(self, targets: Array, token: int) -> None:
        self._sequence = self._sequence % 1_000_000 + 1
        numbers = {name: float(target) for name, target in zip(TARGETS, targets)}
        self._there.send({SEQUENCE: self._sequence, TOKEN: token, **numbers})

    def _power(self) -> None:
        """Start the program, which holds the arm where it is."""
        self._begun = True
        self._token = random.randrange(1, 1 << 30)  # no number of a program that still runs
        self._tell(np.array(self.state["actual_q"]), self._token)
        speeds = [joint.velocity_max for joint in self._joints]
        options = self._options
        program = follow(self._token, speeds, options["timeout"], options["lookahead"], options["gain"])
        with self._client.running(program):
            self._await_program()

    def _await_program(self) -> None:
        end = time.monotonic() + _START_S
        while not self._runs or self._fallen or not self._begun:
            if self._fallen or not self._begun:
                raise UserError(f"{self.robot.name}: {self._fallen or 'it was disarmed while its program started'}.")
            if time.monotonic() > end:
                self._fallen = (
                    f"it did not start the program within {_START_S:g} s: set it to Remote Control on the pendant"
                    f" {self._there.told}"
                ).strip()
                continue
            self._note(self._poll())
            self._tell(np.array(self.state["actual_q"]), self._token)

    def _send(self, command: Array) -> None:
        self._tell(command[:6], self._token)

    def disarm(self) -> None:
        """Bring the arm to rest now, where it stays powered and holds itself, and drop a command not sent yet."""
        self._begun = False  # a start of the program that is under way gives up, and with it the link
        super().disarm()
        self._fallen = ""

    def _unpower(self) -> None:
        """Take back the number that the program needs; a program that goes on all the same is replaced."""
        if self._session is None or not self._token:
            return
        try:
            self._tell(np.array(self.state["actual_q"]), 0)
            self._await_end()
        except LinkLost:  # the client interface may still be there
            with self._client.running(STOP):
                time.sleep(_STOP_S)
            raise
        if self._runs:
            with self._client.running(STOP):
                self._await_end()

    def _await_end(self) -> None:
        end = time.monotonic() + _STOP_S
        while self._runs and time.monotonic() < end:
            self._note(self._poll())

    def _shut(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


BACKEND = UrArm

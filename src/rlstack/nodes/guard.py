"""The guard node: between the policy and the actuators, and the only one that commands them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rlstack.guard import Decision, Guard, GuardConfig, Mode
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Array
from rlstack.interfaces.messages import NANOSECONDS, RotorMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED, SENSED
from rlstack.interfaces.timing import StampClock
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.robots import load_quadrotor

JUMP_NS = NANOSECONDS // 2
"""Stamps that go back, or ahead by more than this, mean another flight."""

STEADY = 10
"""Observations in a row, in time, before it arms without being asked: while all is starting, some come late."""

_TIMER_SLACK_S = 0.0005
_NAN = math.nan
_OFF = (Mode.DISARMED, Mode.ESTOP)
_OWN = "the robot file's limit if not given"

_CONFIG = (
    Parameter("tilt_rad", _NAN, f"Largest tilt, rad; {_OWN}.", minimum=0, maximum=3.15, nan=True),
    Parameter("linear_velocity_m_s", _NAN, f"Largest speed, m/s; {_OWN}.", minimum=0, nan=True),
    Parameter("angular_velocity_rad_s", _NAN, f"Largest angular velocity, rad/s; {_OWN}.", minimum=0, nan=True),
    Parameter(
        "rotor_acceleration_rad_s2",
        _NAN,
        f"Fastest change of a rotor speed command, rad/s^2; {_OWN}.",
        minimum=0,
        nan=True,
    ),
    Parameter("geofence_min_m", (_NAN, _NAN, _NAN), f"Lower corner of the geofence, m in odom; {_OWN}.", nan=True),
    Parameter("geofence_max_m", (_NAN, _NAN, _NAN), f"Upper corner of the geofence, m in odom; {_OWN}.", nan=True),
    Parameter("staleness_periods", 2.0, "Control periods from which a policy's command is stale.", minimum=1.0),
    Parameter("observation_timeout_s", 0.2, "Longest time without an observation, s.", minimum=0.001),
    Parameter("hover_before_landing_s", 5.0, "How long the fallback hovers before it lands, s.", minimum=0.0),
    Parameter("recover_after_s", 1.0, "How long a late policy must be in time before it flies again, s.", minimum=0.0),
    Parameter("takeoff_height_m", 1.0, "Height above the ground at which the policy takes over, m.", minimum=0.01),
    Parameter("landing_speed_m_s", 0.3, "Descent of the fallback, m/s.", minimum=0.01),
    Parameter("floor_m", 0.0, "Height of the floor in odom, m."),
)

PARAMETERS = (
    Parameter("robot", "crazyflie", "Name of the robot, or the path of its YAML file."),
    Parameter("lock_step", False, "Simulated time waits for every command."),
    Parameter("auto_arm", False, "Arm without being asked, once, when observations are steady and the policy answers."),
    Parameter("allow_wider", False, "Let limits be wider than the robot file's: for simulated tests."),
    Parameter(
        "policy_timeout_s",
        1.0,
        "In lock step, seconds of real time without the policy's answer after which the fallback flies.",
        minimum=0.05,
        maximum=600.0,
        live=True,
    ),
    *_CONFIG,
)


class GuardNode(ManagedNode):
    """Passes the policy's commands on while everything is within its limits, and flies the robot itself when not.

    In lock step it answers every observation exactly once: when the policy has, or without it while the policy is gone.

    Args:
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__("guard", PARAMETERS, overrides, **options)

    def configure(self) -> None:
        """Read the limits and make the topics."""
        from std_srvs.srv import SetBool, Trigger

        robot = load_quadrotor(self.parameters["robot"])
        config = GuardConfig.from_robot(robot, allow_wider=self.parameters["allow_wider"], **self._overrides())
        self.guard = Guard(robot, config)
        self._rotors = len(robot.rotors)
        self._lock_step = self.parameters["lock_step"]
        odometry, command = topics.type_of(topics.ODOM), topics.type_of(topics.ROTOR_COMMAND)
        names = ("position", "orientation", "linear_velocity", "angular_velocity")
        self._read_odometry = SignalReader(odometry, {name: SENSED[name].field for name in names})
        rotors = {"rotor_speed": robot.rotor_names}
        self._read_command = SignalReader(command, {"rotor_speed": COMMANDED["rotor_speed"].field}, rotors)
        self._message = RotorMessage(command(), robot.rotor_names)
        self._commands = self.publisher(command, topics.ROTOR_COMMAND, "command")
        self._modes = self.publisher(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, "latched")
        quality: topics.Quality = "sensor_in_reliable" if self._lock_step else "sensor_in"
        self.subscriber(odometry, topics.ODOM, self._on_odometry, quality, raw=True)
        self.subscriber(command, topics.POLICY_PREFIX + topics.ROTOR_COMMAND, self._on_policy, "command", raw=True)
        self.server(SetBool, topics.ARM, self._on_arm)
        self.server(Trigger, topics.ESTOP, self._on_estop)
        self.server(Trigger, topics.CLEAR_ESTOP, self._on_clear_estop)
        self._counts = dict.fromkeys(("observations", "policy commands", "clipped", "refused"), 0)
        self._origin_ns: int | None = None
        self._observed_ns = -1
        self._auto_arm_left = False
        self._mode: Mode | None = None
        self._reason = ""

    def activate(self) -> None:
        """Begin to guard, disarmed."""
        self._stamps = StampClock()
        self._origin_ns, self._observed_ns = None, -1
        self._policy_there = False
        self._auto_arm_left = self.parameters["auto_arm"]
        self._waiting: tuple[int, Decision] | None = None  # lock step: observation that the policy has not answered
        self._waiting_since = 0.0
        self._early: tuple[int, Array] | None = None  # lock step: an answer that overtook its observation
        self._answered: tuple[int, Decision] | None = None
        self._mode, self._reason = None, ""
        self._show_mode(self.guard.mode, "just started" if self.guard.mode is Mode.DISARMED else self.guard.reason)
        # In real time the timer starts again with every command that is passed on, so it fires when one is late.
        self._timer = self.every(
            0.05 if self._lock_step else self.guard.config.staleness_s + _TIMER_SLACK_S, self._on_timer
        )

    def deactivate(self) -> None:
        """Disarm, and say so to the robot at once."""
        self._send(self.guard.disarm("the guard was stopped"))

    def status(self) -> tuple[str, dict[str, Any]]:
        """Say who flies and why."""
        warning = self._reason if self._mode in (Mode.HOVER, Mode.LAND, Mode.ESTOP) else ""
        return warning, {
            "mode": str(self._mode),
            "reason": self._reason,
            "interventions": self.guard.interventions,
            **self._counts,
        }

    def _overrides(self) -> dict[str, Any]:
        known = {field.name for field in fields(GuardConfig)}
        given = {p.name: self.parameters[p.name] for p in _CONFIG if p.name in known}
        return {name: value for name, value in given.items() if not np.isnan(value).any()}

    # Messages ------------------------------------------------------------------------------------------------

    def _on_odometry(self, data: bytes) -> None:
        if not self.active:
            return
        stamp, signals = self._read_odometry(data)
        self._stamps.observe(stamp, time.monotonic_ns(), time.time_ns())
        if stamp == self._observed_ns:
            if self._answered is not None and self._answered[0] == stamp:
                self._publish(self._answered[1])  # the robot did not hear the answer
            return
        if self._observed_ns >= 0 and not 0 < stamp - self._observed_ns <= JUMP_NS:
            self._begin_another_flight()
        if self._origin_ns is None:
            self._origin_ns = stamp
        self._observed_ns = stamp
        self._counts["observations"] += 1
        decision = self.guard.on_observation(self._now_s(), self._seconds(stamp), signals)
        if not self._lock_step:
            self._send(decision)
            return
        if not self._policy_there and self._has_flown():
            self._answer(stamp, decision, decision)
            return
        self._waiting, self._waiting_since = (stamp, decision), time.monotonic()
        self._note(decision)
        if self._early is not None and self._early[0] == stamp:
            self._take_policy(*self._early)

    def _on_policy(self, data: bytes) -> None:
        if not self.active:
            return
        self._counts["policy commands"] += 1
        try:
            stamp, command = self._read_command(data)
            speed = command["rotor_speed"]
        except ValueError as error:
            self._counts["refused"] += 1
            self.warn(f"A command on {topics.POLICY_PREFIX}{topics.ROTOR_COMMAND} was refused: {error}.", "refused")
            stamp, speed = self._observed_ns, np.full(self._rotors, _NAN)  # the guard's rule for no number applies
        if not self._lock_step:
            self._take_policy(stamp, speed)
        elif stamp > self._observed_ns:
            self._early = (stamp, speed)
        elif self._waiting is not None and stamp == self._waiting[0]:
            self._take_policy(stamp, speed)
        elif stamp == self._observed_ns:
            self._policy_there = True  # it is back, or says it again; from the next observation on it is waited for

    def _take_policy(self, stamp: int, speed: Array) -> None:
        if self._origin_ns is None:
            return
        self._policy_there = True
        if self._may_auto_arm(speed):
            armed, why = self.guard.arm(self._now_s())
            self._auto_arm_left = not armed
            if armed:
                self._show_mode(self.guard.mode, self.guard.reason)
            else:
                self.warn(f"Not armed: {why}", "arm")
        decision = self.guard.on_policy_command(self._now_s(), self._seconds(stamp), speed)
        if not self._lock_step:
            self._send(decision)
        elif self._waiting is not None:
            self._answer(stamp, decision, self._waiting[1])

    def _may_auto_arm(self, speed: Array) -> bool:
        # A robot that had not left the ground when it went out of sight may begin again.
        asked = self._auto_arm_left or (self.parameters["auto_arm"] and self.guard.stopped_unseen)
        answers = speed.shape == (self._rotors,) and bool(np.isfinite(speed).all())
        return asked and answers and (self._lock_step or self.guard.in_a_row >= STEADY)

    def _on_timer(self) -> None:
        if self._origin_ns is None:
            return
        if not self._lock_step:
            self._send(self.guard.on_tick(self._now_s()))
        elif (
            self._waiting is not None
            and self._has_flown()
            and time.monotonic() - self._waiting_since > self.parameters["policy_timeout_s"]
        ):
            self._policy_there = False
            stamp, observed = self._waiting
            self._answer(stamp, self.guard.policy_missing(self._seconds(stamp)), observed)

    # Services ------------------------------------------------------------------------------------------------

    def _on_arm(self, request: Any, response: Any) -> Any:
        if not self.active or self._origin_ns is None:
            response.message = "No observation has come yet, or the guard is not active."
        elif request.data:
            response.success, response.message = self.guard.arm(self._now_s())
            self._show_mode(self.guard.mode, self.guard.reason)
        else:
            self._auto_arm_left = False
            self._send(self.guard.disarm("asked to"))
            response.success, response.message = True, "Disarmed."
        return response

    def _on_estop(self, request: Any, response: Any) -> Any:
        self._auto_arm_left = False
        self._send(self.guard.estop("asked to"))
        response.success, response.message = True, "Motors off. Call clear_estop, then arm."
        return response

    def _on_clear_estop(self, request: Any, response: Any) -> Any:
        response.success, response.message = self.guard.clear_estop()
        self._show_mode(self.guard.mode, self.guard.reason)
        return response

    # Answers -------------------------------------------------------------------------------------------------

    def _answer(self, stamp: int, decision: Decision, observed: Decision) -> None:
        """Lock step: answer the observation, once; motors off is an answer too, for time to go on.

        Args:
            stamp: Of the observation.
            decision: On the policy's command, or on its absence; what the guard says then goes first.
            observed: On the observation; the guard's own command while it flies, or "off" if it was armed since.
        """
        said = decision if decision.command is not None or decision.mode in _OFF else observed
        self._note(decision)
        if said.command is None and said.mode not in _OFF:
            return  # nothing to pass on: what the policy does next, or its time-out, answers
        self._waiting, self._early = None, None
        self._answered = (stamp, said)
        self._publish(said)

    def _send(self, decision: Decision) -> None:
        self._publish(decision)
        self._note(decision)

    def _publish(self, decision: Decision) -> None:
        if decision.mode in _OFF:
            if self._lock_step or decision.command is not None or decision.mode != self._mode:
                self._commands.publish(self._message.fill_off(max(self._observed_ns, 0)))
        elif decision.command is not None:
            stamp = self._observed_ns if self._lock_step else self._nanoseconds(decision.stamp_s)
            self._commands.publish(self._message.fill(stamp, decision.command))
            self._counts["clipped"] += decision.clipped
            if not self._lock_step:
                self._timer.reset()

    def _note(self, decision: Decision) -> None:
        if decision.mode != self._mode:
            self._show_mode(decision.mode, decision.reason)

    def _show_mode(self, mode: Mode, reason: str) -> None:
        if mode == self._mode:
            return
        if self._mode is not None:
            sentence = f"{self._mode} -> {mode}: {reason}"
            if mode in (Mode.POLICY, Mode.TAKEOFF):
                self.get_logger().info(sentence)
            else:
                self.get_logger().warning(sentence)
        self._mode, self._reason = mode, reason
        message = topics.type_of(topics.GUARD_MODE)()
        message.data = str(mode)
        self._modes.publish(message)

    def _begin_another_flight(self) -> None:
        """Stamps jumped: the robot was reset, or its clock was. Nothing of the flight before may act on the next."""
        self._note(self.guard.disarm("the robot's time jumped"))
        self._auto_arm_left = self.parameters["auto_arm"]
        self._waiting, self._early, self._answered = None, None, None

    # Time ----------------------------------------------------------------------------------------------------

    def _has_flown(self) -> bool:
        return self._answered is not None

    def _now_s(self) -> float:
        if self._lock_step:
            return self._seconds(self._observed_ns)
        now = self._stamps.now_ns(time.monotonic_ns(), time.time_ns())
        return self._seconds(self._observed_ns if now is None else now)

    def _seconds(self, stamp_ns: int) -> float:
        # From the first stamp on, so that floats keep nanoseconds apart even when stamps count from 1970.
        return (stamp_ns - (self._origin_ns or 0)) / NANOSECONDS

    def _nanoseconds(self, stamp_s: float) -> int:
        return (self._origin_ns or 0) + round(stamp_s * NANOSECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the guard node; return the exit status."""
    return run_nodes(GuardNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())

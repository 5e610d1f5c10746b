"""Fallback of a quadrotor's guard: take-off, hover and landing with the classical controller."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.control.hover import LEAD_M, LONGEST_STEP_S, Descent, HoverController
from rlstack.control.hover_rates import RatesHoverController
from rlstack.guard.guard import LimitedCommand
from rlstack.guard.observation import Observation
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.guard_limits import CommandLimiter, stopping_m
from rlstack.kinds.quadrotor.guard_prediction import StatePrediction
from rlstack.kinds.quadrotor.spec import Quadrotor

FENCE_MARGIN_M = 0.1
"""Margin inside the geofence for the guard's own goals."""


class HoverFallback:
    """Climbs, hovers and descends with the classical controller; its limiter limits the policy's commands, too."""

    def __init__(self, robot: Quadrotor, config: QuadrotorGuardConfig) -> None:
        self._config = config
        self._motors = HoverController(robot) if robot.rate_loop is None else None
        """The controller by rotor speeds, with its model of the motors; None: by rates."""
        self._controller: HoverController | RatesHoverController = self._motors or RatesHoverController(robot)
        self._prediction = StatePrediction(robot)
        self.limiter = CommandLimiter(robot, config)
        """Limiter for all commands."""
        self._low, self._hover_speed = robot.rotor_model.speed_min_rad_s, robot.hover_speed_rad_s
        self._motors_t = self._flown_t = 0.0
        self.goal: list[float] = [0.0, 0.0, 0.0]
        """Its goal (3,) m, world."""
        self._top = 0.0
        self._yaw = 0.0
        self._descent: Descent | None = None

    def start(self, t: float, flying: bool) -> None:
        """Start at ``t`` with rotors at rest, or at hover speed when the robot is flying."""
        self._controller.forget_integral()
        self.limiter.start(t, flying)
        if self._motors is not None:
            self._motors.reset(self._hover_speed if flying else self._low)
            self._motors.sent(self.limiter.sent)
        self._motors_t = self._flown_t = t
        self._prediction.start(t, self._driving)

    def pass_on(self, t: float, wanted: list[float]) -> LimitedCommand:
        """Return a desired command within the limits."""
        self._follow(t)
        self._flown_t = t
        return self._limit(t, wanted)

    def adopt(self, config: QuadrotorGuardConfig) -> None:
        """Take a configuration that differs in its limits: the goal moves inside the fence.

        Only the height of a climb does, so that a robot on the floor is not dragged, and nothing of a descent, which
        goes straight down.
        """
        self._config = config
        if self._descent is not None:
            return
        climbs, top = self.goal[2] < self._top, self._inside(self._top, 2)
        self.goal = [*self.goal[:2], min(self.goal[2], top)] if climbs else [*self._inside_fence(self.goal[:2]), top]
        self._top = top

    def climb(self, seen: Observation, height_m: float) -> None:
        """Set the goal ``height_m`` above the present position."""
        self._take(seen)
        self.goal = list(seen.position)
        self._top = self._inside(seen.position[2] + height_m, 2)

    def hold(self, seen: Observation) -> None:
        """Set the goal to the present position and heading, moved inside the fence and off the floor."""
        self._take(seen)
        self.goal = self._inside_fence(seen.position)
        self.goal[2] = max(self.goal[2], self._config.floor_m + self._config.airborne_height_m)
        self._top = self.goal[2]

    def turn_back(self, seen: Observation) -> None:
        """Set the goal to where the robot can stop, moved inside the fence and off the floor."""
        self._take(seen)
        config = self._config
        moving = zip(seen.position, seen.linear_velocity)
        stops = [p + math.copysign(stopping_m(abs(v), 0.0, config), v) for p, v in moving]
        self.goal = self._inside_fence(stops, config.inside_m)
        self.goal[2] = max(self.goal[2], config.floor_m + config.airborne_height_m)
        self._top = self.goal[2]

    def observe(self, t: float, seen: Observation, measured_t: float, flying: bool) -> None:
        """Learn from a new observation what the rotors give, whoever commands them."""
        if self._motors is None:
            return
        self._follow(t)
        effectiveness = self._motors.effectiveness
        if flying:
            self._motors.observe(seen.angular_velocity, t - measured_t)
        else:
            effectiveness.pause()
        self._prediction.effectiveness = effectiveness.shares

    def predicted(self, t: float, newest: Observation, measured_t: float) -> Observation:
        """Return the state at ``t`` that follows from an observation and the commands since it was measured."""
        self._follow(t)
        return self._prediction.at(t, newest, measured_t)

    def _follow(self, t: float) -> None:
        """Advance the estimate of what drives the robot, under the last command."""
        if self._motors is not None:
            self._motors.follow(t - self._motors_t)
        self._motors_t = t
        self._prediction.drove(t, self._driving)

    @property
    def _driving(self) -> Array:
        """(4,) The rotors' estimated speeds, rad/s, or the rates and thrust that were sent."""
        return np.array(self.limiter.sent) if self._motors is None else self._motors.mixer.speed[0]

    def hold_top(self) -> None:
        """Set the goal to the end of the climb, moved inside the fence."""
        self.goal = [*self._inside_fence(self.goal[:2]), self._top]

    def descend(self) -> None:
        """Start the descent at the goal."""
        self._descent = Descent(self.goal, self._config.landing_speed_m_s)

    def land(self, seen: Observation) -> None:
        """Start the descent where the robot is."""
        self.hold(seen)
        self.goal[2] = min(self.goal[2], seen.position[2])
        self.descend()

    def below_top_m(self, seen: Observation) -> float:
        """Return the distance to the end of the climb, m."""
        return math.dist(seen.position, [*self.goal[:2], self._top])

    def fly(self, t: float, seen: Observation, measured: Observation) -> tuple[LimitedCommand, bool]:
        """Return the command for a state, and whether the robot has landed, which no prediction can tell.

        Args:
            t: Now, s, monotonic.
            seen: The state now, perhaps predicted.
            measured: The newest observation.
        """
        dt, self._flown_t = max(0.0, t - self._flown_t), t
        self._follow(t)
        landed, pace = False, 0.0
        path_dt = min(dt, LONGEST_STEP_S)  # a gap in time must not make the goal jump
        if self._descent is not None:
            landed = self._descent.step(measured.position, measured.linear_velocity, path_dt)
            self.goal, pace = self._descent.goal, -self._config.landing_speed_m_s
        elif self.goal[2] < self._top:
            pace = self._config.takeoff_speed_m_s
            self.goal[2] = min(self.goal[2] + pace * path_dt, self._top, seen.position[2] + LEAD_M)
        state = (seen.position, seen.orientation, seen.linear_velocity, seen.angular_velocity)
        aim = (self.goal, self._yaw, dt, (0.0, 0.0, pace))
        if self._motors is None:
            wanted = self._controller.command(*state, *aim)
        else:
            wanted = self._motors.command(*state, *aim, motors_dt=0.0)
        return self._limit(t, wanted.tolist()), landed

    def _take(self, seen: Observation) -> None:
        self._controller.forget_integral()
        self._descent = None
        self._yaw = seen.yaw_rad

    def _inside_fence(self, place: Sequence[float], margin_m: float = FENCE_MARGIN_M) -> list[float]:
        """Return the first axes of a place, moved inside the fence."""
        return [self._inside(p, axis, margin_m) for axis, p in enumerate(place)]

    def _inside(self, place: float, axis: int, margin_m: float = FENCE_MARGIN_M) -> float:
        low, high = self._config.geofence_min_m[axis], self._config.geofence_max_m[axis]
        margin = min(margin_m, 0.5 * (high - low))
        return min(max(place, low + margin), high - margin)

    def _limit(self, t: float, wanted: list[float]) -> LimitedCommand:
        limited = self.limiter.limit(t, wanted)
        if self._motors is not None:
            self._motors.sent(self.limiter.sent)
        return limited

"""A closed loop: reference quadrotor, guard, and a policy that can be swapped or killed while it flies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlstack.control.hover import HoverController, HoverGains
from rlstack.control.hover_rates import RatesHoverController
from rlstack.guard import Decision, Mode
from rlstack.kinds.quadrotor.guard import QuadrotorGuard
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from tests.support.flights import measure
from tests.support.rates_quadrotor import RatesQuadrotor
from tests.support.reference import ReferenceQuadrotor

Array = NDArray[np.float64]
Policy = Callable[[dict[str, Array]], Array]


def good_policy(robot: Quadrotor, goal: tuple[float, float, float], speed_m_s: float = 1.0) -> Policy:
    """Return a policy that flies to ``goal``: the classical controller stands in for a learned one."""
    gains = HoverGains.for_robot(robot, speed_m_s=speed_m_s)
    if robot.rate_loop is not None:
        controller: HoverController | RatesHoverController = RatesHoverController(robot, gains)
    else:
        controller = by_rotors = HoverController(robot, gains)
        by_rotors.reset()

    def act(seen: dict[str, Array]) -> Array:
        velocity = frames.rotate(seen["orientation"], seen["linear_velocity"])
        return controller.command(
            seen["position"],
            seen["orientation"],
            velocity,
            seen["angular_velocity"],
            goal,
            0.0,
            1.0 / robot.control_rate_hz,
        )

    return act


class Loop:
    """Runs period by period: observation, policy, tick, physics; keeps what happened.

    ``plant`` is the robot that flies, if it is not quite the guard's; observations come ``late_s`` after their stamps.
    """

    def __init__(
        self,
        guard: QuadrotorGuard,
        start: tuple[float, float, float],
        floor_m: float = 0.0,
        plant: Quadrotor | None = None,
    ) -> None:
        self.guard, self.robot = guard, guard.robot
        make = ReferenceQuadrotor if guard.robot.rate_loop is None else RatesQuadrotor
        self.quad = make(plant or guard.robot, step_s=5e-3, floor_m=floor_m)
        self.late_s = 0.0
        self._on_the_way: deque[tuple[float, dict[str, Array]]] = deque()
        self.quad.state["position"] = np.array(start)
        if start[2] > guard.config.airborne_height_m:
            self.quad.state["rotor_speed"] = np.full(4, guard.robot.hover_speed_rad_s)
        flies = start[2] > guard.config.airborne_height_m
        self.applied = guard.robot.hover_command if flies else np.zeros(4)
        self.random = np.random.default_rng(0)
        self.modes: list[Mode] = []
        self.positions: list[Array] = []
        self.tilts: list[float] = []
        self.speeds: list[float] = []
        self.decisions: list[Decision] = []

    @property
    def time_s(self) -> float:
        return self.quad.time_s

    def _publish(self, decision: Decision) -> None:
        self.decisions.append(decision)
        if decision.command is not None:
            self.applied = decision.command

    def observe(self) -> dict[str, Array]:
        self._on_the_way.append((self.time_s, measure(self.quad, self.random)))
        seen = self._on_the_way[0][1]
        while self._on_the_way and self._on_the_way[0][0] <= self.time_s - self.late_s + 1e-6:
            stamp_s, seen = self._on_the_way.popleft()
            self._publish(self.guard.on_observation(self.time_s, stamp_s, seen))
        return seen

    def run(self, seconds: float, policy: Policy | None, until: Mode | None = None) -> None:
        """Fly on; with ``policy`` None nothing sends policy commands; stop early when the mode is ``until``."""
        period = 1.0 / self.robot.control_rate_hz
        for _ in range(round(seconds / period)):
            seen = self.observe()
            if policy is not None:
                self._publish(self.guard.on_policy_command(self.time_s, self.time_s, policy(seen)))
            self._publish(self.guard.on_tick(self.time_s))
            state = self.quad.step(self.applied, period)
            self.modes.append(self.guard.mode)
            self.positions.append(state["position"].copy())
            self.tilts.append(float(frames.tilt(state["orientation"])))
            self.speeds.append(float(np.linalg.norm(state["linear_velocity"])))
            if self.guard.mode is until:
                break

    def transitions(self) -> list[Mode]:
        """Return the modes in order, each change once."""
        return [m for i, m in enumerate(self.modes) if i == 0 or m is not self.modes[i - 1]]

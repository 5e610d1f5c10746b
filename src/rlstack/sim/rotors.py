"""The rotors of one robot in numpy, shared by every engine: delay, motor lag, thrust and torque."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import Quadrotor
from rlstack.sim.perturbation import Perturbation

Array = NDArray[np.float64]


class RotorGroup:
    """Rotor speeds that follow commands with delay and a first-order lag, and the force and torque they make.

    The lag is solved exactly over a step with a constant command. A command acts from the step that begins
    nearest to its arrival plus the delay.

    Args:
        robot: Whose rotors.
        step_s: Physics step, s.
        gyroscopic: Whether the rotors' angular momentum h acts on the body: -w x h for turning the spinning rotors
            with it, and -dh/dt for changing their speed.
    """

    def __init__(self, robot: Quadrotor, step_s: float, *, gyroscopic: bool = False) -> None:
        self._model = robot.rotor_model
        self._positions = robot.rotor_positions
        self._signs = robot.yaw_torque_signs
        self._step_s = step_s
        self._gyroscopic = gyroscopic
        self.speed: Array = np.zeros(len(robot.rotors))
        """(rotors,) rad/s, now."""
        self._gain: Array = np.zeros(len(robot.rotors))  # of speed over the last step, rad/s
        self._target: Array = np.zeros(len(robot.rotors))
        self._waiting: deque[tuple[int, Array]] = deque()  # (step it acts from, command), in order of arrival
        self._steps = 0
        self.perturb(Perturbation.none(1, len(robot.rotors)))

    def perturb(self, perturbation: Perturbation) -> None:
        """Take the rotors' departures from the file out of a perturbation of one robot; speeds and commands stay."""
        rise = self._model.rise_time_constant_s * float(perturbation.time_constant_scale[0, 0])
        fall = self._model.fall_time_constant_s * float(perturbation.time_constant_scale[0, 1])
        # What is left of the distance to the command after half a step and after a whole one.
        self._keep_rise = math.exp(-0.5 * self._step_s / rise), math.exp(-self._step_s / rise)
        self._keep_fall = math.exp(-0.5 * self._step_s / fall), math.exp(-self._step_s / fall)
        self._thrust_scale = np.array(perturbation.thrust_scale[0], dtype=float)
        x, y = self._positions[:, :2].T * perturbation.arm_scale[0, :, None]
        yaw = self._signs * self._model.torque_per_thrust_m * float(perturbation.torque_scale[0])
        self._mixing = np.stack([np.ones_like(x), y, -x, yaw])  # (thrust, torque xyz) of each newton
        self._spin = -self._signs * self._model.spin_inertia_kg_m2  # angular momentum about z of each rad/s
        self._delay_steps = round(float(perturbation.delay_s[0]) / self._step_s)

    def reset(self, speed: Array) -> None:
        """Set the speeds (rotors,) in rad/s; until the first command acts the motors hold them."""
        self.speed = np.array(speed, dtype=float)
        self._target, self._gain = self.speed.copy(), np.zeros_like(self.speed)
        self._waiting.clear()

    def command(self, speed: Array) -> None:
        """Ask for speeds (rotors,) in rad/s, which must be within the rotors' range."""
        self._waiting.append((self._steps + self._delay_steps, np.array(speed, dtype=float)))

    def stop(self) -> None:
        """Cut the motors now, without the delay; commands on their way are dropped."""
        self._waiting.clear()
        self._target = np.zeros_like(self.speed)

    def advance(self) -> Array:
        """Let one physics step pass; return the speeds (rotors,) in rad/s at its middle."""
        while self._waiting and self._waiting[0][0] <= self._steps:
            self._target = self._waiting.popleft()[1]
        self._steps += 1
        before, gap = self.speed, self.speed - self._target
        half: float | Array
        whole: float | Array
        half, whole = self._keep_rise
        if self._keep_fall != self._keep_rise:
            rising = gap < 0.0
            half, whole = np.where(rising, half, self._keep_fall[0]), np.where(rising, whole, self._keep_fall[1])
        self.speed = self._target + gap * whole
        self._gain = self.speed - before
        return np.asarray(self._target + gap * half)

    def wrench(self, speed: Array, angular_velocity: Array) -> tuple[float, Array]:
        """Return the collective thrust along body z in N and the torque (3,) on the body in N m, body frame.

        Args:
            speed: (rotors,) rad/s; with the gyroscopic term its change is that of the last step.
            angular_velocity: (3,) rad/s of the body, body frame.
        """
        mixed = self._mixing @ (self._model.thrust(speed) * self._thrust_scale)
        torque = mixed[1:]
        if self._gyroscopic:
            momentum = float(self._spin @ speed)
            torque[0] -= angular_velocity[1] * momentum
            torque[1] += angular_velocity[0] * momentum
            torque[2] -= float(self._spin @ self._gain) / self._step_s
        return float(mixed[0]), torque

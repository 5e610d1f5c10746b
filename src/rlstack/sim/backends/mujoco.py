"""The ``mujoco`` backend: one robot in MuJoCo.

The model is generated from the robot file. Rotors, drag and disturbances come from :mod:`rlstack.sim` and act on the
body as a force and a torque that are held over each physics step. They are taken at the step's middle
(rotor speeds exactly, attitude and velocity extrapolated), and MuJoCo integrates the body with RK4, so the error is of
second order in the step. Measured over 1 s of random rotor commands at 100 Hz with drag, six seeds, with and without
the gyroscopic term (tests/sim/test_mujoco.py), the largest departures from a fine-step reference are 0.04 mm, 0.14 mrad
and 0.08 mm/s at 1000 Hz and four times that at 500 Hz; MuJoCo's Euler and implicitfast integrators gave 6.5 mm and
60 mrad at 1000 Hz. It runs about 25 to 35 times as fast as time at 1000 Hz on one core.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.interfaces.backend import Reading, Signals
from rlstack.robots import Quadrotor
from rlstack.robots.mjcf import BODY, import_mujoco, mujoco_spec, rest_height
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.noise import SensorNoise
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.rotors import RotorGroup
from rlstack.sim.state import checked_command, checked_state
from rlstack.sim.wrench import ExternalWrench

Array = NDArray[np.float64]


class MujocoBackend:
    """A quadrotor in MuJoCo; time passes only in :meth:`step`.

    Args:
        robot: What flies.
        physics_rate_hz: Physics steps a second of simulated time.
        noise_seed: Seed of the sensor noise that the robot file declares; None: readings without noise.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        floor: Whether there is a floor at z = 0 (of the empty world).
        world: An MJCF file to fly in instead of the empty world.

    Raises:
        UserError: MuJoCo is not installed, or the robot or the physics rate is not one it can simulate.
    """

    owns_time = True
    sensed = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "linear_acceleration",
        "measured_rotor_speed",
    )
    commanded = ("rotor_speed",)

    def __init__(
        self,
        robot: Quadrotor,
        *,
        physics_rate_hz: float = 1000.0,
        noise_seed: int | None = None,
        gyroscopic: bool = False,
        floor: bool = True,
        world: str | Path | None = None,
    ) -> None:
        if robot.kind != "quadrotor":
            raise UserError(f"The mujoco backend flies quadrotors; {robot.name} is a {robot.kind}.")
        if not robot.control_rate_hz <= physics_rate_hz <= 1e5:
            raise UserError(
                f"physics_rate_hz: {physics_rate_hz} is not allowed: must be from the robot's control rate"
                f" ({robot.control_rate_hz} Hz) to 100000 Hz."
            )
        self.robot = robot
        self._mujoco = import_mujoco()
        self._step_s = 1.0 / physics_rate_hz
        self._world, self._floor = world, floor
        self._rotors = RotorGroup(robot, self._step_s, gyroscopic=gyroscopic)
        self._wrench = ExternalWrench(robot, self._rotors)
        self._noise = None if noise_seed is None else SensorNoise(robot, noise_seed)
        self._model: Any = None
        self._data: Any = None
        self._closed = False
        self._steps = 0  # since connect; time is counted in whole steps, so it never drifts
        self._reset_step = 0
        self._owed_s = 0.0  # of the durations asked for, what was less than a step

    @property
    def model(self) -> Any:
        """The ``mujoco.MjModel``, for viewers and renderers."""
        self._require_open()
        return self._model

    @property
    def data(self) -> Any:
        """The ``mujoco.MjData``, for viewers and renderers; writing to it bypasses the robot."""
        self._require_open()
        return self._data

    def connect(self) -> None:
        """Build the simulation and put the robot on the ground; a second call does nothing."""
        if self._closed:
            raise RuntimeError("The mujoco backend was closed: make a new one.")
        if self._model is not None:
            return
        mujoco = self._mujoco
        self._model = mujoco_spec(self.robot, timestep_s=self._step_s, world=self._world, floor=self._floor).compile()
        self._data = mujoco.MjData(self._model)
        self._body = int(self._model.body(BODY).id)
        joint = self._model.joint(BODY)
        q, v = int(joint.qposadr[0]), int(joint.dofadr[0])
        self._dof = v
        data = self._data
        # Views into MuJoCo's memory. A free joint's velocity and force: linear in the world, angular in the body.
        self._position, self._attitude = data.qpos[q : q + 3], data.qpos[q + 3 : q + 7]  # attitude: wxyz
        self._velocity, self._rates = data.qvel[v : v + 3], data.qvel[v + 3 : v + 6]
        self._both, self._both_before = data.qvel[v : v + 6], np.zeros(6)
        self._acceleration = data.qacc[v : v + 3]
        self._force, self._torque = data.qfrc_applied[v : v + 3], data.qfrc_applied[v + 3 : v + 6]
        self._middle_attitude, self._rotation = np.empty(4), np.empty(9)
        self.reset()

    def read(self) -> Reading:
        """Return the present state; ``linear_acceleration`` is what an accelerometer at the centre of mass feels."""
        self._require_open()
        mujoco = self._mujoco
        self._apply(self._rotors.speed, self._attitude, self._velocity, self._rates, 0.0)
        mujoco.mj_forward(self._model, self._data)
        rotation = self._rotation.reshape(3, 3)
        felt = self._acceleration + np.array([0.0, 0.0, STANDARD_GRAVITY])
        w, x, y, z = self._attitude
        signals = {
            "position": self._position.copy(),
            "orientation": np.array([x, y, z, w]),
            "linear_velocity": self._velocity @ rotation,
            "angular_velocity": self._rates.copy(),
            "linear_acceleration": felt @ rotation,
            "measured_rotor_speed": self._rotors.speed.copy(),
        }
        if self._noise is not None:
            signals = self._noise.applied(signals)
        return Reading(self._steps * self._step_s, signals)

    def write(self, command: Signals) -> Signals:
        """Command ``rotor_speed`` (rotors,) in rad/s; return it clipped to the rotors' range.

        Raises:
            ValueError: The command is not exactly one finite array of that shape; nothing was sent.
        """
        self._require_open()
        wanted = checked_command(self.robot, command)
        model = self.robot.rotor_model
        sent = np.clip(wanted, model.speed_min_rad_s, model.speed_max_rad_s)
        self._rotors.command(sent)
        return {"rotor_speed": sent}

    def step(self, duration_s: float) -> None:
        """Let ``duration_s`` pass in whole physics steps; what is left over is carried to the next call.

        Raises:
            ValueError: The duration is negative or not finite.
        """
        self._require_open()
        if not (math.isfinite(duration_s) and duration_s >= 0.0):
            raise ValueError(f"duration_s: {duration_s} is not allowed: must be at least 0.")
        self._owed_s += duration_s
        count = math.floor(self._owed_s / self._step_s + 1e-6)
        self._owed_s -= count * self._step_s
        mj_step, model, data = self._mujoco.mj_step, self._model, self._data
        half = 0.5 * self._step_s
        for _ in range(count):
            speed = self._rotors.advance()
            # From the last step's change, not from MuJoCo's qacc: that is what read() leaves behind.
            middle = 1.5 * self._both - 0.5 * self._both_before
            self._both_before[:] = self._both
            self._middle_attitude[:] = self._attitude
            self._mujoco.mju_quatIntegrate(self._middle_attitude, middle[3:], half)
            self._apply(speed, self._middle_attitude, middle[:3], middle[3:], half)
            mj_step(model, data)
            self._steps += 1
        if not (np.isfinite(self._both).all() and np.isfinite(self._position).all()):
            raise RuntimeError(
                f"The simulation diverged before {self._steps * self._step_s:.3f} s: the state was too fast for a"
                f" physics_rate_hz of {1.0 / self._step_s:g}."
            )

    def reset(self, state: Signals | None = None) -> None:
        """Put the robot at rest on the ground, or into ``state``; time goes on.

        ``state`` holds ``position`` (3,) m and ``orientation`` (4,) xyzw in the world, ``linear_velocity`` (3,) m/s in
        the **world** frame, ``angular_velocity`` (3,) rad/s in the body, ``rotor_speed`` (rotors,) rad/s; what is left
        out is zero (orientation: level). The rotors hold their speeds until the first command acts. The perturbation
        stays.

        Raises:
            ValueError: A name is unknown, or an array has the wrong shape, is not finite, or is no rotation.
        """
        self._require_open()
        checked = checked_state(self.robot, state if state is not None else {})
        self._mujoco.mj_resetData(self._model, self._data)
        if state is None:
            checked["position"][2] = self._settled_height()
        self._data.time = self._steps * self._step_s
        self._owed_s = 0.0
        self._position[:] = checked["position"]
        self._attitude[:] = np.roll(checked["orientation"], 1)
        self._velocity[:] = checked["linear_velocity"]
        self._rates[:] = checked["angular_velocity"]
        self._rotors.reset(checked["rotor_speed"])
        self._reset_step = self._steps
        self._apply(self._rotors.speed, self._attitude, self._velocity, self._rates, 0.0)
        self._mujoco.mj_forward(self._model, self._data)
        self._both_before[:] = self._both - self._step_s * self._data.qacc[self._dof : self._dof + 6]

    def perturb(self, perturbation: Perturbation) -> None:
        """Fly a robot that departs from its file, until the next call; gusts count from the last reset.

        Args:
            perturbation: Of one robot.

        Raises:
            ValueError: It is for another number of robots or rotors.
        """
        self._require_open()
        if np.shape(perturbation.thrust_scale) != (1, len(self.robot.rotors)):
            raise ValueError(
                f"the perturbation's thrust_scale has the shape {np.shape(perturbation.thrust_scale)}:"
                f" must be (1, {len(self.robot.rotors)})."
            )
        self._rotors.perturb(perturbation)
        self._wrench.perturb(perturbation)
        self._model.body_mass[self._body] = self.robot.body.mass_kg * perturbation.mass_scale[0]
        self._model.body_inertia[self._body] = self.robot.body.inertia_kg_m2 * perturbation.inertia_scale[0]
        # Recomputes what MuJoCo derives from mass and inertia; in data of its own, because it moves the robot.
        self._mujoco.mj_setConst(self._model, self._mujoco.MjData(self._model))

    def disarm(self) -> None:
        """Cut the motors at once, past the command delay; a later :meth:`write` starts them again."""
        self._require_open()
        self._rotors.stop()

    def close(self) -> None:
        """Release the simulation; a second call does nothing, any other use is an error."""
        self._closed = True
        for name in [name for name, held in vars(self).items() if isinstance(held, np.ndarray)]:
            delattr(self, name)
        self._model = self._data = None

    def _apply(self, speed: Array, attitude: Array, velocity: Array, rates: Array, ahead_s: float) -> None:
        """Hand MuJoCo the wrench of a state that lies ``ahead_s`` from now; leaves its rotation in ``_rotation``."""
        self._mujoco.mju_quat2Mat(self._rotation, attitude)
        elapsed_s = (self._steps - self._reset_step) * self._step_s + ahead_s
        force, torque = self._wrench.at(speed, self._rotation.reshape(3, 3), velocity, rates, elapsed_s)
        self._force[:], self._torque[:] = force, torque

    def _settled_height(self) -> float:
        """Return the height at which contact carries the fresh robot, m; its plain rest height if nothing is below it.

        Contact is slightly soft, so at the plain height nothing would push back and the accelerometer would read 0.
        """
        height = rest_height(self.robot)
        for _ in range(100 + round(0.1 / self._step_s)):  # contact settles within a few tens of steps or of 4 ms
            self._mujoco.mj_step(self._model, self._data)
        still = abs(self._velocity[2]) < 1e-4 and abs(self._position[2] - height) < height
        return float(self._position[2]) if still else height

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("The mujoco backend was closed: make a new one.")
        if self._model is None:
            raise RuntimeError("The mujoco backend is not connected: call connect() first.")


BACKEND = MujocoBackend

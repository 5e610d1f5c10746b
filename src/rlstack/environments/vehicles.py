"""N robots that do not touch each other, in the batch simulator or in any engine, as arrays that kernels read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.environments.episode_sampler import Episode
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.sensing import Camera
from rlstack.sim.batch.layout import STATE
from rlstack.sim.vector import BATCH, engine_of, whole_rate_hz, whole_steps

_HEIGHT_IN_A_WORLD_M = 1.5
_BATCH_RATE_HZ = 100.0
"""The batch simulator steps at least as often: that of training."""

_PICTURE = Camera(width=480, height=360, rate_hz=30.0, horizontal_fov_rad=0.9)
_FROM = np.array([-0.8, -0.5, 0.45])
"""Where the camera that follows a robot is, over its distance."""


class Vehicles(Protocol):
    """N robots. Positions are relative to the origin of the task, which is where the engine's robots have it."""

    renders: bool
    """Whether :meth:`picture` can give one."""

    def place(self, number: int, episode: Episode) -> None:
        """Put one robot where an episode starts, and let it depart from its file as that says."""

    def step(self, command: NDArray[np.float32]) -> None:
        """Let one control period pass under ``command`` (rotors, N) rad/s."""

    def read(self, rows: NDArray[np.float32]) -> None:
        """Write the states into ``rows`` (STATE_WIDTH, N) but for the time."""

    def parameters(self, rows: NDArray[np.float32]) -> None:
        """Write the parameters into ``rows`` (PARAMETER_WIDTH, N)."""

    def picture(self) -> NDArray[np.uint8]:
        """Return what a camera that follows the first robot sees, (height, width, 3)."""

    def close(self) -> None:
        """Release everything."""


def make_vehicles(
    backend: str,
    robot: Quadrotor,
    count: int,
    task: Any,
    *,
    world: str | Path | None = None,
    physics_rate_hz: float | None = None,
    height_m: float | None = None,
    seed: int = 0,
) -> Vehicles:
    """Return N robots in the simulator called ``backend``.

    Args:
        backend: ``"batch"``, or a backend with an engine.
        robot: What flies.
        count: N.
        task: For its control rate, its longest delay and how far a robot may stray.
        world: Of an engine; None: a floor, far below.
        physics_rate_hz: Physics steps a second; None: about the engine's own, a whole number in a control period.
        height_m: Of the task's origin over the start place of the world; None: where robots are lost before they
            touch the floor, or 1.5 m in a world.
        seed: Of a world's wind.

    Raises:
        UserError: There is no such simulator, it is not installed, or it cannot do this.
    """
    if count < 1:
        raise UserError(f"num_envs: {count} is not allowed: must be at least 1.")
    if backend == BATCH:
        for name, given in (("world", world), ("height_m", height_m)):
            if given is not None:
                raise UserError(f"{name}: the batch simulator has neither world nor floor: choose another backend.")
        return _Batch(robot, count, task, physics_rate_hz)
    return _InEngine(backend, robot, count, task, world, physics_rate_hz, height_m, seed)


class _Batch:
    renders = False

    def __init__(self, robot: Quadrotor, count: int, task: Any, physics_rate_hz: float | None) -> None:
        from rlstack.sim.batch import BatchSimulator

        steps = whole_steps(physics_rate_hz or max(_BATCH_RATE_HZ, task.rate_hz), task.rate_hz)
        if physics_rate_hz is not None:
            _check_whole(physics_rate_hz, task.rate_hz)
        self._simulator = BatchSimulator(
            robot, count, rate_hz=task.rate_hz, substeps=steps, max_delay_s=max(task.max_delay_s, 0.0)
        )

    def place(self, number: int, episode: Episode) -> None:
        simulator = self._simulator
        simulator.state_rows[:, number] = episode.state_row
        for command in simulator.commands:
            command[:, number] = episode.state_row[STATE["rotor_speed"]]
        simulator.parameters[:, number] = episode.parameter_row

    def step(self, command: NDArray[np.float32]) -> None:
        commands = self._simulator.commands
        commands.insert(0, commands.pop())
        commands[0][:] = command
        self._simulator.advance()

    def read(self, rows: NDArray[np.float32]) -> None:
        rows[:-1] = self._simulator.state_rows[:-1]

    def parameters(self, rows: NDArray[np.float32]) -> None:
        rows[:] = self._simulator.parameters

    def picture(self) -> NDArray[np.uint8]:
        raise UserError("The batch simulator draws no pictures: choose another backend, such as mujoco.")

    def close(self) -> None:
        """Release nothing: it is all memory."""


class _InEngine:
    renders = True

    def __init__(
        self,
        name: str,
        robot: Quadrotor,
        count: int,
        task: Any,
        world: str | Path | None,
        physics_rate_hz: float | None,
        height_m: float | None,
        seed: int,
    ) -> None:
        from rlstack.sim.simulation import Simulation

        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' is no simulator that flies in process: choose mujoco or pybullet.")
        if physics_rate_hz is None:
            rate = whole_rate_hz(engine, task.rate_hz)
        else:
            rate = physics_rate_hz
            _check_whole(rate, task.rate_hz)
        self._period_s, self._robot = 1.0 / task.rate_hz, robot
        self._simulation = simulation = Simulation(
            engine, [robot] * count, physics_rate_hz=rate, isolated=True, world=world, seed=seed
        )
        simulation.open()
        if height_m is None:
            height_m = task.lost_m + 1.0 if world is None else _HEIGHT_IN_A_WORLD_M
        self._origin = simulation.starts_m[0] + np.array([0.0, 0.0, height_m])
        self._every = slice(None)

    def place(self, number: int, episode: Episode) -> None:
        simulation, which = self._simulation, np.array([number])
        simulation.set_perturbation(episode.perturbation, which)
        simulation.set_state({**episode.state, "position": episode.state["position"] + self._origin}, which)

    def step(self, command: NDArray[np.float32]) -> None:
        self._simulation.rotorcraft.command(self._every, command.astype(float))
        self._simulation.step(self._period_s)

    def read(self, rows: NDArray[np.float32]) -> None:
        craft = self._simulation.rotorcraft
        poses = craft.poses
        rows[0:3] = poses[:3] - self._origin[:, None]
        rows[3:7] = poses[3:]
        rows[7:13] = craft.velocities()
        rows[13:17] = craft.speed

    def parameters(self, rows: NDArray[np.float32]) -> None:
        rows[:] = self._simulation.rotorcraft.parameters

    def picture(self) -> NDArray[np.uint8]:
        at = self._simulation.state()["position"][0]
        away = 0.8 + 10.0 * float(np.abs(self._robot.rotor_positions).max())
        eye = at + away * _FROM
        forward = (at - eye) / np.linalg.norm(at - eye)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(forward, right), forward], axis=1)
        rgb = self._simulation.engine.look(eye, axes, _PICTURE, ("rgb",)).rgb
        if rgb is None:
            raise RuntimeError(f"The engine {self._simulation.engine_type.name} gave no colours.")
        return np.array(rgb)

    def close(self) -> None:
        self._simulation.close()


def _check_whole(rate_hz: float, control_hz: float) -> None:
    steps = rate_hz / control_hz
    if not math.isfinite(steps) or round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
        raise UserError(
            f"physics_rate_hz: {rate_hz:g} is not allowed: must be a whole multiple of rate_hz ({control_hz:g} Hz)."
        )

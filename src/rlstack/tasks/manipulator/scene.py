"""N arms in their worlds with sensors, shared by training, evaluation and demonstrations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.arms.scene import build_scene
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials, noisy


class ArmScene:
    """N arms at their tasks.

    Args:
        task: The task, a :class:`rlstack.tasks.manipulator.task.ArmTask`.
        robot: The arm.
        count: N.
        seed: Seed of the noise.
        threads: Threads that step the worlds; None: one per core.
        device: Device that steps them; see :func:`rlstack.sim.batch_mujoco.make_mujoco_simulator`.
    """

    def __init__(
        self,
        task: Any,
        robot: Manipulator,
        count: int,
        seed: int,
        threads: int | None = None,
        device: str = "cpu",
    ) -> None:
        task = task.fitted(robot)
        self.task, self.robot, self.count = task, robot, count
        self._handled = task.objects is not None
        period_s = 1.0 / task.rate_hz
        model = build_scene(robot, task.build)
        self.worlds = make_mujoco_simulator(
            model, robot.drives, count, period_s=period_s, varied=self._handled, device=device, threads=threads
        )
        self.cameras = task.camera_buffer(robot, count, seed)
        """Their cameras' images; None: no cameras."""
        chain = chain_of(robot)
        self._screws, self._arm = chain.screws, list(chain.index)
        self.rng = np.random.default_rng((seed, 1))
        """Draws the noise."""
        self.goal = np.zeros((count, 3))
        """(N, 3) m in base_link."""
        self.drawn = {"half": np.zeros((count, 3)), "mass": np.zeros(count), "friction": np.zeros(count)}
        """Present properties of the objects, in the order of :meth:`MujocoSimulator.vary`; 0 without one."""

    def seed(self, seed: int) -> None:
        """Seed the noise and the cameras."""
        self.rng = np.random.default_rng((seed, 1))
        if self.cameras is not None:
            self.cameras.seed(seed)

    def start(self, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Begin episodes (n) in some worlds."""
        self.worlds.restart(index, trials.joints)
        self.goal[index] = trials.goal
        if self._handled:
            self.task.vary_objects(self.worlds, index, trials.goal, trials.half, trials.mass, trials.friction)
            self.task.place_objects(self.worlds, index, trials)
            for name, drawn in self.drawn.items():
                drawn[index] = getattr(trials, name)
        if self.cameras is not None:
            self.cameras.restart(index, self.worlds, self.drawn["half"][index])

    def vary(self, drawn: dict[str, Array]) -> None:
        """Set the objects' properties in all worlds to :attr:`drawn`, and place fixtures by the goals."""
        for name, array in drawn.items():
            self.drawn[name][:] = array
        if self._handled:
            self.task.vary_objects(self.worlds, np.arange(self.count), self.goal, *self.drawn.values())

    def true(self) -> dict[str, Array]:
        """Return the present signals (N, ...), without noise."""
        worlds = self.worlds
        signals = {
            "joint_position": worlds.joint_position,
            "joint_velocity": worlds.joint_velocity,
            "goal_position": self.goal,
        }
        if self._handled:
            signals["object_position"], signals["object_orientation"] = worlds.pose(OBJECT)
        if self.cameras is not None:
            signals.update(self.cameras.signals(worlds))
        return signals

    def noisy(self, signals: dict[str, Array]) -> dict[str, Array]:
        """Return signals (n, ...) with sensor noise."""
        return noisy(self.task.noise, signals, self.rng)

    def tool(self) -> Array:
        """Return the tools' positions (N, 3) m in base_link."""
        return np.asarray(tool_motion(self._screws, self.worlds.joint_position[:, self._arm]).position)

    def achieved(self) -> Array:
        """Return the achieved goals (N, 3) m."""
        tool = self.tool()
        return self.task.achieved(tool, self.worlds.pose(OBJECT)[0] if self._handled else tool)

    def lost(self) -> NDArray[np.bool_]:
        """Return (N,) whether the object is off the table or the state is not finite."""
        finite = np.isfinite(self.worlds.state).all(axis=1)
        if not self._handled:
            return ~finite
        return ~finite | self.task.off_table(self.worlds.pose(OBJECT)[0])

    def close(self) -> None:
        """Stop the threads."""
        self.worlds.close()
        if self.cameras is not None:
            self.cameras.close()

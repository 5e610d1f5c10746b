"""What the tasks of arms share: motion, starts, noise, endings, judgement. A task's file adds what it is about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.arms.scene import TIMESTEP_S
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.manipulator.rewards import ArmTransition
from rlstack.tasks.manipulator.trials import (
    OBJECT,
    ArmNoise,
    Motion,
    ObjectRange,
    Region,
    Starts,
    Trials,
    draw_starts,
    fitted,
)

if TYPE_CHECKING:
    from rlstack.sim.mujoco_worlds.worlds import MujocoWorlds
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.card import TaskCard
    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.manipulator.cameras import CameraBuffer
    from rlstack.tasks.manipulator.environment import ArmEnvironment
    from rlstack.tasks.manipulator.expert import Expert
    from rlstack.tasks.manipulator.pipeline import ArmPipeline


@dataclass(frozen=True, kw_only=True)
class ArmTask(Task, ABC):
    """A task for arms whose policy moves the tool."""

    rate_hz: float = value(20.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(5.0, unit="s", above=0.0)
    tolerance_m: float = value(0.01, unit="m", above=0.0)
    """Nearer to the goal than this is there."""
    hold_s: float = value(0.25, unit="s", at_least=0.0)
    """An episode succeeds once all has been there for so long."""
    rewards: Literal["dense", "sparse"] = "dense"
    """``sparse``: -1 a step, 0 where it is done."""
    ends: bool = True
    """Whether success ends an episode."""
    lost: float = value(-5.0)
    """What it costs once to lose the object, with ``rewards: dense``; with sparse ones, as much as never to succeed."""
    motion: Motion = field(default_factory=Motion)
    noise: ArmNoise = field(default_factory=ArmNoise)
    workspace: Region = field(default_factory=lambda: Region(x_m=(0.25, 0.75), y_m=(-0.4, 0.4), z_m=(0.015, 0.55)))
    """Where the tool may be led."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.6), y_m=(-0.2, 0.2), z_m=(0.15, 0.35)))
    """Where the tool is at the start."""
    goals: Region = field(default_factory=Region)

    kind = "manipulator"
    inputs: ClassVar[tuple[str, ...]] = ("joint_position", "joint_velocity", "goal_position")
    """What the policy senses."""
    outputs: ClassVar[tuple[str, ...]] = ("joint_target",)
    axes: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    """What an action moves; see :data:`rlstack.tasks.manipulator.trials.AXES`."""
    holds: ClassVar[bool] = False
    """Whether something is in the gripper from the start."""
    grip: ClassVar[float] = -1.0
    """What the gripper does that is not moved by actions; see the pipeline."""
    start_yaw_rad: ClassVar[float] = 0.5
    """Of the tool at the start, to either side, where actions turn it."""
    start_opening: ClassVar[float] = 0.0
    """Of the gripper, a share of its range."""
    moved: ClassVar[str] = "tool_position"
    """What is to be at the goal, by its name among prepared inputs; see :meth:`achieved`."""
    fixtures: ClassVar[Mapping[str, tuple[float, float, float]]] = {}
    """What stands fixed in the scene, and where it stands seen from the goal, m."""
    on_table: ClassVar[bool] = False
    """Whether a goal's height follows from what is handled."""
    least_joints: ClassVar[int] = 6
    """That an arm needs for it: with five the tool's direction gives way to its place; see
    :func:`rlstack.control.inverse_kinematics.led_step`."""
    fits: ClassVar[bool] = True
    """Whether it adapts to other work areas and object sizes; see :mod:`rlstack.tasks.manipulator.trials`."""
    differentiable: ClassVar[bool] = False
    verification: ClassVar[str] = "manipulator"
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.95}, at_most={"lost": 0.02})
    """What a policy must reach in each simulator in process to pass its verification."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.95}, at_most={"lost": 0.02, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )
    """The same through the nodes that are deployed."""

    def __post_init__(self) -> None:
        if self.hold_s > self.episode_s:
            raise ValueError(
                f"hold_s: {self.hold_s:g} is not allowed: nothing can be done for longer than an episode lasts,"
                f" {self.episode_s:g} s (episode_s)."
            )

    def reference(self, robot: RobotSpec) -> Manipulator:
        """Return the robot that training moves.

        Raises:
            UserError: It is no arm, or several, or has no gripper where one is needed, or too few joints, or is not
                controlled in whole multiples of the task's rate.
        """
        arm: Manipulator = super().reference(robot)
        if arm.arms:
            raise UserError(f"{robot.name} is {len(arm.arms)} arms; this task is for one: --robot panda.")
        if ("gripper" in self.axes or self.holds) and not arm.gripper:
            raise UserError(f"{robot.name} has no gripper, which this task needs: --robot panda.")
        if len(arm.joints) < self.least_joints:
            raise UserError(
                f"{robot.name} has {len(arm.joints)} joints, and this task needs {self.least_joints}, which hold the"
                " tool at a place, in a direction and at a turn all at once: --robot panda."
            )
        if endless := [drive.name for drive in arm.drives if not np.isfinite([drive.lower, drive.upper]).all()]:
            raise UserError(
                f"{robot.name}: {', '.join(endless)} can turn without limit, and a policy file says how far each joint"
                " may be told to go: give position_min_rad and position_max_rad in the robot file."
            )
        control = arm.control_rate_hz
        for who, hertz in ((f"{robot.name} is controlled", control), ("arms are simulated", 1 / TIMESTEP_S)):
            if abs(hertz / self.rate_hz - round(hertz / self.rate_hz)) > 1e-6:
                raise UserError(
                    f"task_settings: rate_hz: {self.rate_hz:g} is not allowed: {who} at {hertz:g} Hz, which is no whole"
                    " multiple of it."
                )
        if arm.work is not None and not self.fits:
            raise UserError(
                f"{robot.name} has a work area of its own, and this task's things have one size: take the section"
                " 'work' out of its file, or --robot panda."
            )
        return arm

    def fitted(self, robot: Manipulator) -> ArmTask:
        """Return the task as it is for ``robot``: where it works, and as large as its gripper opens."""
        task: ArmTask = fitted(self, robot.work)
        return task

    @property
    def objects(self) -> ObjectRange | None:
        """What objects are drawn from; None: there is none."""
        return None

    @property
    def hold_steps(self) -> int:
        """For how many steps it must be done."""
        return max(1, round(self.hold_s * self.rate_hz))

    @property
    def steps(self) -> int:
        """Of an episode."""
        return max(1, round(self.episode_s * self.rate_hz))

    @abstractmethod
    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""

    @abstractmethod
    def dense(self) -> Mapping[str, tuple[float, Callable[[ArmTransition], Array]]]:
        """Return ``{name: (weight, term)}``, rates a second; each term maps a view to (N,)."""

    @abstractmethod
    def expert(self) -> Expert:
        """Return a script that does it."""

    def pipeline(self, robot: Manipulator) -> ArmPipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.manipulator.pipeline import ArmPipeline

        task = self.fitted(robot)
        corners = task.workspace.corners
        return ArmPipeline(task.terms(robot), robot, self.rate_hz, self.axes, self.motion, corners, self.grip)

    def environment(
        self, robot: Manipulator, pipeline: ArmPipeline, count: int, device: str, seed: int
    ) -> ArmEnvironment:
        """Return N copies of the task for training."""
        from rlstack.tasks.manipulator.environment import ArmEnvironment

        return ArmEnvironment(self.fitted(robot), robot, pipeline, count, device=device, seed=seed)

    def build(self, spec: Any) -> None:
        """Add what is handled to the scene."""
        if self.objects is not None:
            from rlstack.sim.arms.scene import Block

            Block().add(spec)

    def camera_buffer(self, robot: Manipulator, count: int, seed: int) -> CameraBuffer | None:
        """Return what cameras of N arms see; None: the policy sees nothing."""
        return None

    def handled(self, trials: Trials, number: int) -> Obstacle:
        """Return what is handled in one of some episodes, as it stands in a world for engines: a box that is free."""
        from rlstack.tasks.manipulator.trials import box_of

        place, yaw = trials.position[number], float(trials.yaw[number])
        return box_of(trials, number, OBJECT, place, yaw, (0.85, 0.35, 0.2))

    def stands(self, trials: Trials, number: int) -> tuple[Obstacle, ...] | None:
        """Return what stands beside what is handled in one of some episodes; None: engines cannot hold it."""
        return () if type(self).build is ArmTask.build else None

    def furnish(
        self, worlds: MujocoWorlds, index: NDArray[np.intp], goal: Array, half: Array, mass: Array, friction: Array
    ) -> None:
        """Give what is handled in some worlds its half lengths, mass and friction, and what stands fixed its place.

        Args:
            worlds: Of N arms.
            index: (n,) which.
            goal: (n, 3) m, by which fixtures stand.
            half: (n, 3) m.
            mass: (n,) kg.
            friction: (n,).
        """
        worlds.vary(index, OBJECT, half, mass, friction)
        for name, offset in self.fixtures.items():
            worlds.move(index, name, goal + np.array(offset))

    def lay(self, worlds: MujocoWorlds, index: NDArray[np.intp], trials: Trials) -> None:
        """Put what is handled where episodes (n) begin, in some worlds."""
        worlds.place(index, OBJECT, trials.position, trials.orientation)

    def draw_starts(self, robot: Manipulator, rng: np.random.Generator, count: int) -> Starts:
        """Draw where arms are when episodes begin.

        Raises:
            UserError: The arm cannot be there.
        """
        yaw = self.start_yaw_rad if "yaw" in self.axes else 0.0
        return draw_starts(robot, self.fitted(robot).starts, yaw, self.opened(robot), rng, count)

    def opened(self, robot: Manipulator) -> float:
        """Return how far the gripper is open at the start, a share of its range."""
        return self.start_opening * (1.0 if robot.work is None else robot.work.opened)

    def draw(self, robot: Manipulator, rng: np.random.Generator, count: int, starts: Starts | None = None) -> Trials:
        """Draw episodes; ``starts`` are there to choose from, instead of new ones."""
        task = self.fitted(robot)
        if starts is None:
            return task.place(rng, task.draw_starts(robot, rng, count))
        return task.place(rng, starts.take(rng.integers(0, len(starts.joints), count)))

    def place(self, rng: np.random.Generator, starts: Starts) -> Trials:
        """Draw what episodes are about, for arms that start at N places."""
        return Trials(starts.joints, self.goals.draw(rng, len(starts.joints)))

    def achieved(self, tool: Array, thing: Array) -> Array:
        """Return (N, 3) m what is to be at the goal, with the tool and the object at places (N, 3) m."""
        return thing if self.moved == "object_position" else tool

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether what is achieved (N, 3) m is at what is desired (N, 3) m."""
        return np.asarray(np.linalg.norm(achieved - desired, axis=-1) < self.tolerance_m)

    def off(self, place: Array) -> NDArray[np.bool_]:
        """Return (...) whether objects at places (..., 3) m are off the table."""
        low, high = (np.array(corner) for corner in self.workspace.corners)
        away = ((place[..., :2] < low[:2] - 0.1) | (place[..., :2] > high[:2] + 0.1)).any(axis=-1)
        return np.asarray(away | (place[..., 2] < -0.05))

    def reward_of(self, achieved: Array, desired: Array) -> Array:
        """Return the sparse reward (N,) of a step: 0 where it is done, else -1; also for goals that were not asked."""
        return np.where(self.done(achieved, desired), 0.0, -1.0)

    def envelope(self) -> dict[str, float]:
        """Return what the policy was trained for, SI units in the keys."""
        low, high = self.goals.corners
        ends = {"min": low, "max": high}
        axes = "xy" if self.on_table else "xyz"
        named = {f"goal_{axis}_{end}_m": ends[end][k] for end in ends for k, axis in enumerate(axes)}
        return {"tolerance_m": self.tolerance_m, "episode_s": self.episode_s, **named}

    def card(self, robot: Manipulator, pipeline: ArmPipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.manipulator.card import arm_card

        return arm_card(self, pipeline)

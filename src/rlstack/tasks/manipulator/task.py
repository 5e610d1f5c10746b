"""Base of the manipulation tasks: motion, starts, noise, endings, bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

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
from rlstack.tasks.manipulator.departures import ArmRandomisation
from rlstack.tasks.manipulator.rewards import ArmReward, RewardTerm, weighted
from rlstack.tasks.manipulator.trials import (
    OBJECT,
    ArmNoise,
    ArmTrials,
    Motion,
    ObjectRange,
    Region,
    Starts,
    draw_starts,
    fitted,
)

if TYPE_CHECKING:
    from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.core.task_card import TaskCard
    from rlstack.tasks.manipulator.cameras import CameraBuffer
    from rlstack.tasks.manipulator.expert import Expert
    from rlstack.tasks.manipulator.pipeline import ArmPipeline


OBJECT_INPUTS = ("joint_position", "joint_velocity", "object_position", "object_orientation", "goal_position")
"""Inputs of policies that know the object's pose."""


TRIAL_S = 5.0
"""Least length of a trial that is judged, s: what an arm holds for less, it may have let go."""


@dataclass(frozen=True, kw_only=True)
class ArmTask(Task, ABC):
    """A task for arms whose policy moves the tool."""

    rate_hz: float = value(20.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(5.0, unit="s", above=0.0)
    tolerance_m: float = value(0.01, unit="m", above=0.0)
    """Distance from the goal within which it is achieved."""
    hold_s: float = value(0.25, unit="s", at_least=0.0)
    """The goal counts as achieved once it has been for this long; a trial succeeds if it is at the trial's end."""
    rewards: Literal["dense", "sparse"] = "dense"
    """``sparse``: -1 per step, 0 while the goal is achieved."""
    ends: bool = False
    """Whether achieving the goal ends an episode of training; verification runs its trials to their end."""
    past_actions: int = value(0, at_least=0)
    """Number of past actions that the policy observes, which tell it how late its signals are. If any, some tasks also
    observe goal and object relative to the tool's target, which late signals do not change."""
    randomisation: ArmRandomisation = field(default_factory=ArmRandomisation)
    lost: float = value(-5.0)
    """Penalty of losing the object, with ``rewards: dense``; with sparse ones it equals never succeeding."""
    motion: Motion = field(default_factory=Motion)
    noise: ArmNoise = field(default_factory=ArmNoise)
    workspace: Region = field(default_factory=lambda: Region(x_m=(0.25, 0.75), y_m=(-0.4, 0.4), z_m=(0.015, 0.55)))
    """Workspace of the tool."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.6), y_m=(-0.2, 0.2), z_m=(0.15, 0.35)))
    """Start region of the tool."""
    goals: Region = field(default_factory=Region)
    reward: ArmReward = field(default_factory=ArmReward)

    kind = "manipulator"
    environment_class = "rlstack.tasks.manipulator.environment:ArmEnvironment"
    demonstration_class = "rlstack.tasks.manipulator.demonstration:DemonstrationEnvironment"
    scene: ClassVar[str] = "rlstack.tasks.manipulator.scene:ArmScene"
    """``module:Class`` of its simulated arms."""
    inputs: ClassVar[tuple[str, ...]] = ("joint_position", "joint_velocity", "goal_position")
    """The policy's inputs."""
    outputs: ClassVar[tuple[str, ...]] = ("joint_target",)
    axes: ClassVar[tuple[str, ...]] = ("x", "y", "z")
    """Axes of actions; see :data:`rlstack.tasks.manipulator.trials.AXES`."""
    holds: ClassVar[bool] = False
    """Whether the gripper holds an object from the start."""
    grip: ClassVar[float] = -1.0
    """Action of a gripper that the policy does not move; see the pipeline."""
    start_yaw_rad: ClassVar[float] = 0.5
    """Range of the tool's start yaw, to either side, if actions turn it."""
    start_opening: ClassVar[float] = 0.0
    """Start opening of the gripper, a share of its range."""
    moved: ClassVar[str] = "tool_position"
    """Name of the achieved goal among prepared inputs; see :meth:`achieved`."""
    fixtures: ClassVar[Mapping[str, tuple[float, float, float]]] = {}
    """Fixtures of the scene, and their positions relative to the goal, m."""
    on_table: ClassVar[bool] = False
    """Whether the object determines a goal's height."""
    least_joints: ClassVar[int] = 6
    """Least number of joints: with five, the tool's position has priority over its direction; see
    :func:`rlstack.control.inverse_kinematics.led_step`."""
    fits: ClassVar[bool] = True
    """Whether it adapts to other work areas and object sizes; see :mod:`rlstack.tasks.manipulator.trials`."""
    differentiable: ClassVar[bool] = False
    verification: ClassVar[str] = "manipulator"
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.95}, at_most={"lost": 0.02})
    """Pass bounds in each simulator, in process."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.95}, at_most={"lost": 0.02, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )
    """Pass bounds over topics, through the deployed nodes."""

    def __post_init__(self) -> None:
        if self.hold_s > self.episode_s:
            raise ValueError(
                f"hold_s: {self.hold_s:g} is not allowed: must be at most the length of an episode,"
                f" {self.episode_s:g} s (episode_s)."
            )

    def reference(self, robot: RobotSpec) -> Manipulator:
        """Return the robot to train on.

        Raises:
            UserError: It is not a single arm, lacks a needed gripper or joints, or its control rate is not a whole
                multiple of the task's.
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
                f"{robot.name}: {', '.join(endless)} can turn without limit, and a policy file needs a range for each"
                " joint: give position_min_rad and position_max_rad in the robot file."
            )
        self.check_rate(f"{robot.name} is controlled", arm.control_rate_hz)
        self.check_rate("arms are simulated", 1 / TIMESTEP_S)
        if arm.work is not None and not self.fits:
            raise UserError(
                f"{robot.name} has a work area of its own, and this task's things have one size: take the section"
                " 'work' out of its file, or --robot panda."
            )
        return arm

    def fitted(self, robot: Manipulator) -> ArmTask:
        """Return the task adapted to ``robot``: to its work area, and to its gripper's opening."""
        task: ArmTask = fitted(self, robot.work)
        return task

    @property
    def objects(self) -> ObjectRange | None:
        """Distribution of objects: the setting of that type; None: there is none."""
        mine = (getattr(self, setting.name) for setting in fields(self))
        return next((setting for setting in mine if isinstance(setting, ObjectRange)), None)

    @property
    def step_dm(self) -> float:
        """Largest motion of the tool's target in a step along an axis, dm: the scale of close-ups."""
        return 10.0 * self.motion.speed_m_s / self.rate_hz

    @property
    def hold_steps(self) -> int:
        """Number of steps for which the goal must be achieved."""
        return max(1, round(self.hold_s * self.rate_hz))

    def judged(self: Self) -> Self:
        """Return the task as trials are judged by: they last at least :data:`TRIAL_S`."""
        return replace(self, episode_s=max(self.episode_s, TRIAL_S))

    @abstractmethod
    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""

    def dense(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the dense reward, with weights per second."""
        return weighted(self.reward)

    @abstractmethod
    def expert(self) -> Expert:
        """Return the scripted expert."""

    def pipeline(self, robot: Manipulator) -> ArmPipeline:
        """Return the observation pipeline for ``robot``."""
        from rlstack.tasks.manipulator.pipeline import ArmPipeline

        task = self.fitted(robot)
        corners = task.workspace.corners
        terms = task.terms(robot)
        if self.past_actions:
            from rlstack.tasks.core.observations import ActionHistory

            terms.append(ActionHistory(len(self.axes), self.past_actions))
        return ArmPipeline(terms, robot, self.rate_hz, self.axes, self.motion, corners, self.grip)

    def build(self, spec: Any) -> None:
        """Add the object to the scene."""
        if self.objects is not None:
            from rlstack.sim.arms.scene import Block

            Block().add(spec)

    def camera_buffer(self, robot: Manipulator, count: int, seed: int) -> CameraBuffer | None:
        """Return the cameras of N arms; None: the policy uses none."""
        return None

    def object_obstacle(self, trials: ArmTrials, number: int) -> Obstacle:
        """Return the object of one trial as a free box in an engine's world."""
        from rlstack.tasks.manipulator.trials import box_of

        place, yaw = trials.position[number], float(trials.yaw[number])
        return box_of(trials, number, OBJECT, place, yaw, (0.85, 0.35, 0.2))

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...] | None:
        """Return the further obstacles of one trial; None: engines do not support them."""
        return () if type(self).build is ArmTask.build else None

    def vary_objects(
        self, worlds: MujocoSimulator, index: NDArray[np.intp], goal: Array, half: Array, mass: Array, friction: Array
    ) -> None:
        """Set the objects' half lengths, mass and friction in some worlds, and place fixtures.

        Args:
            worlds: Worlds of N arms.
            index: (n,) indices of the worlds.
            goal: (n, 3) m, which fixtures are placed by.
            half: (n, 3) m.
            mass: (n,) kg.
            friction: (n,).
        """
        worlds.vary(index, OBJECT, half, mass, friction)
        for name, offset in self.fixtures.items():
            worlds.move(index, name, goal + np.array(offset))

    def place_objects(self, worlds: MujocoSimulator, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Place the objects at the starts of trials (n), in some worlds."""
        worlds.place(index, OBJECT, trials.position, trials.orientation)

    def draw_starts(self, robot: Manipulator, rng: np.random.Generator, count: int) -> Starts:
        """Draw the arms' start poses.

        Raises:
            UserError: The arm cannot reach the start region.
        """
        yaw = self.start_yaw_rad if "yaw" in self.axes else 0.0
        return draw_starts(robot, self.fitted(robot).starts, yaw, self.opened(robot), rng, count)

    def opened(self, robot: Manipulator) -> float:
        """Return the gripper's start opening, a share of its range."""
        return self.start_opening * (1.0 if robot.work is None else robot.work.opened)

    def draw(self, robot: Manipulator, rng: np.random.Generator, count: int, starts: Starts | None = None) -> ArmTrials:
        """Draw trials, with starts from ``starts`` if given, else new ones."""
        task = self.fitted(robot)
        if starts is None:
            return task.place(rng, task.draw_starts(robot, rng, count))
        return task.place(rng, starts.take(rng.integers(0, len(starts.joints), count)))

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        return ArmTrials(starts.joints, self.goals.draw(rng, len(starts.joints)))

    def achieved(self, tool: Array, thing: Array) -> Array:
        """Return the achieved goal (N, 3) m for positions (N, 3) m of tool and object."""
        return thing if self.moved == "object_position" else tool

    def done(self, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Return (N,) whether the achieved goal (N, 3) m is at the desired one (N, 3) m."""
        return np.asarray(np.linalg.norm(achieved - desired, axis=-1) < self.tolerance_m)

    def kinds_of(self, goal: Array) -> NDArray[np.str_] | None:
        """Return (N,) what trials with goals (N, 3) m ask for, by which results are told apart; None: all the same."""
        return None

    def off_table(self, place: Array) -> NDArray[np.bool_]:
        """Return (...) whether objects at positions (..., 3) m are off the table."""
        low, high = (np.array(corner) for corner in self.workspace.corners)
        away = ((place[..., :2] < low[:2] - 0.1) | (place[..., :2] > high[:2] + 0.1)).any(axis=-1)
        return np.asarray(away | (place[..., 2] < -0.05))

    def failed(self, trials: ArmTrials, number: int, position: Callable[[str], Array]) -> bool:
        """Return whether a trial in an engine has failed for good, though its object is on the table.

        Args:
            trials: The trials.
            number: Index of the trial.
            position: Returns the present position (3,) m of a free obstacle by name.
        """
        return False

    def reward_of(self, achieved: Array, desired: Array) -> Array:
        """Return the sparse reward (N,) of a step: 0 where the goal is achieved, else -1; also for relabelled goals."""
        return np.where(self.done(achieved, desired), 0.0, -1.0)

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        named = self.goals.ends("goal", "xy" if self.on_table else "xyz")
        places = {**self.workspace.ends("workspace"), **self.starts.ends("start")}
        return {"tolerance_m": self.tolerance_m, "episode_s": self.episode_s, **named, **places}

    def input_noise(self, robot: Manipulator) -> dict[str, float]:
        """Return the standard deviation of training's noise by input."""
        noise = self.noise
        object_m = float(np.hypot(noise.object_m, self.randomisation.object_noise_m[1]))
        return {
            "joint_position": noise.joint_rad,
            "joint_velocity": noise.joint_velocity_rad_s,
            "object_position": object_m,
            "object_orientation": noise.object_rad,
        }

    def trained_ranges(self, robot: Manipulator) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies."""
        varied = self.randomisation.ranges()
        if (things := self.objects) is None:
            return {name: ends for name, ends in varied.items() if not name.startswith("object_")}
        low, high = things.half_m
        return {
            **varied,
            "object_size_m": (2.0 * low, 2.0 * high),
            "object_mass_kg": things.mass_kg,
            "object_friction": things.friction,
        }

    def card(self, robot: Manipulator, pipeline: ArmPipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.task_card import TaskCard, episode_length, reward_rows, timed_out

        sparse = self.rewards == "sparse"
        speed, turn = pipeline.motion.speed_m_s, pipeline.motion.yaw_rate_rad_s
        effects = {
            **{axis: (f"{-speed:g}", f"{speed:g}", "m/s") for axis in "xyz"},
            "yaw": (f"{-turn:g}", f"{turn:g}", "rad/s"),
            "gripper": ("closes", "opens", "at the joints' speed"),
        }
        there = f"{self.moved} within {self.tolerance_m:g} m of the goal"
        done, last = f"{there} for {self.hold_s:g} s", f"{self.judged().episode_s:g} s"
        ending = done if sparse else f"{done}; the value is bootstrapped"
        return TaskCard(
            length=episode_length(self),
            actions=tuple((axis, *effects[axis]) for axis in pipeline.axes),
            rewards=(("sparse", "1", "a step: -1, and 0 where it is done"),)
            if sparse
            else reward_rows(self.dense(), self.lost),
            endings=(
                ("lost", "the object is off the table, or a number is not finite"),
                *((("done", ending),) if self.ends else ()),
                timed_out(self),
            ),
            episode="trial",
            scale="actions in -1..1, motions of the tool's target",
            criteria=(("succeeds", f"{there} for the last {self.hold_s:g} s of a trial of {last}"),),
        )

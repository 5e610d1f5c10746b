"""arm_drawer: grasp a drawer's tab and pull the drawer open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import GraspExpert
from rlstack.tasks.manipulator.rewards import ArmReward
from rlstack.tasks.manipulator.task import OBJECT_INPUTS, ArmTask
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials, ObjectRange, Region, Starts

if TYPE_CHECKING:
    from rlstack.sim.arms.drawer import Drawer
    from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.pipeline import Term


TAB = (0.0225, 0.008, 0.015)
"""m, half lengths of the tab along the slide, across (random) and up."""
HEIGHT = 0.1
"""m, height of the tab's centre above the table."""
RAIL = 0.2
"""Friction of the rails: force to move the drawer, relative to its weight."""
GRAVITY = 9.81


@dataclass(frozen=True, kw_only=True)
class DrawerReward(ArmReward):
    """Weights per second."""

    reaching: float = value(-1.0)
    held: float = value(0.3)
    distance: float = value(-4.0)
    at_goal: float = value(2.0)


@dataclass(frozen=True, kw_only=True)
class DrawerTask(ArmTask):
    """Take a drawer by its tab and pull it open."""

    tolerance_m: float = value(0.015, unit="m", above=0.0)
    open_m: float = value(0.12, unit="m", above=0.0, at_most=0.19)
    """Distance to pull."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.48), y_m=(-0.15, 0.15), z_m=(0.2, 0.32)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.52, 0.62), y_m=(-0.18, 0.18), z_m=(HEIGHT, HEIGHT)))
    """Region of the closed drawer's tab; the cabinet faces the arm."""
    tab: ObjectRange = field(
        default_factory=lambda: ObjectRange(half_m=(0.006, 0.011), mass_kg=(0.5, 2.0), friction=(0.6, 1.2), yaw_rad=0.0)
    )
    """``half_m`` is across; the mass is the drawer's, and its friction is proportional to it."""
    reward: DrawerReward = field(default_factory=DrawerReward)

    inputs = OBJECT_INPUTS
    moved = "object_position"
    fits = False
    axes = ("x", "y", "z", "yaw", "gripper")
    start_opening = 1.0

    def reference(self, robot: RobotSpec) -> Manipulator:
        """Return the robot to train on.

        Raises:
            UserError: It cannot do the task, or settings of goals or tabs do not apply to drawers.
        """
        for name, changed, instead in (
            ("goals", self.goals != Region(), "how far drawers are pulled is open_m"),
            ("tab: yaw_rad", self.tab.yaw_rad != 0.0, "cabinets face the arm"),
            ("places: z_m", self.places.z_m != (HEIGHT, HEIGHT), f"tabs are {HEIGHT:g} m above the table"),
        ):
            if changed:
                raise UserError(f"task_settings: {name} is not allowed with arm_drawer: {instead}. Leave it out.")
        return super().reference(robot)

    def build(self, spec: Any) -> None:
        """Add cabinet and drawer to the scene."""
        self._drawer().add(spec)

    def object_obstacle(self, trials: ArmTrials, number: int) -> Obstacle:
        """Return the drawer's tab, which slides."""
        return self._obstacles(trials, number)[0]

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        """Return the drawer's front and the cabinet."""
        return self._obstacles(trials, number)[1:]

    def _drawer(self) -> Drawer:
        from rlstack.sim.arms.drawer import Drawer

        return Drawer(tab_half_m=TAB, tab_height_m=HEIGHT)

    def _obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        from rlstack.sim.arms.drawer import drawer_obstacles

        mass = float(trials.mass[number])
        return drawer_obstacles(
            self._drawer(),
            trials.position[number].tolist(),
            float(trials.yaw[number]),
            trials.half[number].tolist(),
            mass,
            float(trials.friction[number]),
            RAIL * GRAVITY * mass,
        )

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        count, tab = len(starts.joints), self.tab
        closed, half = self.places.draw(rng, count), np.tile(TAB, (count, 1))
        closed[:, 2] = HEIGHT
        half[:, 1] = rng.uniform(*tab.half_m, count)
        goal = closed - self.open_m * outward(closed)
        mass, friction = rng.uniform(*tab.mass_kg, count), rng.uniform(*tab.friction, count)
        return ArmTrials(starts.joints, goal, closed, np.arctan2(closed[:, 1], closed[:, 0]), half, mass, friction)

    def vary_objects(
        self, worlds: MujocoSimulator, index: NDArray[np.intp], goal: Array, half: Array, mass: Array, friction: Array
    ) -> None:
        """Set the tabs' size and friction and the drawers' mass, and place the cabinets."""
        worlds.vary(index, OBJECT, half, mass, friction)
        worlds.brake(index, OBJECT, RAIL * GRAVITY * mass)
        stands = goal + self.open_m * outward(goal)
        stands[:, 2] = 0.0
        worlds.move(index, "cabinet", stands, np.arctan2(goal[:, 1], goal[:, 0]))

    def place_objects(self, worlds: MujocoSimulator, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """No-op: all drawers start closed."""

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        return observations.grasp_terms(self.workspace.middle, self.rate_hz, observations.GoalOffset(self.moved))

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        settings = {"tolerance_m": self.tolerance_m, "episode_s": self.episode_s, "open_m": self.open_m}
        return {**settings, **self.places.ends("closed")}

    def expert(self) -> GraspExpert:
        """Return the scripted expert."""
        return GraspExpert(on_table=False)


def outward(place: Array) -> Array:
    """Return the horizontal direction (n, 3) from the arm's base to places (n, 3), opposite to the cabinets' front."""
    level = place * np.array([1.0, 1.0, 0.0])
    return np.asarray(level / np.linalg.norm(level, axis=1, keepdims=True))


TASK = DrawerTask

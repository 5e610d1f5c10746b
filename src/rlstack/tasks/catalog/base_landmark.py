"""base_landmark: drive to the door, pillar or box that a sentence names, and stay there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.batch_wheeled_base.parameters import Speeds
from rlstack.tasks.core.phrases import Templates
from rlstack.tasks.landmarks.expert import approach
from rlstack.tasks.landmarks.sensing import CAMERA
from rlstack.tasks.landmarks.task import LandmarkTask

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row
    from rlstack.tasks.landmarks.scene import Vehicles


GO = Templates(
    train=(
        "go to {thing}",
        "drive to {thing}",
        "move to {thing}",
        "go up to {thing}",
        "{thing} is where you should go",
    ),
    held_out=(
        "please go to {thing}",
        "{thing} , go there",
        "i want you to drive to {thing}",
        "head over to {thing} now",
        "find {thing} and go to it",
    ),
    words={},
)


@dataclass(frozen=True, kw_only=True)
class BaseLandmarkTask(LandmarkTask):
    """Drive to the named landmark and stay there."""

    speeds: Speeds = field(default_factory=lambda: Speeds(turning_rad_s=1.5))

    kind = "wheeled_base"
    inputs = (
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "instruction",
        f"{CAMERA}_image",
        f"{CAMERA}_image_age",
    )
    outputs = ("twist",)
    templates = GO

    def vehicles(self, robot: WheeledBase, count: int) -> Vehicles:
        """Return N bases."""
        from rlstack.tasks.wheeled_base.landmarks import BaseVehicles

        return BaseVehicles(robot, count, self.rate_hz)

    def radius_m(self, robot: WheeledBase) -> float:
        """Return the radius of the robot seen from above."""
        return robot.radius_m

    def start_state(self, robot: WheeledBase, start: Array) -> dict[str, Array]:
        """Return the state in which an engine's robot begins: at rest on its wheels."""
        place = np.array([start[0], start[1], robot.rest_height_m])
        return {"position": place, "orientation": frames.from_yaw(start[3])}

    def state_terms(self) -> list[Term]:
        """Return the terms of the robot's own state."""
        from rlstack.tasks.wheeled_base.landmarks import PlanarTwist

        return [PlanarTwist()]

    def make_pipeline(self, robot: WheeledBase, terms: list[Term]) -> Pipeline:
        """Return the pipeline of these terms; actions are the twist's share of its limits."""
        from rlstack.tasks.core.pipeline import Pipeline

        return Pipeline(terms, "twist", *self.speeds.range(robot))

    def actions(self, robot: WheeledBase, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        from rlstack.tasks.core.task_card import command_rows

        return command_rows(pipeline)

    def trained_ranges(self, robot: WheeledBase) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of each quantity that training varies."""
        fastest = self.speeds.range(robot)[1][0]
        return {"command_delay_s": robot.response.range_of("command_delay_s"), "speed_m_s": (0.0, fastest)}

    def expert_action(self, offset: Array, gap: Array, signals: Mapping[str, Array]) -> Array:
        """Return the scripted expert's actions (N, 2): it turns to the landmark and slows down before it."""
        ahead, bearing = approach(offset, gap, self.arrival_m)
        return np.stack([ahead * np.maximum(np.cos(1.5 * bearing), 0.0), np.clip(1.3 * bearing, -1.0, 1.0)], axis=1)


TASK = BaseLandmarkTask

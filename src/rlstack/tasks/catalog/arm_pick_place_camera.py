"""arm_pick_place_camera: take a box from the table and hold it at a place above it, seeing it by cameras alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.arms.sight import SightRange
from rlstack.tasks.arms.trials import OBJECT
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.catalog.arm_pick_place import PickPlaceTask

if TYPE_CHECKING:
    from rlstack.tasks.arms.pipeline import ArmPipeline
    from rlstack.tasks.arms.seeing import SeeingEnvironment
    from rlstack.tasks.arms.sight import Sight
    from rlstack.tasks.pipeline import Term


@dataclass(frozen=True, kw_only=True)
class SeenPickPlaceTask(PickPlaceTask):
    """Take a box from the table and hold it at a place above it, seeing it by cameras alone.

    The scripted expert knows where the box is; the policy is never told.
    """

    rewards: Literal["dense", "sparse"] = "sparse"
    pictures: SightRange = field(default_factory=SightRange)
    """How pictures come, and how what is in them looks."""

    cameras = ("wrist", "scene")
    """Of the robot file."""
    inputs = (
        "joint_position",
        "joint_velocity",
        "goal_position",
        "wrist_image",
        "wrist_image_age",
        "scene_image",
        "scene_image_age",
    )
    bounds = Bounds(at_least={"success": 0.85}, at_most={"lost": 0.05})
    bounds_over_topics = Bounds(
        at_least={"success": 0.8}, at_most={"lost": 0.05, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )

    def sight(self, robot: Manipulator, count: int, seed: int) -> Sight:
        """Return what cameras of N arms see."""
        from rlstack.tasks.arms.sight import Sight

        return Sight(robot, self.build, self.cameras, OBJECT, self.pictures, count, seed)

    def environment(
        self, robot: Manipulator, pipeline: ArmPipeline, count: int, device: str, seed: int
    ) -> SeeingEnvironment:
        """Return N copies of the task to learn from."""
        from rlstack.tasks.arms.seeing import SeeingEnvironment

        return SeeingEnvironment(self.fitted(robot), robot, pipeline, count, device=device, seed=seed)

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation, the pictures last."""
        from rlstack.sim.arms.eyes import camera_of
        from rlstack.tasks.arms import sight_terms, terms

        middle = self.workspace.middle
        first = camera_of(robot, self.cameras[0])
        return [
            terms.ToolPosition(middle),
            terms.ToolVelocity(),
            terms.Lead(),
            terms.ToolYaw(),
            terms.Opening(),
            sight_terms.GoalPlace(middle),
            sight_terms.HandThen(self.cameras, robot, self.rate_hz),
            sight_terms.Pictures(self.cameras, first.height, first.width),
        ]


TASK = SeenPickPlaceTask

"""arm_pick_place_camera: arm_pick_place with the box observed only by cameras."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.catalog.arm_pick_place import PickPlaceTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.manipulator.trials import OBJECT

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.manipulator.cameras import CameraBuffer


@dataclass(frozen=True, kw_only=True)
class CameraPickPlaceTask(PickPlaceTask):
    """Take a box from the table and hold it at a place above it, seeing it by cameras alone.

    The scripted expert knows the box's position; the policy does not.
    """

    rewards: Literal["dense", "sparse"] = "sparse"
    pictures: CameraRange = field(default_factory=CameraRange)
    """Frame rates, latencies and appearances of images."""

    cameras = ("wrist", "scene")
    """Cameras of the robot file."""
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

    def camera_buffer(self, robot: Manipulator, count: int, seed: int) -> CameraBuffer:
        """Return the cameras of N arms."""
        from rlstack.tasks.manipulator.cameras import CameraBuffer

        return CameraBuffer(robot, self.build, self.cameras, (OBJECT,), self.pictures, count, seed)

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation, with the images last."""
        from rlstack.sim.camera_renderer import camera_of
        from rlstack.tasks.core.camera_observations import CameraImages
        from rlstack.tasks.manipulator import camera_observations, observations

        middle = self.workspace.middle
        first = camera_of(robot, self.cameras[0])
        return [
            *observations.tool_terms(middle),
            observations.tool_yaw(),
            observations.Opening(),
            camera_observations.goal_position(middle),
            camera_observations.ToolPoseAtImage(self.cameras, robot, self.rate_hz),
            CameraImages(self.cameras, first.height, first.width),
        ]


TASK = CameraPickPlaceTask

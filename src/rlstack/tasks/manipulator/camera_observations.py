"""Observation terms of arms with cameras: the goal, and the tool's pose at the time of each image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlstack.control.inverse_kinematics import yaw_of
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import Screws, chain_of, tool_motion
from rlstack.tasks.core.observations import Signal
from rlstack.tasks.core.pipeline import Tensors, Term
from rlstack.tasks.manipulator.observations import DECIMETRES, GOAL

OLDEST_S = 0.25
"""Length of the joint history; older images count as this old."""


def goal_position(middle_m: Sequence[float]) -> Signal:
    """Return the goal's position from the middle of the workspace; the object's position is only in the images."""
    meaning = "goal_position from the middle of the workspace"
    return Signal(GOAL, 3, "dm", meaning, DECIMETRES, signal="goal_position", centre=middle_m)


class ToolPoseAtImage(Term):
    """Tool pose at the time of each image, from the joint history and the image's age.

    Prepared for each camera: ``NAME_tool_position`` (batch, 3) m and ``NAME_tool_yaw`` (batch, 2) cos and sin.

    Args:
        cameras: Their names.
        robot: The arm.
        rate_hz: Control rate.
    """

    name, unit = "hand_then", "dm, -"

    def __init__(self, cameras: Sequence[str], robot: Manipulator, rate_hz: float) -> None:
        super().__init__()
        self.cameras, self.rate_hz, self.size = tuple(cameras), rate_hz, 5 * len(cameras)
        self.meaning = f"tool at the time of the image minus tool now, its yaw's cos and sin: {', '.join(cameras)}"
        self.steps = math.ceil(OLDEST_S * rate_hz)
        self.memory: Mapping[str, tuple[int, ...]] = {"joints_before": (self.steps, len(robot.drives))}
        chain = chain_of(robot)
        self.arm = len(chain.index)  # the pipeline ensures that these joints come first
        for name, array in chain.screws._asdict().items():
            self.register_buffer(f"_{name}", torch.tensor(array, dtype=torch.float32))
        self.register_buffer("back", torch.arange(self.steps + 1, dtype=torch.float32))

    back: Tensor

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the tool's past poses and the joint history, newest first."""
        now, started = inputs["joint_position"][:, None], inputs["started"][:, :, None]
        before = started * memory["joints_before"] + (1.0 - started) * now  # the arm was at rest before
        track = torch.cat([now, before], dim=1)
        then = [joints_at(track, inputs[f"{name}_image_age"], self.rate_hz, self.back) for name in self.cameras]
        screws = Screws(*(getattr(self, f"_{name}") for name in Screws._fields))
        tools = tool_motion(screws, torch.cat(then, dim=0)[:, : self.arm])
        batch = now.shape[0]
        found = {"joint_track": track}
        for k, name in enumerate(self.cameras):
            rows = slice(k * batch, (k + 1) * batch)
            found[f"{name}_tool_position"] = tools.position[rows]
            found[f"{name}_tool_yaw"] = yaw_of(tools.rotation[rows])
        return found

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 5 for each camera)."""
        now, columns = inputs["tool_position"], []
        for name in self.cameras:
            columns += [DECIMETRES * (inputs[f"{name}_tool_position"] - now), inputs[f"{name}_tool_yaw"]]
        return torch.cat(columns, dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Push the present joints to the history, without the oldest."""
        return {"joints_before": inputs["joint_track"][:, : self.steps]}


def joints_at(track: Tensor, age: Tensor, rate_hz: float, back: Tensor) -> Tensor:
    """Return joint positions (batch, joints) at an image's time, interpolated between control periods.

    Args:
        track: (batch, steps, joints), the present and each earlier period.
        age: (batch, 1) s.
        rate_hz: Control rate.
        back: (steps,) 0, 1, 2, ...
    """
    when = (rate_hz * age).clamp(0.0, float(track.shape[1] - 1))
    weight = torch.relu(1.0 - (when - back).abs())  # hat functions: linear interpolation
    return (weight[:, :, None] * track).sum(dim=1)

"""The racing task's training step for one car: sensing, observation, command, dynamics, reward; fused into kernels.

What a car cannot compute from its own rows, where it is on its track and what its lidar sees there, is looked up
between two kernels: one moves the car and judges it, the other observes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlstack.fused import Kernel, clip, maximum, minimum, where
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.dynamics import BaseModel, advance, heading
from rlstack.sim.bases.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.tasks.core import tracing
from rlstack.tasks.core.pipeline import Pipeline, Tensors
from rlstack.tasks.wheeled_base.racing.tracks import FRAME_WIDTH

Rows = np.ndarray[Any, Any]

_STEEPEST = 12.0
"""Greatest slope of a wall in a ray's way that is believed: a ray that grazes soon meets another wall."""

TERMS = ("progress", "wall", "bend_change", "speed_change", "grip", "lost")
"""Of the reward, in order."""

PRIVILEGED = ("aside", "heading", "curvature", "half_width")
"""What only a critic sees."""


class RacingStep:
    """The step of one car, as kernels over all of them.

    What goes in and out, as (rows, N) arrays:

    - ``state``, ``parameters``: as in :mod:`rlstack.sim.bases.layout`
    - ``memory``: the pipeline's memory, then the last action
    - ``frame``: the track at the car before the step, :data:`rlstack.tasks.wheeled_base.racing.tracks.FRAME_WIDTH`
    - ``ranges``: m, of the rays that the policy looks at
    - ``noise``: unit normals, of the ranges, the speed and the turning speed
    - ``action``: as the policy gives it, unclipped
    - ``past_k``: the command k periods ago

    Args:
        task: The task's configuration.
        robot: What drives.
        pipeline: On the CPU.
        model: The dynamics.
        device: Where the kernels run.
    """

    def __init__(self, task: Any, robot: WheeledBase, pipeline: Pipeline, model: BaseModel, device: str = "cpu"):
        self.task, self.robot, self.pipeline, self.model, self.device = task, robot, pipeline, model, device
        self.memory: dict[str, slice] = {}
        start = 0
        for name, shape in (*pipeline.memory.items(), ("last_action", (pipeline.action_size,))):
            self.memory[name] = slice(start, start + int(np.prod(shape)))
            start = self.memory[name].stop
        self.memory_width = start
        self.rays: tuple[int, ...] = task.ray_indices(robot)
        """Of the robot's scan: those that the policy looks at."""
        self.noise_width = len(self.rays) + 2
        self.past = [f"past_{k}" for k in range(1, model.past_commands + 1)]

    @cached_property
    def act(self) -> Kernel:
        """``next_state``, ``next_memory``, ``command``, ``reward``, its ``terms`` and ``lost`` (1 or 0)."""
        return Kernel(self._act, self._done(), device=self.device)

    @cached_property
    def observe(self) -> Kernel:
        """The ``actor`` observation, and what is ``privileged``: the critic's alone."""
        return Kernel(self._observe, {**self._seen(), "frame": FRAME_WIDTH}, device=self.device)

    @cached_property
    def reverse(self) -> Kernel:
        """The reverse mode of acting and then observing with ``next_ranges`` and ``next_noise``.

        ``next_pose`` is where the ranges were measured (place, z and w of the heading), ``next_slopes`` those of what
        was met, :meth:`rlstack.sim.bases.wall_lidar.WallLidar.prepare`.
        """
        rays = len(self.rays)
        following = {"next_ranges": rays, "next_slopes": rays, "next_noise": self.noise_width, "next_pose": 4}
        kept = ("next_state", "next_memory", "reward", "actor", *(["command"] if self.past else []))
        return Kernel(
            lambda **rows: {name: value for name, value in self._cycle(**rows).items() if name in kept},
            {**self._done(), **following},
            ("state", "memory", "action", *self.past),
            self.device,
        )

    def _seen(self) -> dict[str, int]:
        return {
            "state": STATE_WIDTH,
            "memory": self.memory_width,
            "ranges": len(self.rays),
            "noise": self.noise_width,
        }

    def _done(self) -> dict[str, int]:
        width = self.model.command_width
        actions = {"action": self.pipeline.action_size, **dict.fromkeys(self.past, width)}
        return {**self._seen(), "parameters": PARAMETER_WIDTH, "frame": FRAME_WIDTH, **actions}

    def _cycle(self, **rows: Rows) -> dict[str, Rows]:
        made = self._act(**rows)
        after = {"state": made["next_state"], "memory": made["next_memory"], "noise": rows["next_noise"]}
        ranges = rows["next_ranges"]
        if self.task.scan_gradient:
            ranges = self._shifted(ranges, rows["next_slopes"], made["next_state"], rows["next_pose"])
        return {**made, "actor": self._actor({**after, "ranges": ranges})}

    def _shifted(self, ranges: Rows, slopes: Rows, state: Rows, pose: Rows) -> Rows:
        """Return the ranges as they change when the car is a little beside the pose that they were measured at.

        A ray goes on meeting the piece of wall that it met; at the end of sight the range is constant.
        """
        lidar = self.robot.lidars["scan"]
        x, y, z0, w0 = pose
        z, w = state[STATE["turn"]]
        cos, sin = w0 * w0 - z0 * z0, 2.0 * z0 * w0
        dx, dy = state[STATE["position"]] - np.array([x, y], dtype=object)
        turned = 2.0 * (z * w0 - w * z0)
        mount_x, mount_y, _ = lidar.position_m
        ahead = dx * cos + dy * sin - mount_y * turned
        aside = dy * cos - dx * sin + mount_x * turned
        angles = lidar.angles_rad[list(self.rays)] + lidar.rpy_rad[2]
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        shifted = []
        for measured, slope, (c, s) in zip(ranges, slopes, rays):
            steep = clip(slope, -_STEEPEST, _STEEPEST)
            change = measured * steep * turned - (c + steep * s) * ahead - (s - steep * c) * aside
            shifted.append(measured + where(measured < 0.99 * lidar.range_max_m, change, 0.0))
        return np.array(shifted, dtype=object)

    def _observe(self, **rows: Rows) -> dict[str, Rows]:
        state, frame = rows["state"], rows["frame"]
        cos, sin = heading(state)
        c, s, bend, width = frame[2:6]
        _, aside = beside(frame, *state[STATE["position"]])
        privileged = [aside, sin * c - cos * s, bend, width]
        return {"actor": self._actor(rows), "privileged": np.array(privileged, dtype=object)}

    def _actor(self, rows: Mapping[str, Rows]) -> Rows:
        memory = self._remembered(rows["memory"])
        return np.asarray(tracing.call(self._actor_observation, self._sensed(rows), memory), dtype=object)

    def _act(self, **rows: Rows) -> dict[str, Rows]:
        memory, state, frame = self._remembered(rows["memory"]), rows["state"], rows["frame"]
        action = clip(rows["action"], -1.0, 1.0)
        after, command = tracing.call(self._actor_memory, self._sensed(rows), memory, action)
        moved = advance(state, rows["parameters"], [command, *(rows[name] for name in self.past)], self.model)
        reward, task = self.task.reward, self.task
        before, _ = beside(frame, *state[STATE["position"]])
        beyond, _ = beside(frame, *moved[STATE["position"]])
        clearance = self._clearance(moved, frame)
        short = maximum(1.0 - clearance * (1.0 / reward.margin_m), 0.0)
        period = 1.0 / task.rate_hz
        bent = (after["commanded"][1] - memory["commanded"][1]) * task.rate_hz
        ahead, rate = moved[STATE["velocity"].start], moved[STATE["yaw_rate"].start]
        asked = ahead * ahead * moved[STATE["curvature"].start]
        pushed = moved[STATE["ramp"].start]
        of_tyres = np.sqrt(asked * asked + pushed * pushed + 1e-6)
        sliding = maximum(of_tyres * (1.0 / reward.grip_m_s2) - 1.0, 0.0)
        changed = action[0] - memory["last_action"][0]
        values = [
            reward.progress * (beyond - before),
            # beyond the wall it grows no faster: a few cars that are lost must not drown the others
            reward.wall * period * where(short < 1.0, short * short, 2.0 * short - 1.0),
            reward.bend_change * period * bent * bent,
            reward.speed_change * period * changed * changed,
            reward.grip * period * sliding * sliding,
        ]
        finite = np.abs(np.concatenate([moved, action])).sum() < 1e30
        lost = (clearance < -task.through_m) | (np.abs(rate) > 20.0) | ~finite
        values = [where(finite, entry, 0.0) for entry in values]
        values.append(where(lost, reward.lost, 0.0))
        return {
            # a lost car waits on the middle of the track for its restart
            "next_state": where(lost, self._waiting(frame), moved),
            "next_memory": np.concatenate([*(after[n].reshape(-1) for n in self.pipeline.memory), action]),
            "command": command,
            "reward": np.array([sum(values)], dtype=object),
            "terms": np.array(values, dtype=object),
            "lost": np.array([lost], dtype=object),
        }

    def _clearance(self, state: Rows, frame: Rows) -> Any:
        """Return the least distance from the corners of the car's outline to a wall, m; below 0 beyond it."""
        x, y = state[STATE["position"]]
        cos, sin = heading(state)
        least: Any = None
        for along, aside in self.robot.corners_m:
            _, out = beside(frame, x + (cos * along - sin * aside), y + (sin * along + cos * aside))
            free = frame[5] - np.abs(out)
            least = free if least is None else minimum(least, free)
        return least

    def _waiting(self, frame: Rows) -> Rows:
        still = np.zeros(STATE_WIDTH, dtype=object)
        still[STATE["position"]], still[STATE["turn"]] = frame[:2], frame[6:8]
        return still

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return what the policy senses, with noise, by the names of its inputs."""
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        lidar = self.robot.lidars["scan"]
        scan = np.ones(lidar.rays, dtype=object)  # of those that it does not look at, nothing comes
        seen = rows["ranges"] + noise[: len(self.rays)] * lidar.noise_m
        scan[list(self.rays)] = clip(seen, lidar.range_min_m, lidar.range_max_m)
        ahead, side = state[STATE["velocity"]]
        rate = state[STATE["yaw_rate"].start]
        velocity = [ahead + noise[-2] * sigma.linear_velocity_m_s, side, 0.0]
        return {
            "scan": scan,
            "linear_velocity": np.array(velocity, dtype=object),
            "angular_velocity": np.array([0.0, 0.0, rate + noise[-1] * sigma.angular_velocity_rad_s], dtype=object),
        }

    def _remembered(self, rows: Rows) -> dict[str, Rows]:
        shapes = {**self.pipeline.memory, "last_action": (self.pipeline.action_size,)}
        return {name: rows[where_].reshape(shapes[name]) for name, where_ in self.memory.items()}

    def _actor_observation(self, inputs: Tensors, memory: Tensors) -> Any:
        return self.pipeline.observe(self.pipeline.prepare(inputs, memory), memory)

    def _actor_memory(self, inputs: Tensors, memory: Tensors, action: Any) -> Any:
        prepared = self.pipeline.prepare(inputs, memory)
        return self.pipeline.remember(prepared, memory, action), self.pipeline.command(action, prepared)


def beside(frame: Rows, x: Any, y: Any) -> tuple[Any, Any]:
    """Return how far ahead of the frame's point and left of the middle a place is, m; as ``Track.beside``."""
    dx, dy = x - frame[0], y - frame[1]
    c, s, bend = frame[2], frame[3], frame[4]
    ahead, left = dx * c + dy * s, dy * c - dx * s
    inner = 1.0 - bend * left
    around = bend * ahead
    angle = around / inner
    out = (2.0 * left - bend * (ahead * ahead + left * left)) / (1.0 + np.sqrt(inner * inner + around * around))
    return ahead / inner * (1.0 - angle * angle * (1.0 / 3.0)), out

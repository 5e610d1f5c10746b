"""Fused step of racing cars: progress along the track, walls, tyres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from rlstack.fused import clip, greater, maximum, minimum, where
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import Lidar
from rlstack.sim.batch_wheeled_base.dynamics import WheeledBaseModel, advance, heading
from rlstack.sim.batch_wheeled_base.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import NEIGHBOUR_RAD
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.step import FusedStep, Rows
from rlstack.tasks.wheeled_base.racing.tracks import FRAME_WIDTH

_STEEPEST = 12.0
"""Bound on the slope of a wall along a ray: a grazing ray soon meets another wall."""

TERMS = ("progress", "wall", "bend_change", "speed_change", "grip", "lost")
"""Names of the reward terms, in order."""


class RacingStep(FusedStep):
    """The step of one car.

    Its inputs are ``frame``, the track at the car before the step
    (:data:`rlstack.tasks.wheeled_base.racing.tracks.FRAME_WIDTH`), and ``ranges``, m, of the rays that the policy
    uses. The reverse mode also reads ``next_pose``, at which the ranges were measured (position, z and w of the
    heading), and ``next_slopes`` of the walls (:mod:`rlstack.sim.batch_wheeled_base.wall_lidar`). The noise is of
    ranges, speed and turning rate.

    Args as for :class:`FusedStep`.
    """

    state_width, parameter_width = STATE_WIDTH, PARAMETER_WIDTH
    advance = advance
    privileged_terms = (
        ("aside", 1, "m", "left of the middle"),
        ("heading", 1, "1", "sine of the heading beside it"),
        ("curvature", 1, "1/m", "of the middle"),
        ("half_width", 1, "m", "of the track"),
    )

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, model: WheeledBaseModel, device: str = "cpu"
    ) -> None:
        self.rays: tuple[int, ...] = task.ray_indices(robot)
        """Rays of the robot's scan that the policy uses."""
        rays, noise = len(self.rays), len(self.rays) + 2
        super().__init__(
            task,
            robot,
            pipeline,
            model,
            command=model.command_width,
            noise=noise,
            inputs={"frame": FRAME_WIDTH, "ranges": rays},
            following={"ranges": rays, "slopes": rays, "noise": noise, "pose": 4},
            device=device,
        )

    def _next_inputs(self, rows: Mapping[str, Rows], state: Rows) -> dict[str, Rows]:
        ranges = rows["next_ranges"]
        if self.task.scan_gradient:
            ranges = self._shifted(ranges, rows["next_slopes"], state, rows["next_pose"])
        return {"ranges": ranges, "noise": rows["next_noise"]}

    def _shifted(self, ranges: Rows, slopes: Rows, state: Rows, pose: Rows) -> Rows:
        """Return the ranges to first order around the pose that they were measured at.

        Each ray keeps meeting the same wall segment; at its maximum the range is constant.
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

    def _privileged(self, rows: Mapping[str, Rows]) -> list[Any]:
        state, frame = rows["state"], rows["frame"]
        cos, sin = heading(state)
        c, s, bend, width = frame[2:6]
        _, aside = beside(frame, *state[STATE["position"]])
        return [aside, sin * c - cos * s, bend, width]

    def _rewarded(
        self, moved: Rows, action: Rows, memory: Mapping[str, Rows], after: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> tuple[list[Any], Any]:
        state, frame = rows["state"], rows["frame"]
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
            # linear beyond the wall, so that a few lost cars do not dominate the gradient
            reward.wall * period * where(short < 1.0, short * short, 2.0 * short - 1.0),
            reward.bend_change * period * bent * bent,
            reward.speed_change * period * changed * changed,
            reward.grip * period * sliding * sliding,
        ]
        return values, (clearance < -task.through_m) | (np.abs(rate) > 20.0)

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

    def _parked(self, rows: Mapping[str, Rows]) -> Rows:
        # on the centre line
        still = np.zeros(STATE_WIDTH, dtype=object)
        still[STATE["position"]], still[STATE["turn"]] = rows["frame"][:2], rows["frame"][6:8]
        return still

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        lidar = self.robot.lidars["scan"]
        scan = np.ones(lidar.rays, dtype=object)  # unused rays have no effect
        scan[list(self.rays)] = noisy_rays(rows["ranges"], noise[: len(self.rays)], lidar, self.rays)
        ahead, side = state[STATE["velocity"]]
        rate = state[STATE["yaw_rate"].start]
        velocity = [ahead + noise[-2] * sigma.linear_velocity_m_s, side, 0.0]
        return {
            "scan": scan,
            "linear_velocity": np.array(velocity, dtype=object),
            "angular_velocity": np.array([0.0, 0.0, rate + noise[-1] * sigma.angular_velocity_rad_s], dtype=object),
        }


def noisy_rays(ranges: Rows, noise: Rows, lidar: Lidar, rays: Sequence[int]) -> Rows:
    """Return ranges (rays,) with a lidar's noise and dropouts, as :class:`.obstacle_lidar.ObstacleLidar` makes them.

    Args:
        ranges: Of the observed rays, m.
        noise: Unit normals, one for each.
        lidar: The lidar as in the robot file.
        rays: Indices of the observed rays, evenly spaced.
    """
    low, high, increment = lidar.range_min_m, lidar.range_max_m, lidar.angle_increment_rad
    seen = []
    for reach_m, normal in zip(ranges, noise):
        sigma: Any = lidar.noise_m
        if lidar.noise_share:
            sigma = np.sqrt(lidar.noise_m**2 + (lidar.noise_share * reach_m) ** 2)
        seen.append(where(greater(high, reach_m), clip(reach_m + sigma * normal, low, high), high))
    step = increment * (rays[1] - rays[0]) if len(rays) > 1 else np.inf
    if not lidar.dropout or (increment < 0.999 * step and increment <= NEIGHBOUR_RAD):
        # the neighbour that replaces a dropped ray is not observed, and reads nearly the same
        return np.array(seen, dtype=object)
    beyond, reach = NormalDist().inv_cdf(1.0 - 0.5 * lidar.dropout), int(NEIGHBOUR_RAD / step * (1.0 + 1e-9))
    dropped = [greater(np.abs(normal), beyond) for normal in noise]
    filled = []
    for k, own in enumerate(seen):
        shorter: Any = high + 1.0
        for way in (-1, 1):
            side: Any = high + 1.0
            for other in (k + way * distance for distance in range(reach, 0, -1)):
                if 0 <= other < len(rays):
                    side = where(dropped[other], side, seen[other])
            shorter = minimum(shorter, side)
        filled.append(where(dropped[k], where(greater(shorter, high), low, shorter), own))
    return np.array(filled, dtype=object)


def beside(frame: Rows, x: Any, y: Any) -> tuple[Any, Any]:
    """Return a position's distances ahead of the frame's point and left of the centre line, m; see ``Track.beside``."""
    dx, dy = x - frame[0], y - frame[1]
    c, s, bend = frame[2], frame[3], frame[4]
    ahead, left = dx * c + dy * s, dy * c - dx * s
    inner = 1.0 - bend * left
    around = bend * ahead
    angle = around / inner
    out = (2.0 * left - bend * (ahead * ahead + left * left)) / (1.0 + np.sqrt(inner * inner + around * around))
    return ahead / inner * (1.0 - angle * angle * (1.0 / 3.0)), out

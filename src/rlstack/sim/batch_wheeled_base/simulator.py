"""The batch simulator of mobile bases: N bases, each in its own map."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from rlstack.arrays import Array, Array32, Index, Mask
from rlstack.fused import Kernel, zeros
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.batch_wheeled_base.clearance import Disc, clearance
from rlstack.sim.batch_wheeled_base.dynamics import WheeledBaseModel, advance
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import ObstacleLidar
from rlstack.sim.batch_wheeled_base.parameters import base_model, nominal
from rlstack.sim.vector import BATCH

# Compiled kernels hold no robot data, so all simulators share them; compiling takes most of a simulator's
# construction time.


@lru_cache(maxsize=16)
def _advance_of(model: WheeledBaseModel) -> Kernel:
    past = [f"command_{k}" for k in range(model.past_commands + 1)]
    return Kernel(
        lambda state, parameters, **commands: {
            "next": advance(state, parameters, [commands[name] for name in past], model)
        },
        {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, **dict.fromkeys(past, model.command_width)},
    )


@lru_cache(maxsize=16)
def _clearance_of(footprint: tuple[Disc, ...], boxes: int, circles: int) -> Kernel:
    return Kernel(
        lambda state, boxes, circles: {
            "clearance": np.array(
                [clearance(state[STATE["position"]], state[STATE["turn"]], footprint, boxes, circles)], dtype=object
            )
        },
        {"state": STATE_WIDTH, "boxes": boxes, "circles": circles},
    )


_lidar_of = lru_cache(maxsize=16)(ObstacleLidar)


def planar_signals(pose: Array, twist: Array) -> dict[str, Array]:
    """Return the signals of planar robots at ``pose`` (N, 3) with ``twist`` (N, 3)."""
    level = np.zeros((len(pose), 1))
    return {
        "position": np.concatenate([pose[:, :2], level], axis=1),
        "orientation": frames.from_yaw(pose[:, 2]),
        "linear_velocity": np.concatenate([twist[:, :2], level], axis=1),
        "angular_velocity": np.concatenate([level, level, twist[:, 2:]], axis=1),
    }


class PlanarSimulator:
    """N bases that advance together in float32, initially at rest at the origin; subclasses add surroundings.

    Args:
        robot: The base.
        count: N.
        rate_hz: Control rate; :meth:`step` advances one period.
        parameters: (PARAMETER_WIDTH, N); by default the robot file's nominal values.
        seed: Seed of the lidar noise.
    """

    label = BATCH

    def __init__(
        self,
        robot: WheeledBase,
        count: int,
        *,
        rate_hz: float,
        parameters: Array32 | None = None,
        seed: int = 0,
    ) -> None:
        self.robot, self.count, self.most = robot, count, count
        self.model = model = base_model(robot, rate_hz)
        self._rng = np.random.default_rng(seed)
        self._state, self._next = zeros(STATE_WIDTH, count), zeros(STATE_WIDTH, count)
        self._parameters = zeros(PARAMETER_WIDTH, count)
        self._parameters[:] = nominal(robot, count) if parameters is None else parameters
        self._commands = [zeros(model.command_width, count) for _ in range(model.past_commands + 1)]
        self._advance = _advance_of(model)
        self.place(np.zeros((count, 3)))

    def place(self, pose: Array) -> None:
        """Place the robots at rest at (N, 3): x and y in m, yaw in rad."""
        self.restart(np.arange(self.count), pose)

    def restart(self, index: Index, pose: Array, parameters: Array32 | None = None) -> None:
        """Place some robots (n) at rest at (n, 3), with parameters (PARAMETER_WIDTH, n); None: those that they have."""
        self._state[:, index] = 0.0
        self._state[STATE["position"], index] = pose[:, :2].T
        self._state[STATE["turn"], index] = np.stack([np.sin(0.5 * pose[:, 2]), np.cos(0.5 * pose[:, 2])])
        for command in self._commands:
            command[:, index] = 0.0
        if parameters is not None:
            self._parameters[:, index] = parameters

    @property
    def arrays(self) -> dict[str, Array32]:
        """The arrays (rows, N) that determine the future, by name."""
        commands = {f"command_{k}": array for k, array in enumerate(self._commands)}
        return {"state": self._state, "parameters": self._parameters, **commands}

    def step(self, command: Array) -> None:
        """Advance one period under ``command`` (N, command_width), m/s and rad/s, which arrives now."""
        for older, newer in zip(reversed(self._commands), reversed(self._commands[:-1])):
            older[:] = newer
        self._commands[0][:] = np.asarray(command).T
        self._advance({**self.arrays, "next": self._next})
        self._state[:] = self._next

    def stop(self, which: Mask) -> None:
        """Stop the robots ``which`` (N,) at once where they are."""
        for name in ("velocity", "yaw_rate", "setpoint", "ramp"):
            self._state[STATE[name]][:, which] = 0.0

    def pose(self) -> Array:
        """Return the poses (N, 3): x and y in m, yaw in rad."""
        z, w = self._state[STATE["turn"]].astype(float)
        return np.stack([*self._state[STATE["position"]].astype(float), 2.0 * np.arctan2(z, w)], axis=1)

    def twist(self) -> Array:
        """Return the twists (N, 3): forward and leftward speed, m/s, and yaw rate, rad/s."""
        return np.concatenate([self._state[STATE["velocity"]], self._state[STATE["yaw_rate"]]]).T.astype(float)

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Place the robots at rest at ``position`` (N, 3) and ``orientation`` (N, 4)."""
        self.place(np.concatenate([state["position"][:, :2], frames.yaw(state["orientation"])[:, None]], axis=1))

    def state(self) -> dict[str, Array]:
        """Return the signals of :func:`planar_signals`."""
        return planar_signals(self.pose(), self.twist())

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class WheeledBaseSimulator(PlanarSimulator):
    """N bases among boxes and circles.

    Args:
        robot: The base.
        boxes: (N, 6 B) as in :mod:`.layout`.
        circles: (N, 5 C) circles; the last ones may be people, see :meth:`set_circles`.
        settings: ``rate_hz``, ``parameters`` and ``seed`` of :class:`PlanarSimulator`.
    """

    def __init__(self, robot: WheeledBase, boxes: Array32, circles: Array32, **settings: Any) -> None:
        count = len(boxes)
        super().__init__(robot, count, **settings)
        self._boxes, self._circles = zeros(boxes.shape[1], count), zeros(circles.shape[1], count)
        self._boxes[:], self._circles[:] = boxes.T, circles.T
        self._clearance = zeros(1, count)
        self._free = _clearance_of(robot.footprint, boxes.shape[1], circles.shape[1])
        self._lidar: ObstacleLidar | None = None
        if "scan" in robot.lidars:
            lidar = robot.lidars["scan"]
            self._lidar = _lidar_of(lidar, boxes.shape[1] // BOX_ROWS, circles.shape[1] // CIRCLE_ROWS)
            self._ranges, self._noise = zeros(lidar.rays, count), zeros(lidar.rays, count)
            self._measure = self._lidar.prepare(self._state, self._boxes, self._circles, self._ranges, self._noise)

    def set_circles(self, first: int, circles: Array) -> None:
        """Set the circles from index ``first`` on to (N, k, 5): centre, radius, velocity, m and m/s."""
        rows = circles.reshape(self.count, -1).T
        self._circles[CIRCLE_ROWS * first : CIRCLE_ROWS * first + len(rows)] = rows

    def scan(self, *, noise: bool = True) -> Array:
        """Return ranges (N, rays) m, all finite, as the signal ``scan``, by default with noise."""
        if self._lidar is None:
            raise ValueError(f"{self.robot.name} has no lidar called scan")
        self._noise[:] = self._rng.standard_normal(self._noise.shape, dtype=np.float32) if noise else 0.0
        self._measure()
        return self._ranges.T.astype(float)

    def clearance(self) -> Array:
        """Return the clearance (N,) of each footprint from the nearest obstacle, m; negative if they overlap."""
        arrays: dict[str, Any] = {"state": self._state, "boxes": self._boxes, "circles": self._circles}
        self._free({**arrays, "clearance": self._clearance})
        return self._clearance[0].astype(float)

"""Simulated cameras of N arms, with frame rates and latencies as over topics."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import in_order, value
from rlstack.sim.arms.camera_renderer import ArmCameraRenderer
from rlstack.sim.arms.scene import Build
from rlstack.sim.arms.visual_randomization import Appearance, AppearanceRange, draw_appearance
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator

if TYPE_CHECKING:
    from torch import Tensor

Range = tuple[float, float]

_ROUNDING_S = 1e-9


@dataclass(frozen=True, kw_only=True)
class CameraRange:
    """Ranges of an episode's camera parameters."""

    rate_hz: Range = value((10.0, 20.0), unit="Hz", above=0.0)
    latency_s: Range = value((0.0, 0.1), unit="s", at_least=0.0)
    """Time from an image's exposure to its arrival."""
    look: AppearanceRange = field(default_factory=AppearanceRange)

    def __post_init__(self) -> None:
        in_order(self)


@dataclass
class _Stream:
    """The image stream of one camera in one world: next exposure, latency, images in transit."""

    next_s: float = 0.0
    period_s: float = 0.1
    latency_s: float = 0.0
    taken_s: float = 0.0
    coming: deque[tuple[float, NDArray[np.uint8]]] = field(default_factory=deque)
    """Exposure times, oldest first."""


class CameraBuffer:
    """Latest images of C cameras in each of N worlds, with their age.

    Args:
        robot: The arm, with these cameras in its file.
        build: Adds the objects.
        cameras: Their names.
        handled: Name of the manipulated box.
        ranges: Ranges of camera parameters.
        count: N.
        seed: Seed of random parameters.

    Raises:
        UserError: The robot lacks the cameras, or rendering is not available.
    """

    def __init__(
        self,
        robot: Manipulator,
        build: Build,
        cameras: tuple[str, ...],
        handled: str,
        ranges: CameraRange,
        count: int,
        seed: int,
    ) -> None:
        self.renderer = ArmCameraRenderer(robot, build, cameras, handled)
        self.cameras, self._ranges, self.count = cameras, ranges, count
        self.seed(seed)
        self._looks = draw_appearance(ranges.look, len(cameras), self._rng, count)
        self._streams = [[_Stream() for _ in cameras] for _ in range(count)]
        size = (count, self.renderer.height, self.renderer.width, 3)
        self._shown = {name: np.zeros(size, dtype=np.uint8) for name in cameras}
        self._age = {name: np.zeros((count, 1)) for name in cameras}
        self._half = np.zeros((count, 3))

    def seed(self, seed: int) -> None:
        """Seed the generators."""
        # one generator per world: draws do not depend on the number of worlds
        self._rng = np.random.default_rng((seed, 2, self.count))

    def restart(self, index: Index, worlds: MujocoSimulator, half: Array) -> None:
        """Begin episodes in some worlds with new appearances, rates and latencies; the cameras are already running.

        Args:
            index: (n,) indices of the worlds.
            worlds: The worlds at the start of their episodes.
            half: (n, 3) half lengths of the object, m.
        """
        ranges, rng = self._ranges, self._rng
        self._half[index] = half
        self._looks.put(index, draw_appearance(ranges.look, len(self.cameras), rng, len(index)))
        shape = (len(index), len(self.cameras))
        periods, latencies = 1.0 / rng.uniform(*ranges.rate_hz, shape), rng.uniform(*ranges.latency_s, shape)
        ages = latencies + rng.random(shape) * periods
        for row, world in enumerate(index.tolist()):
            now = float(worlds.time_s[world])
            for k, name in enumerate(self.cameras):
                stream = self._streams[world][k]
                self._shown[name][world] = self._picture(worlds.state[world], world, k)
                stream.period_s, stream.latency_s = float(periods[row, k]), float(latencies[row, k])
                stream.taken_s = now - float(ages[row, k])
                stream.next_s = stream.taken_s + stream.period_s
                stream.coming.clear()
                while stream.next_s <= now:  # nothing has moved yet: these images are the same
                    stream.coming.append((stream.next_s, self._shown[name][world].copy()))
                    stream.next_s += stream.period_s
                self._age[name][world] = ages[row, k]

    def redraw_appearance(self, index: Index) -> None:
        """Give some worlds (n) new appearances from their next images on."""
        self._looks.put(index, draw_appearance(self._ranges.look, len(self.cameras), self._rng, len(index)))

    def signals(self, worlds: MujocoSimulator) -> dict[str, NDArray[Any]]:
        """Return by camera ``NAME_image`` (N, height, width, 3) uint8 and ``NAME_image_age`` (N, 1) s, at present.

        Call it after every control period: images are taken at their time within the last one.
        """
        now = worlds.time_s
        for world, streams in enumerate(self._streams):
            for k, stream in enumerate(streams):
                self._advance(worlds, world, k, stream, float(now[world]))
        shown = {f"{name}_image": self._shown[name].copy() for name in self.cameras}
        return {**shown, **{f"{name}_image_age": self._age[name].copy() for name in self.cameras}}

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state as tensors and plain data."""
        streams = [
            [(s.next_s, s.period_s, s.latency_s, s.taken_s, [(at, _tensor(one)) for at, one in s.coming]) for s in row]
            for row in self._streams
        ]
        return {
            "looks": {one.name: _tensor(getattr(self._looks, one.name)) for one in fields(self._looks)},
            "streams": streams,
            "shown": {name: _tensor(array) for name, array in self._shown.items()},
            "age": {name: _tensor(array) for name, array in self._age.items()},
            "half": _tensor(self._half),
            "random": dict(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._looks = Appearance(**{name: array.numpy().copy() for name, array in state["looks"].items()})
        self._streams = [
            [
                _Stream(next_s, period_s, latency_s, taken_s, deque((at, one.numpy().copy()) for at, one in coming))
                for next_s, period_s, latency_s, taken_s, coming in row
            ]
            for row in state["streams"]
        ]
        self._shown = {name: array.numpy().copy() for name, array in state["shown"].items()}
        self._age = {name: array.numpy().copy() for name, array in state["age"].items()}
        self._half = state["half"].numpy().copy()
        self._rng.bit_generator.state = state["random"]

    def close(self) -> None:
        """Release the renderer."""
        self.renderer.close()

    def _advance(self, worlds: MujocoSimulator, world: int, k: int, stream: _Stream, now: float) -> None:
        while stream.next_s <= now + _ROUNDING_S:
            stream.coming.append((stream.next_s, self._picture(_at(worlds, world, stream.next_s), world, k)))
            stream.next_s += stream.period_s
        name = self.cameras[k]
        while stream.coming and stream.coming[0][0] + stream.latency_s <= now + _ROUNDING_S:
            stream.taken_s, self._shown[name][world] = stream.coming.popleft()
        self._age[name][world] = now - stream.taken_s

    def _picture(self, state: Array, world: int, k: int) -> NDArray[np.uint8]:
        return self.renderer.render(state, self._half[world], self._looks, world, k)


def _at(worlds: MujocoSimulator, world: int, time_s: float) -> Array:
    """Return the first state (width,) of the last control period at or after a time."""
    passed = worlds.passed[world]
    late = int(np.searchsorted(passed[:, 0], time_s - _ROUNDING_S))
    return np.asarray(passed[min(late, len(passed) - 1)])


def _tensor(array: NDArray[Any]) -> Tensor:
    import torch  # imported here: a robot's computer has no torch, and saves no runs

    return torch.from_numpy(array.copy())

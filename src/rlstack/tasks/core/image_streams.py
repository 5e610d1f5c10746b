"""Simulated cameras of N worlds, with frame rates and latencies as over topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.schema import in_order, value
from rlstack.sim.visual_randomization import Appearance, AppearanceRange, draw_appearance

if TYPE_CHECKING:
    from torch import Tensor

Range = tuple[float, float]

_ROUNDING_S = 1e-9


class Worlds(Protocol):
    """N worlds whose states determine what cameras see."""

    @property
    def state(self) -> Array:
        """(N, width)."""

    @property
    def time_s(self) -> Array:
        """(N,) time since each world's start, s."""

    def state_at(self, world: int, time_s: float) -> Array:
        """Return the state (width,) of a world at a time in the last control period."""


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
class _Exposure:
    """An image, which is rendered once somebody looks at it."""

    state: Array | None
    """(width,) the world at its time; None: it is rendered."""
    image: NDArray[np.uint8] | None = None
    places: Array | None = None
    """(points, 2); see :attr:`rlstack.sim.camera_renderer.CameraRenderer.places`."""


@dataclass
class _Stream:
    """The image stream of one camera in one world: next exposure, latency, images in transit."""

    next_s: float = 0.0
    period_s: float = 0.1
    latency_s: float = 0.0
    taken_s: float = 0.0
    newest: _Exposure | None = None
    """The image that has arrived last; None: it is shown."""
    coming: deque[tuple[float, _Exposure]] = field(default_factory=deque)
    """Exposure times, oldest first."""


class ImageStreams(ABC):
    """Latest images of C cameras in each of N worlds, with their age.

    An image is kept as the state of its world, and rendered only if it is still the newest when somebody looks.

    Args:
        cameras: Their names.
        renderer: Has ``height`` and ``width`` of images, ``places`` of the points that it follows, and ``close``.
        ranges: Ranges of camera parameters.
        count: N.
        seed: Seed of random parameters.
    """

    def __init__(self, cameras: Sequence[str], renderer: Any, ranges: CameraRange, count: int, seed: int) -> None:
        self.renderer, self.cameras, self._ranges, self.count = renderer, tuple(cameras), ranges, count
        self.seed(seed)
        self._looks = draw_appearance(ranges.look, len(cameras), self._rng, count)
        self._streams = [[_Stream() for _ in cameras] for _ in range(count)]
        size = (count, renderer.height, renderer.width, 3)
        self._shown = {name: np.zeros(size, dtype=np.uint8) for name in cameras}
        self._places = {name: np.zeros((count, *renderer.places.shape)) for name in cameras}
        self._age = {name: np.zeros((count, 1)) for name in cameras}

    @abstractmethod
    def _render(self, state: Array, world: int, camera: int) -> NDArray[np.uint8]:
        """Return the RGB image (height, width, 3) of a camera in a state (width,) of a world."""

    def seed(self, seed: int) -> None:
        """Seed the generators."""
        # one generator per world: draws do not depend on the number of worlds
        self._rng = np.random.default_rng((seed, 2, self.count))

    def begin(self, index: Index, worlds: Worlds) -> None:
        """Begin episodes in some worlds (n) with new appearances, rates and latencies; the cameras already run."""
        ranges, rng = self._ranges, self._rng
        self._looks.put(index, draw_appearance(ranges.look, len(self.cameras), rng, len(index)))
        shape = (len(index), len(self.cameras))
        periods, latencies = 1.0 / rng.uniform(*ranges.rate_hz, shape), rng.uniform(*ranges.latency_s, shape)
        ages = latencies + rng.random(shape) * periods
        for row, world in enumerate(index.tolist()):
            now = float(worlds.time_s[world])
            for k, name in enumerate(self.cameras):
                stream = self._streams[world][k]
                stream.newest = first = _Exposure(worlds.state[world].copy())
                stream.period_s, stream.latency_s = float(periods[row, k]), float(latencies[row, k])
                stream.taken_s = now - float(ages[row, k])
                stream.next_s = stream.taken_s + stream.period_s
                stream.coming.clear()
                while stream.next_s <= now:  # nothing has moved yet: these images are the same
                    stream.coming.append((stream.next_s, first))
                    stream.next_s += stream.period_s
                self._age[name][world] = ages[row, k]

    def redraw_appearance(self, index: Index) -> None:
        """Give some worlds (n) new appearances from their next images on."""
        for world in index.tolist():
            self._render_all(world)
        self._looks.put(index, draw_appearance(self._ranges.look, len(self.cameras), self._rng, len(index)))

    def ages(self) -> dict[str, Array]:
        """Return by camera ``NAME_image_age`` (N, 1) s, of the images that were last taken."""
        return {f"{name}_image_age": self._age[name].copy() for name in self.cameras}

    def expose(self, worlds: Worlds) -> None:
        """Take the images that were due in the last control period; call it after every one."""
        now = worlds.time_s
        for world, streams in enumerate(self._streams):
            for k, stream in enumerate(streams):
                self._advance(worlds, world, k, stream, float(now[world]))

    def signals(self, worlds: Worlds) -> dict[str, NDArray[Any]]:
        """Return by camera ``NAME_image`` (N, height, width, 3) uint8 and ``NAME_image_age`` (N, 1) s, at present.

        It takes the images that are due as :meth:`expose` does, and renders those that it returns.
        """
        self.expose(worlds)
        for world, streams in enumerate(self._streams):
            for k, stream in enumerate(streams):
                self._show(world, k, stream)
        return {**{f"{name}_image": self._shown[name].copy() for name in self.cameras}, **self.ages()}

    def places(self) -> Array:
        """Return where the followed points are in the images that :meth:`signals` returned last, (N, C, points, 2)."""
        return np.stack([self._places[name] for name in self.cameras], axis=1)

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state as tensors and plain data."""
        for world in range(self.count):
            self._render_all(world)
        streams = [
            [
                (s.next_s, s.period_s, s.latency_s, s.taken_s, [(at, *_rendered(one)) for at, one in s.coming])
                for s in row
            ]
            for row in self._streams
        ]
        return {
            "looks": {one.name: tensor_of(getattr(self._looks, one.name)) for one in fields(self._looks)},
            "streams": streams,
            "shown": {name: tensor_of(array) for name, array in self._shown.items()},
            "places": {name: tensor_of(array) for name, array in self._places.items()},
            "age": {name: tensor_of(array) for name, array in self._age.items()},
            "random": dict(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self._looks = Appearance(**{name: array.numpy().copy() for name, array in state["looks"].items()})
        self._streams = [
            [
                _Stream(
                    next_s,
                    period_s,
                    latency_s,
                    taken_s,
                    coming=deque((at, _restored(*one)) for at, *one in coming),
                )
                for next_s, period_s, latency_s, taken_s, coming in row
            ]
            for row in state["streams"]
        ]
        self._shown = {name: array.numpy().copy() for name, array in state["shown"].items()}
        self._places = {name: array.numpy().copy() for name, array in state["places"].items()}
        self._age = {name: array.numpy().copy() for name, array in state["age"].items()}
        self._rng.bit_generator.state = state["random"]

    def close(self) -> None:
        """Release the renderer."""
        self.renderer.close()

    def _advance(self, worlds: Worlds, world: int, k: int, stream: _Stream, now: float) -> None:
        while stream.next_s <= now + _ROUNDING_S:
            stream.coming.append((stream.next_s, _Exposure(worlds.state_at(world, stream.next_s).copy())))
            stream.next_s += stream.period_s
        while stream.coming and stream.coming[0][0] + stream.latency_s <= now + _ROUNDING_S:
            stream.taken_s, stream.newest = stream.coming.popleft()
        self._age[self.cameras[k]][world] = now - stream.taken_s

    def _show(self, world: int, k: int, stream: _Stream) -> None:
        """Render the newest image."""
        if stream.newest is not None:
            self._shown[self.cameras[k]][world] = self._image(stream.newest, world, k)
            assert stream.newest.places is not None
            self._places[self.cameras[k]][world] = stream.newest.places
            stream.newest = None

    def _render_all(self, world: int) -> None:
        """Render the images of a world that are still states."""
        for k, stream in enumerate(self._streams[world]):
            self._show(world, k, stream)
            for _, exposure in stream.coming:
                self._image(exposure, world, k)

    def _image(self, exposure: _Exposure, world: int, k: int) -> NDArray[np.uint8]:
        if exposure.image is None:
            assert exposure.state is not None
            exposure.image = self._render(exposure.state, world, k)
            exposure.places = self.renderer.places.copy()
            exposure.state = None
        return exposure.image


def _rendered(exposure: _Exposure) -> tuple[Tensor, Tensor]:
    assert exposure.image is not None and exposure.places is not None
    return tensor_of(exposure.image), tensor_of(exposure.places)


def _restored(image: Tensor, places: Tensor) -> _Exposure:
    return _Exposure(None, image.numpy().copy(), places.numpy().copy())


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return a copy as a tensor."""
    import torch  # imported here: a robot's computer has no torch, and saves no runs

    return torch.from_numpy(array.copy())

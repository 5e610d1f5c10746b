"""Simulated cameras of N arms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.sim.arms.camera_renderer import ArmCameraRenderer
from rlstack.sim.arms.scene import Build
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
from rlstack.tasks.core.image_streams import CameraRange, ImageStreams, tensor_of


class CameraBuffer(ImageStreams):
    """Latest images of C cameras of N arms; see :class:`.ImageStreams`.

    Args:
        robot: The arm, with these cameras in its file.
        build: Adds the objects.
        cameras: Their names.
        handled: Names of the B boxes whose sizes and colours differ between trials.
        ranges: Ranges of camera parameters.
        count: N.
        seed: Seed of random parameters.

    Raises:
        UserError: The robot lacks the cameras, or rendering is not available.
    """

    renderer: ArmCameraRenderer

    def __init__(
        self,
        robot: Manipulator,
        build: Build,
        cameras: tuple[str, ...],
        handled: tuple[str, ...],
        ranges: CameraRange,
        count: int,
        seed: int,
    ) -> None:
        super().__init__(cameras, ArmCameraRenderer(robot, build, cameras, handled), ranges, count, seed)
        self._half = np.zeros((count, len(handled), 3))
        self._colour = np.tile(self.renderer.colours, (count, 1, 1))
        self._stands: dict[str, Array] = {}

    def restart(self, index: Index, worlds: MujocoSimulator, half: Array, colour: Array | None = None) -> None:
        """Begin episodes in some worlds with new appearances, rates and latencies; the cameras are already running.

        Args:
            index: (n,) indices of the worlds.
            worlds: The worlds at the start of their episodes.
            half: (n, B, 3) half lengths of the boxes, m.
            colour: (n, B, 3) their colours, 0 to 1; None: as built.
        """
        self._half[index] = half
        if colour is not None:
            self._colour[index] = colour
        for name, stands in worlds.stands.items():
            self._stands.setdefault(name, np.zeros((self.count, 4)))[index] = stands[index]
        self.begin(index, worlds)

    def state_dict(self) -> dict[str, Any]:
        """Return the mutable state as tensors and plain data."""
        return {
            **super().state_dict(),
            "half": tensor_of(self._half),
            "colour": tensor_of(self._colour),
            "stands": {name: tensor_of(stand) for name, stand in self._stands.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._half = state["half"].numpy().reshape(self._half.shape).copy()
        if "colour" in state:  # older checkpoints have one box, coloured as built
            self._colour = state["colour"].numpy().copy()
            self._stands = {name: stand.numpy().copy() for name, stand in state["stands"].items()}

    def _render(self, state: Array, world: int, camera: int) -> NDArray[np.uint8]:
        half, colour = self._half[world], self._colour[world]
        stands = {name: stand[world] for name, stand in self._stands.items()}
        return self.renderer.render(state, half, colour, self._looks, world, camera, stands)

"""N arms at instructed tasks on a table with several blocks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.manipulator.cameras import CameraBuffer
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.table_trials import beside
from rlstack.tasks.manipulator.trials import ArmTrials


class TableScene(ArmScene):
    """N arms at a :class:`rlstack.tasks.manipulator.table_task.TableTask`; arguments as of :class:`.ArmScene`."""

    def __init__(self, task: Any, robot: Manipulator, count: int, seed: int, *arguments: Any, **options: Any) -> None:
        super().__init__(task, robot, count, seed, *arguments, **options)
        blocks = self.task.blocks
        self.names = [beside(k) for k in range(blocks - 1)]
        """Names of the blocks beside the object."""
        self.asked: dict[str, NDArray[Any]] = {
            "instruction": np.zeros((count, INSTRUCTION_BYTES), np.uint8),
            "colour": np.zeros((count, blocks, 3)),
            "beside_position": np.zeros((count, blocks - 1, 3)),
            "beside_half": np.zeros((count, blocks - 1, 3)),
        }
        """The present episodes' trials, by the fields of :class:`.TableTrials`."""

    def start(self, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Begin episodes (n) in some worlds."""
        for name, array in self.asked.items():
            array[index] = getattr(trials, name)
        self._size_others(index, trials.mass, trials.friction)
        super().start(index, trials)

    def vary(self, drawn: dict[str, Array]) -> None:
        """Set the objects' properties in all worlds to those in ``drawn``."""
        super().vary(drawn)
        self._size_others(np.arange(self.count), drawn["mass"], drawn["friction"])

    def present(self, images: bool = True) -> dict[str, Array]:
        """Return the present signals (N, ...), without noise."""
        return {**super().present(images), "instruction": self.asked["instruction"]}

    def others(self) -> Array:
        """Return the positions (N, M - 1, 3) m of the blocks beside the object."""
        return np.stack([self.worlds.pose(name)[0] for name in self.names], axis=1)

    def lost(self) -> NDArray[np.bool_]:
        """Return (N,) whether another block was moved, the object is off the table, or the state is not finite."""
        moved: NDArray[np.bool_] = self.task.disturbed(self.asked["beside_position"], self.others())
        return super().lost() | moved

    def state_dict(self) -> dict[str, dict[str, Array]]:
        """Return what :class:`.ArmScene` does, and the present trials."""
        return {**super().state_dict(), "asked": {name: array.copy() for name, array in self.asked.items()}}

    def load_state_dict(self, state: dict[str, dict[str, Array]]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.asked = {name: array.copy() for name, array in state["asked"].items()}
        self._size_others(np.arange(self.count), self.drawn["mass"], self.drawn["friction"])

    def _show(self, cameras: CameraBuffer, index: NDArray[np.intp]) -> None:
        half = np.concatenate([self.drawn["half"][index, None], self.asked["beside_half"][index]], axis=1)
        cameras.restart(index, self.worlds, *self.task.shown(half, self.asked["colour"][index]))

    def _size_others(self, index: NDArray[np.intp], mass: Array, friction: Array) -> None:
        place, half = self.asked["beside_position"][index], self.asked["beside_half"][index]
        for k in range(len(self.names)):
            self.task.vary_other(self.worlds, index, k, place[:, k], half[:, k], mass, friction)


def table_scene(scene: ArmScene) -> TableScene:
    """Return a scene as one of blocks on a table."""
    return cast(TableScene, scene)

"""Training environment of instructed tasks on a table: chunks of actions, and images only where they are observed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.arrays import Array, Index
from rlstack.tasks.core.chunk_environment import NOT_THERE, ChunkEnvironment
from rlstack.tasks.core.curriculum import CANDIDATES
from rlstack.tasks.core.pipeline import TermInfo, term_table
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.observations import DECIMETRES
from rlstack.tasks.manipulator.table_scene import TableScene, table_scene
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials

_WAYS, _QUARTERS = 4, 4
"""Kinds of trials by the goal's direction from the object, and by the quarter of the object's region."""


class TableEnvironment(ArmEnvironment, ChunkEnvironment):
    """N arms at a :class:`.TableTask`; see :class:`.ArmEnvironment`."""

    trial_kinds = _WAYS * _QUARTERS

    @property
    def table(self) -> TableScene:
        """The scene."""
        return table_scene(self.scene)

    def privileged_table(self) -> list[TermInfo]:
        """Return one row for each term of :meth:`privileged`, in order."""
        return term_table(
            [
                ("tool_position", 3, "dm", "tool in base_link, from the middle of the workspace"),
                ("object_offset", 3, "dm", "object minus tool"),
                ("goal_offset", 3, "dm", f"goal minus {self.task.moved}"),
                ("other_offset", 3 * (self.task.blocks - 1), "dm", "each other block minus tool"),
                ("opening", 1, "share", "of the gripper; 0 without one"),
                ("age", 1, "share", "of the episode that has passed"),
                ("held", 1, "share", "of the time for which the goal must be achieved"),
            ]
        )

    def privileged(self) -> Tensor:
        """Return what a critic may know and a policy does not, (N, privileged_size), without noise."""
        scene, count = self.table, self.count
        tool, thing = scene.tool(), scene.handled()
        hands, first = self.pipeline.hand_range, self.pipeline.arm
        opening = np.zeros((count, 1))
        if len(hands):
            closed = self.pipeline.minimum.numpy()[first:]
            opening = ((self.worlds.joint_position[:, first:] - closed) / hands).mean(axis=1, keepdims=True)
        columns = [
            DECIMETRES * (tool - np.array(self.scene.task.workspace.middle)),
            DECIMETRES * (thing - tool),
            DECIMETRES * (scene.goal - self.task.achieved(tool, thing)),
            DECIMETRES * (scene.others() - tool[:, None]).reshape(count, -1),
            opening,
            self._age[:, None] / self.task.steps,
            np.minimum(self._held[:, None] / self.task.hold_steps, 1.0),
        ]
        return torch.from_numpy(np.nan_to_num(np.concatenate(columns, axis=1)).astype(np.float32))

    def image_places(self) -> Tensor:
        """Return where the blocks that the sentences name are in the images; see :meth:`.ChunkEnvironment`.

        Of tasks whose policies are shown the hand, its place is the last.
        """
        scene, named = self.table, self.task.named
        shown = [*range(named), *([-1] if self.task.hand else [])]
        places = scene.cameras.places()[:, :, shown]
        places[~self.task.names_two(scene.goal), :, 1:named] = NOT_THERE
        half = np.concatenate([scene.drawn["half"][:, None], scene.asked["beside_half"]], axis=1)[:, :named]
        turned = np.stack([self.worlds.pose(name)[1] for name in (OBJECT, *scene.names)[:named]], axis=1)
        looks = self.task.looks(half, turned)
        looks = np.concatenate([looks, np.zeros((self.count, len(shown) - named, looks.shape[2]))], axis=1)
        looks = looks[:, None].repeat(places.shape[1], axis=1)
        return torch.from_numpy(np.concatenate([places, looks], axis=-1).astype(np.float32))

    def noisy_actions(self) -> Tensor:
        """Return (1, actions): 1 but for the gripper: a dropped block teaches nothing."""
        return torch.tensor([[float(axis != "gripper") for axis in self.pipeline.axes]])

    def _start(self, index: Index) -> None:
        group, curriculum = self._group, self.curriculum
        count = len(index) // group * (1 if curriculum is None else CANDIDATES)
        trials = self.task.practised().draw(self.robot, self._rng, count, self._starts)
        trials = replace(trials, departures=self.task.randomisation.draw(self._rng, count))
        kept = np.arange(count)
        if curriculum is not None:
            kinds = self._kinds(trials)
            kept = curriculum.choose(kinds, self._rng)
            curriculum.kind[index] = kinds[kept].repeat(group)
        self.scene.start(index, trials.take(kept.repeat(group)))

    def _kinds(self, trials: ArmTrials) -> NDArray[np.intp]:
        """Return the kinds (n,) of trials: by the goal's direction from the object, and by where the object is."""
        places, way = self.task.places, (trials.goal - trials.position)[:, :2]
        turn = np.round(np.arctan2(way[:, 1], way[:, 0]) / (2.0 * np.pi / _WAYS)).astype(np.intp) % _WAYS
        high = trials.position[:, :2] > np.mean([places.x_m, places.y_m], axis=1)
        return np.asarray(_QUARTERS * turn + 2 * high[:, 0] + high[:, 1])

    def _waiting(self) -> Array:
        joints: Array = self.worlds.joint_position
        return joints

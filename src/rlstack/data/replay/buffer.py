"""Write a replay buffer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.replay.reader import ReplayReader
from rlstack.data.replay.spec import Field, ReplaySpec
from rlstack.data.replay.storage import create_or_open, fence, lock
from rlstack.errors import UserError


class ReplayBuffer(ReplayReader):
    """The only writer of a replay buffer; it can also be sampled.

    There is no state to save: the next writer continues where the last one stopped, however that ended. An unfinished
    episode ends with its last complete transition.

    ::

        with ReplayBuffer("runs/arm/replay", spec) as buffer:
            buffer.begin(observation)
            while not over:
                observation, reward, over = ...
                buffer.add({"action": action, "reward": reward, "terminated": over}, observation)
    """

    def __init__(self, path: str | Path, spec: ReplaySpec) -> None:
        """Open the buffer in the folder ``path``, or create it there.

        Raises:
            UserError: Another process is writing it, it has other fields, it is damaged, or the disk is full.
        """
        folder = Path(path)
        self._lock = lock(folder)
        try:
            self._storage = create_or_open(folder, spec)
        except BaseException:
            os.close(self._lock)
            raise
        self._running = np.zeros(spec.lanes, bool)

    def begin(self, observation: Mapping[str, Any], lane: int = 0) -> int:
        """Begin an episode with its first observation, ending the current one of that lane; return its index."""
        return int(self.begin_lanes({name: np.asarray(v)[None] for name, v in observation.items()}, [lane])[0])

    def add(self, transition: Mapping[str, Any], observation: Mapping[str, Any], lane: int = 0) -> int:
        """Add a transition and the observation after it; return the transition's index.

        Args:
            transition: Each field of ``spec.transitions`` by name.
            observation: Each field of ``spec.observations`` by name.
            lane: Lane of the episode.

        Raises:
            UserError: A field is missing, unknown or of another shape, or no episode was begun.
        """
        before = {name: np.asarray(value)[None] for name, value in transition.items()}
        after = {name: np.asarray(value)[None] for name, value in observation.items()}
        return int(self.add_lanes(before, after, [lane])[0])

    def begin_lanes(self, observations: Mapping[str, Any], lanes: Sequence[int] | np.ndarray) -> np.ndarray:
        """Begin an episode in each of ``lanes`` (n,) with its first observation (n, ...); return the indices."""
        lanes = self._lanes(lanes)
        written = self._fitting(observations, self.spec.observations, len(lanes))
        storage, slots = self._storage, self.spec.slots
        heads = self._make_room(lanes)
        numbers = np.where(heads > 0, storage.episodes[lanes, (heads - 1) % slots] + 1, 0)
        storage.firsts[lanes, numbers % slots] = heads
        self._append(lanes, numbers, written)
        self._running[lanes] = True
        return heads * self.spec.lanes + lanes

    def add_lanes(
        self, transitions: Mapping[str, Any], observations: Mapping[str, Any], lanes: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        """Add a transition to each of ``lanes`` (n,), with fields (n, ...), as :meth:`add`; return the indices (n,)."""
        lanes = self._lanes(lanes)
        if not self._running[lanes].all():
            raise UserError("A transition needs an observation before it: begin an episode in its lane first.")
        before = self._fitting(transitions, self.spec.transitions, len(lanes))
        after = self._fitting(observations, self.spec.observations, len(lanes))
        storage, slots = self._storage, self.spec.slots
        steps = self._make_room(lanes) - 1
        places = lanes * slots + steps % slots
        for name, values in before.items():
            storage.fields[name][places] = values
        self._append(lanes, storage.episodes[lanes, steps % slots], after)
        return steps * self.spec.lanes + lanes

    def flush(self) -> None:
        """Flush to the disk, against power cuts; not needed against the death of the process."""
        self._storage.flush()

    def close(self) -> None:
        """Release the write lock; the buffer stays readable."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            self._running[:] = False

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_room(self, lanes: np.ndarray) -> np.ndarray:
        """Release the oldest step of each full lane before it is overwritten; return the heads."""
        storage = self._storage
        heads = storage.heads[lanes]
        storage.tails[lanes] = np.maximum(storage.tails[lanes], heads + 1 - self.spec.slots)
        fence()
        return heads

    def _append(self, lanes: np.ndarray, numbers: np.ndarray, written: dict[str, np.ndarray]) -> None:
        storage, slots = self._storage, self.spec.slots
        heads = storage.heads[lanes]
        places = lanes * slots + heads % slots
        for name, values in written.items():
            storage.fields[name][places] = values
        storage.episodes[lanes, heads % slots] = numbers
        fence()
        storage.heads[lanes] = heads + 1

    def _lanes(self, lanes: Sequence[int] | np.ndarray) -> np.ndarray:
        if self._lock < 0:
            raise UserError("The replay buffer is closed: open it again to write.")
        numbers = np.asarray(lanes, np.int64)
        if len(numbers) > 1 and len(np.unique(numbers)) < len(numbers):
            raise UserError("A lane is named twice: each takes one step at a time.")
        if ((numbers < 0) | (numbers >= self.spec.lanes)).any():
            raise UserError(f"The replay buffer has the lanes 0 to {self.spec.lanes - 1}, not {numbers.tolist()}.")
        return numbers

    def _fitting(self, given: Mapping[str, Any], fields: dict[str, Field], count: int) -> dict[str, np.ndarray]:
        """Return ``given`` as arrays; refuse other fields, shapes or types before anything is written."""
        if given.keys() != fields.keys():
            raise UserError(f"A step has the fields {sorted(given)} where the replay buffer has {sorted(fields)}.")
        arrays = {}
        for name, field in fields.items():
            array = np.asarray(given[name])
            if array.shape != (count, *field.shape):
                raise UserError(
                    f"'{name}' has the shape {array.shape[1:]}, not {field.shape} as the replay buffer has."
                )
            if not np.can_cast(array.dtype, field.dtype, "same_kind"):
                raise UserError(f"'{name}' is {array.dtype}, which the replay buffer's {field.dtype} cannot hold.")
            arrays[name] = array
        return arrays

"""Sample a replay buffer, also while another process writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from rlstack.data.replay.spec import INDEX, NEXT, ReplaySpec
from rlstack.data.replay.storage import fence, open_storage
from rlstack.errors import UserError

T = TypeVar("T")

_TRIES = 16
"""Rounds of drawing steps until all are transitions, before transitions are listed one by one."""


class Overwritten(LookupError):
    """The requested steps are no longer, or not yet, in the buffer."""


class ReplayReader:
    """Reads a replay buffer, in any number of processes at a time.

    A transition has an **index**, a whole number that never changes and is never reused; the next transition of its
    episode is ``spec.lanes`` further. Methods that take indices (n,) raise :class:`Overwritten` if one is not in the
    buffer any more, or not yet.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the buffer in the folder ``path``.

        Raises:
            UserError: There is none, or a file is damaged.
        """
        self._storage = open_storage(Path(path))

    @property
    def spec(self) -> ReplaySpec:
        """Its fields and size."""
        return self._storage.spec

    def __len__(self) -> int:
        """Return the number of complete transitions in it."""
        lanes, slots, episodes = np.arange(self.spec.lanes), self.spec.slots, self._storage.episodes
        while True:
            spans, tails = self._spans()
            ended = episodes[lanes, (tails + spans) % slots] - episodes[lanes, tails % slots]
            fence()
            if (self._storage.tails == tails).all():
                return int(np.sum(spans - np.where(spans, ended, 0)))

    def sample(
        self, count: int, rng: np.random.Generator, out: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Draw transitions uniformly, with replacement; return them as :meth:`gather`.

        Args:
            count: Number of transitions.
            rng: Random generator.
            out: Arrays of an earlier batch of the same size, to fill instead of new ones.

        Raises:
            UserError: There is no complete transition yet.
        """
        indices = self.draw(count, rng)
        batch = self._copy(indices, out)
        unsure = np.arange(count)
        while True:
            fence()
            unsure = unsure[self._lost(indices[unsure])]
            if not len(unsure):
                return batch
            indices[unsure] = self.draw(len(unsure), rng)
            for name, values in self._copy(indices[unsure]).items():
                batch[name][unsure] = values

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return the indices (count,) of transitions drawn uniformly, with replacement.

        Raises:
            UserError: There is no complete transition yet.
        """
        found = np.empty(count, np.int64)
        have = 0
        for _ in range(_TRIES):
            spans, tails = self._spans()
            ends = np.cumsum(spans)
            if ends[-1] == 0:
                break
            drawn = rng.integers(ends[-1], size=max(2 * (count - have), 16) if have else count + count // 8 + 16)
            lanes = np.searchsorted(ends, drawn, side="right")
            steps = tails[lanes] + drawn - (ends - spans)[lanes]
            whole = self._whole(lanes, steps)
            indices = (steps[whole] * self.spec.lanes + lanes[whole])[: count - have]
            found[have : have + len(indices)] = indices
            have += len(indices)
            if have == count:
                return found
        held = self.indices()
        if not len(held):
            raise UserError("The replay buffer has no whole transition yet: write some before sampling.")
        found[have:] = rng.choice(held, size=count - have)
        return found

    def indices(self) -> np.ndarray:
        """Return the indices of all transitions, oldest first, lane after lane."""
        spans, tails = self._spans()
        steps = [tail + np.arange(span) for tail, span in zip(tails, spans)]
        lanes = np.repeat(np.arange(self.spec.lanes), spans)
        flat = np.concatenate(steps)
        whole = self._whole(lanes, flat)
        found = flat[whole] * self.spec.lanes + lanes[whole]
        fence()
        return found[~self._lost(found)]

    def gather(self, indices: np.ndarray, out: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Return the transitions with these indices.

        Args:
            indices: As from :meth:`draw` (n,).
            out: Arrays of an earlier batch of the same size, to fill instead of new ones.

        Returns:
            Copies by name: each field of the observation (n, ...) and, as ``next_...``, of the next one, each field of
            the transition, and ``index`` (n,).
        """
        indices = np.asarray(indices, np.int64)
        lanes, steps = self._placed(indices, observations=1)
        if not self._whole(lanes, steps).all():
            raise Overwritten("An index is of the observation that ends an episode: no transition begins there.")
        return self._checked(indices, self._copy(indices, out))

    def observe(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return the observations at ``indices`` (n,) by name (n, ...); they may be those that end episodes."""
        indices = np.asarray(indices, np.int64)
        self._placed(indices, observations=0)
        slots = self._slots(indices)
        return self._checked(indices, {name: self._storage.fields[name][slots] for name in self.spec.observations})

    def episode_of(self, indices: np.ndarray) -> np.ndarray:
        """Return a number (n,) that identifies the episode of each step."""
        indices = np.asarray(indices, np.int64)
        lanes, steps = self._placed(indices, observations=0)
        return self._checked(indices, self._storage.episodes[lanes, steps % self.spec.slots]) * self.spec.lanes + lanes

    def bounds(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices (n,) of the first and last observation of each step's episode that are in the buffer.

        With one lane, the episode's transitions are first, first + 1, ... last - 1; with more, ``spec.lanes`` apart.
        """
        indices = np.asarray(indices, np.int64)
        lanes, steps = self._placed(indices, observations=0)
        slots, storage = self.spec.slots, self._storage
        heads = storage.heads[lanes]
        fence()
        episode = storage.episodes[lanes, steps % slots]
        first = np.maximum(storage.firsts[lanes, episode % slots], storage.tails[lanes])
        ended = storage.episodes[lanes, (heads - 1) % slots] != episode
        last = np.where(ended, storage.firsts[lanes, (episode + 1) % slots], heads) - 1
        return self._checked(indices, first) * self.spec.lanes + lanes, last * self.spec.lanes + lanes

    def later(self, indices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return for each transition the index (n,) of a later observation of its episode, drawn uniformly.

        It is the strategy ``future`` of Andrychowicz et al., "Hindsight Experience Replay" (arXiv 1707.01495), section
        3.3.
        """
        indices = np.asarray(indices, np.int64)
        self._placed(indices, observations=1)
        _, last = self.bounds(indices)
        if (last <= indices).any():
            raise Overwritten("An index is of the observation that ends an episode: nothing follows it.")
        return indices + rng.integers((last - indices) // self.spec.lanes) * self.spec.lanes + self.spec.lanes

    def episodes(self) -> np.ndarray:
        """Return the indices (episodes, 2) of first and last observation of every episode, oldest first.

        A partly overwritten episode begins with its oldest remaining step.
        """
        found = []
        heads = self._storage.heads.copy()
        fence()
        for lane, (head, tail) in enumerate(zip(heads, self._storage.tails.copy())):
            numbers = self._storage.episodes[lane, np.arange(tail, head) % self.spec.slots]
            fence()
            tail, earlier = self._storage.tails[lane], tail
            numbers = numbers[tail - earlier :]  # the others were overwritten meanwhile
            if len(numbers):
                starts = tail + np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
                found.append(np.stack([starts, np.append(starts[1:], head) - 1], 1) * self.spec.lanes + lane)
        return np.concatenate(found) if found else np.empty((0, 2), np.int64)

    def _spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each lane the number of steps that have a next one, and the oldest step."""
        heads = self._storage.heads.copy()
        fence()
        tails = self._storage.tails.copy()
        return np.maximum(heads - tails - 1, 0), tails

    def _whole(self, lanes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return whether the next step is of the same episode, so that there is a transition."""
        episodes, slots = self._storage.episodes, self.spec.slots
        return episodes[lanes, steps % slots] == episodes[lanes, (steps + 1) % slots]

    def _placed(self, indices: np.ndarray, observations: int) -> tuple[np.ndarray, np.ndarray]:
        """Return lanes and steps of ``indices``; raise if they, or so many observations after them, are missing."""
        lanes, steps = indices % self.spec.lanes, indices // self.spec.lanes
        gone = (steps < self._storage.tails[lanes]) | (steps + observations >= self._storage.heads[lanes])
        if gone.any():
            raise Overwritten(f"{int(gone.sum())} of {len(indices)} steps are not in the replay buffer (any more).")
        return lanes, steps

    def _lost(self, indices: np.ndarray) -> np.ndarray:
        return indices // self.spec.lanes < self._storage.tails[indices % self.spec.lanes]

    def _checked(self, indices: np.ndarray, copied: T) -> T:
        """Return ``copied``; raise if some of it was overwritten while it was read."""
        fence()
        lost = self._lost(indices)
        if lost.any():
            raise Overwritten(f"{int(lost.sum())} of {len(indices)} steps were overwritten while they were read.")
        return copied

    def _slots(self, indices: np.ndarray, ahead: int = 0) -> np.ndarray:
        lanes, slots = self.spec.lanes, self.spec.slots
        return indices % lanes * slots + (indices // lanes + ahead) % slots

    def _copy(self, indices: np.ndarray, out: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        here, after = self._slots(indices), self._slots(indices, 1)
        batch: dict[str, np.ndarray] = {}
        for name in self.spec.fields:
            places = [(name, here), (NEXT + name, after)] if name in self.spec.observations else [(name, here)]
            for key, slots in places:
                target = None if out is None else out[key]
                # the slots are in range; with 'clip' numpy needs no buffer besides the target
                batch[key] = np.take(self._storage.fields[name], slots, axis=0, out=target, mode="clip")
        batch[INDEX] = indices
        return batch

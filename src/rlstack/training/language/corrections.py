"""Chunks of a policy's own trials on disk, each with what the expert would have done in its place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.data.replay import ReplayBuffer
from rlstack.training.hindsight_replay import Rows
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.demonstrations import ChunkReplay, seen_rows, spec_of
from rlstack.training.language.supervised import Known, Lesson

FOLDER = "corrections"
"""Folder of these chunks in a run's folder."""
UNSEEN = "corrections-unseen"
"""Folder of those without images."""


class Corrections:
    """Chunks of N robots' own trials; the oldest are overwritten.

    Args:
        environment: The robots.
        actor: Gives the layout of observations, and reads instructions.
        capacity: Most chunks.
        folder: The run's folder; None: a temporary one that is deleted with this object.
        images: Whether they have images; if not, they are only to be learned from as :meth:`.Lesson.told`.
    """

    def __init__(
        self, environment: Any, actor: LanguageActor, capacity: int, folder: Path | None, images: bool = True
    ) -> None:
        self._environment, self._actor, self.images = environment, actor, images
        self._temporary = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="rlstack-corrections-")
            folder = Path(self._temporary.name)
        spec = spec_of(environment, actor, capacity, environment.count, images)
        self._buffer = ReplayBuffer(folder / (FOLDER if images else UNSEEN), spec)

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._buffer)

    def begin(self, observation: Tensor) -> None:
        """Begin an episode of every robot with its first observation (N, columns)."""
        self._buffer.begin_lanes(self._rows(observation), np.arange(self._environment.count))

    def add(self, robots: Tensor, action: Tensor, inside: Tensor, observation: Tensor) -> None:
        """Store a chunk of some robots.

        Args:
            robots: (N,) bool which.
            action: (N, chunk, actions) of the expert.
            inside: (N, chunk) 1 for actions that teach.
            observation: (N, columns) after the chunk.
        """
        lanes = np.flatnonzero(robots.numpy())
        if len(lanes):
            made = {"action": action.numpy()[lanes], "inside": inside.numpy()[lanes]}
            after = {name: rows[lanes] for name, rows in self._rows(observation).items()}
            self._buffer.add_lanes(made, after, lanes)

    def draw(self, count: int, generator: torch.Generator) -> Lesson:
        """Return random chunks."""
        seed = int(torch.randint(2**62, (), generator=generator))
        rows = self._buffer.sample(count, np.random.default_rng(seed))
        part = {name: torch.from_numpy(array) for name, array in rows.items()}
        with torch.no_grad():
            tokens = self._actor.tokeniser(part["instruction"].float())
        seen = Seen(part["state"], tokens, part["pictures"])
        return Lesson(seen, part["action"], part["inside"], Known(part["labels"], part["places"]))

    def close(self) -> None:
        """Close the files."""
        self._buffer.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _rows(self, observation: Tensor) -> Rows:
        now = self._environment.privileged(), self._environment.image_places()
        rows = seen_rows(self._environment, self._actor.layout, observation, *now)
        return rows if self.images else {**rows, "pictures": rows["pictures"][:, :, :1, :1]}


def mixed(
    shown: ChunkReplay | None, share: float, own: Corrections, size: int, generator: torch.Generator
) -> Iterator[Lesson]:
    """Yield random chunks: a share of each batch is of demonstrations, if there are some, the rest of own trials."""
    count = 0 if shown is None else round(share * size)
    while True:
        mine = own.draw(size - count, generator) if count < size else None
        theirs = shown.lesson(count, generator) if shown is not None and count else None
        if mine is None or theirs is None:
            one = theirs if mine is None else mine
            assert one is not None
            yield one
        else:
            yield joined(mine, theirs)


def joined(one: Lesson, other: Lesson) -> Lesson:
    """Return two batches, of both of which the same is known, as one."""
    a, b = one.known, other.known
    assert a is not None and b is not None and a.places is not None and b.places is not None
    known = Known(torch.cat([a.offsets, b.offsets]), torch.cat([a.places, b.places]))
    seen = Seen(*(torch.cat(parts) for parts in zip(one.seen, other.seen)))
    return Lesson(seen, torch.cat([one.action, other.action]), torch.cat([one.inside, other.inside]), known)

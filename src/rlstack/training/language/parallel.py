"""Supervised updates in several processes: each has a batch of its own, and their gradients are averaged.

Weights and optimisers are the same in all processes; so the first one's state is the whole run's.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.training.gradient_averaging import Group
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.demonstrations import ChunkReplay, lessons
from rlstack.training.language.overlap import packed, unpacked
from rlstack.training.language.supervised import Supervised, SupervisedSettings


class Workers:
    """The other processes, which make the same updates as this one.

    Args:
        processes: Number of processes with this one.
        learner: The learner of this one, which is joined to the group.
        shown: Demonstrations of all of them.
        labels: As of the learner.
    """

    def __init__(self, processes: int, learner: Supervised, shown: ChunkReplay, labels: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rlstack-group-")
        store = Path(self._folder.name) / "store"
        context = multiprocessing.get_context("spawn")  # threads do not survive a fork
        self.processes, self._connections = list[Any](), list[Connection]()
        for rank in range(1, processes):
            ours, theirs = context.Pipe()
            about = (learner.settings, copy.deepcopy(learner.actor), labels, shown.folders, shown.weights)
            given = (theirs, os.getpid(), torch.get_num_threads(), (store, rank, processes), *about)
            one = context.Process(target=_work, args=given, name=f"learner {rank}", daemon=True)
            one.start()
            theirs.close()
            ours.send_bytes(packed(learner.state_dict()))
            self.processes.append(one)
            self._connections.append(ours)
        learner.averaged = Group(store, 0, processes)

    def begin(self, updates: int, share: float, generator: torch.Generator) -> None:
        """Begin updates in the other processes; this one has to make as many.

        Raises:
            UserError: One of them ended.
        """
        seeds = torch.randint(2**62, (len(self._connections),), generator=generator).tolist()
        for connection, seed in zip(self._connections, seeds):
            try:
                connection.send_bytes(packed({"updates": updates, "share": share, "seed": seed}))
            except BrokenPipeError:
                raise self.ended() from None

    def ended(self) -> UserError:
        """Return what to say where one of them ended."""
        return UserError(
            "A process of supervised learning exited unexpectedly: the message above says why, or memory ran out."
            " Resume the run, or set processes to 1."
        )

    def close(self) -> None:
        """End the other processes."""
        for connection in self._connections:
            connection.close()
        for process in self.processes:
            process.join()
        self._folder.cleanup()


def _work(
    connection: Connection,
    parent: int,
    threads: int,
    place: tuple[Path, int, int],
    settings: SupervisedSettings,
    actor: LanguageActor,
    labels: int,
    folders: list[Path],
    weights: list[float],
) -> None:
    """Make updates as often as asked, until the connection is closed."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process handles Ctrl-C
    torch.set_num_threads(threads)
    generator = torch.Generator()
    learner = Supervised(settings, actor, generator, labels)
    learner.load_state_dict(unpacked(connection.recv_bytes()))
    learner.averaged = Group(*place)
    shown = ChunkReplay(folders, actor, weights)
    drawn: Iterator[Any] = lessons(shown, settings.batch, generator)
    while True:
        try:
            asked = unpacked(connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            return
        generator.manual_seed(asked["seed"])
        for _ in range(asked["updates"]):
            learner.update(drawn, asked["share"])

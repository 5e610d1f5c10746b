"""Supervised updates in several processes: each has a batch of its own, and their gradients are averaged.

Weights and optimisers are the same in all processes; so the first one's state is the whole run's.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from rlstack.errors import UserError
from rlstack.training.gradient_averaging import Group
from rlstack.training.language.actor import LanguageActor
from rlstack.training.language.demonstrations import ChunkReplay, lessons, told_lessons
from rlstack.training.language.supervised import Supervised, SupervisedSettings
from rlstack.training.linked_process import LinkedProcesses, receive, send, serve_linked


@dataclass(frozen=True)
class Learning:
    """What a further process learns.

    Args:
        store: File in which the processes find each other.
        rank: Number of this process, from 1.
        size: Number of processes.
        threads: On which it computes.
        settings: Of learning.
        actor: The policy.
        labels: Number of labels.
        state: Of the first process's learner.
        folders: Of demonstrations.
        weights: Their shares.
    """

    store: Path
    rank: int
    size: int
    threads: int
    settings: SupervisedSettings
    actor: LanguageActor
    labels: int
    state: dict[str, Any]
    folders: list[Path]
    weights: list[float]


@dataclass(frozen=True)
class Updates:
    """An iteration.

    Args:
        shown: Updates from images.
        told: Updates after these, by what a simulator tells.
        share: Completed share of all updates.
        seed: Of their batches.
    """

    shown: int
    told: int
    share: float
    seed: int


class Workers:
    """The other processes, which make the same updates as this one.

    Args:
        processes: Number of processes with this one.
        learner: The learner of this one, which is joined to the group.
        shown: Demonstrations of all of them.
        labels: As of the learner.
        logs: Folder for what they print.
    """

    def __init__(self, processes: int, learner: Supervised, shown: ChunkReplay, labels: int, logs: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rlstack-group-")
        store = Path(self._folder.name) / "store"
        self.processes = LinkedProcesses("rlstack.training.language.parallel", logs, "learning", processes)
        for rank, one in enumerate(self.processes, 1):
            about = (rank, processes, torch.get_num_threads(), learner.settings, copy.deepcopy(learner.actor), labels)
            send(one.connection, Learning(store, *about, learner.state_dict(), shown.folders, shown.weights))
        learner.averaged = Group(store, 0, processes)

    def begin(self, shown: int, told: int, share: float, generator: torch.Generator) -> None:
        """Begin updates from images and then ``told`` ones in the other processes; this one has to make as many.

        Raises:
            UserError: One of them ended.
        """
        seeds = torch.randint(2**62, (len(self.processes),), generator=generator).tolist()
        for one, seed in zip(self.processes, seeds):
            try:
                send(one.connection, Updates(shown, told, share, seed))
            except ConnectionError:
                raise self.ended() from None

    def ended(self) -> UserError:
        """Return what to say where one of them ended."""
        return self.processes.ended("of supervised learning", hint="If it was killed, memory may have run out.")

    def close(self) -> None:
        """End the other processes."""
        self.processes.end()
        self._folder.cleanup()


def _serve(connection: Connection) -> None:
    """Make updates as often as asked."""
    about: Learning = receive(connection)
    torch.set_num_threads(about.threads)
    generator, settings = torch.Generator(), about.settings
    learner = Supervised(settings, about.actor, generator, about.labels)
    learner.load_state_dict(about.state)
    learner.averaged = Group(about.store, about.rank, about.size)
    shown = ChunkReplay(about.folders, about.actor, about.weights)
    drawn, told = lessons(shown, settings.batch, generator), told_lessons(shown, settings, generator)
    while True:
        asked: Updates = receive(connection)
        generator.manual_seed(asked.seed)
        for _ in range(asked.shown):
            learner.update(drawn, asked.share, stills=learner.sees_alone)
        for _ in range(asked.told):
            learner.update(told, asked.share, told=True)


def main() -> None:
    """Learn with the process that started this one."""
    serve_linked(_serve)


if __name__ == "__main__":
    from rlstack.training.language import parallel  # messages are of its classes, not of those of __main__

    parallel.main()

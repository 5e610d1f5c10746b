"""Further processes of a training by gradients through the simulator: each moves robots of its own, on a GPU of its own
if there are several, and all learn from the mean of their gradients.

The run's own process evaluates and saves. The others know the run's recipe, and begin with its networks and optimiser.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch

from rlstack.errors import UserError
from rlstack.training.algorithm import NotFinite
from rlstack.training.elsewhere import build_elsewhere
from rlstack.training.gradient_averaging import Averaged, Group
from rlstack.training.linked_process import LinkedProcesses, receive, send, serve_linked
from rlstack.training.run_files import RECIPE, WORKERS


class AveragesGradients(Protocol):
    """An algorithm whose gradients can be averaged with other processes'."""

    averaged: Averaged | None
    """The group of processes; None: this one learns alone."""

    def iterate(self, done: float) -> Any:
        """Learn as often in each process."""

    def join(self, state: Any) -> None:
        """Take over the first process's networks and optimisers."""


@dataclass(frozen=True)
class Peer:
    """A further process.

    Args:
        recipe: The run's, as YAML.
        store: File in which the processes find each other.
        rank: Number of this process, from 1.
        size: Number of processes.
        threads: On which it computes.
        seed: Of its robots.
        state: See :meth:`AveragesGradients.join`.
    """

    recipe: str
    store: str
    rank: int
    size: int
    threads: int
    seed: int
    state: Any


class GradientProcesses:
    """The further processes, seen from the first one.

    Args:
        folder: The run's.
        size: Number of processes with the first one.
        state: Of its networks and optimisers.
        begun: Iterations before, so that the robots of a resumed run begin otherwise than those at its start.
    """

    def __init__(self, folder: Path, size: int, state: Any, begun: int) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="rlstack-group-")
        store, recipe = Path(self._place.name) / "store", (folder / RECIPE).read_text(encoding="utf-8")
        self._peers = LinkedProcesses("rlstack.training.gradient_processes", folder / WORKERS, "process", size)
        for rank, linked in enumerate(self._peers, 1):
            seed = (torch.initial_seed() + 1_000_003 * rank + 7_919 * begun) % 2**63
            about = (rank, size, torch.get_num_threads(), seed, state)
            send(linked.connection, Peer(recipe, str(store), *about))
        self.group = Group(store, 0, size)

    def begin(self, done: float) -> None:
        """Begin an iteration in the others; the first process has to make it, too.

        Raises:
            UserError: One of them is gone.
        """
        for one in self._peers:
            try:
                send(one.connection, done)
            except ConnectionError:
                raise self.ended() from None

    def ended(self) -> UserError:
        """Return what to say where one of them is gone."""
        return self._peers.ended("of the training")

    def close(self) -> None:
        """End the others."""
        self._peers.end()
        self._place.cleanup()


def _serve(connection: Connection) -> None:
    """Learn with the first process until it is gone."""
    peer: Peer = receive(connection)
    algorithm: AveragesGradients = build_elsewhere(peer.recipe, None, peer.threads, peer.seed, peer.rank)
    algorithm.join(peer.state)
    algorithm.averaged = Group(Path(peer.store), peer.rank, peer.size)
    with contextlib.suppress(NotFinite):  # the first process says it
        while True:
            algorithm.iterate(receive(connection))


def main() -> None:
    """Learn with the process that started this one."""
    serve_linked(_serve)


if __name__ == "__main__":
    from rlstack.training import gradient_processes  # messages are of its classes, not of those of __main__

    gradient_processes.main()

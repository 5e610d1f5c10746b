"""Further processes that record demonstrations beside a run's own, each with robots of its own and a share of them."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import torch

from rlstack.errors import UserError
from rlstack.training.elsewhere import build_elsewhere
from rlstack.training.linked_process import LinkedProcesses, receive, send, serve_linked
from rlstack.training.run_files import RECIPE, WORKERS


class RecordsShares(Protocol):
    """An algorithm that can record a share of its demonstrations."""

    def record(self, folder: Path, rank: int, size: int) -> None:
        """Record one of ``size`` shares into a run's folder, as far as it is not there."""


@dataclass(frozen=True)
class Share:
    """What a further process records.

    Args:
        folder: The run's.
        rank: Number of this process, from 1.
        size: Number of processes.
        threads: On which it computes.
        seed: Of its robots.
    """

    folder: Path
    rank: int
    size: int
    threads: int
    seed: int


class RecordingProcesses:
    """The further processes, which record as soon as they have begun.

    Args:
        folder: The run's; it has a recipe.
        size: Number of processes with this one.
    """

    def __init__(self, folder: Path, size: int) -> None:
        module = "rlstack.training.language.recording_processes"
        self._others = LinkedProcesses(module, folder / WORKERS, "recording", size)
        for rank, one in enumerate(self._others, 1):
            seed = (torch.initial_seed() + 1_000_003 * rank) % 2**63
            send(one.connection, Share(folder, rank, size, torch.get_num_threads(), seed))

    def wait(self) -> None:
        """Wait until their shares are whole.

        Raises:
            UserError: The expert seldom succeeds, or a process ended.
        """
        for rank, one in enumerate(self._others, 1):
            try:
                why = receive(one.connection)
            except (EOFError, ConnectionError):
                raise self._others.ended("that records demonstrations", rank) from None
            if why is not None:
                raise UserError(why)

    def close(self) -> None:
        """End them; what they have recorded stays, and is gone on with by the next ones."""
        self._others.end()


def _serve(connection: Connection) -> None:
    """Record a share; send None when it is whole, or why it cannot be."""
    share: Share = receive(connection)
    recipe = (share.folder / RECIPE).read_text(encoding="utf-8")
    algorithm: RecordsShares = build_elsewhere(recipe, None, share.threads, share.seed)
    try:
        algorithm.record(share.folder, share.rank, share.size)
        send(connection, None)
    except UserError as error:
        send(connection, str(error))


def main() -> None:
    """Record a share for the process that started this one."""
    serve_linked(_serve)


if __name__ == "__main__":
    from rlstack.training.language import recording_processes  # messages are of its classes, not of those of __main__

    recording_processes.main()

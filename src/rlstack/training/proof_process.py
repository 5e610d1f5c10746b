"""A process that flies a part of each proof, while the one that adapts a policy flies the rest."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from rlstack.errors import UserError
from rlstack.processes import give_way
from rlstack.training.adaptation_messages import Failed
from rlstack.training.linked_process import last_words, receive, send, serve_linked, start_linked
from rlstack.verification.quick_grid import Figures
from rlstack.verification.request import Request


class ProofProcess:
    """The process, seen from the one that adapts; see :class:`rlstack.verification.quick_grid.Elsewhere`.

    Args:
        folder: Folder for what it prints.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "proof.txt"
        self._linked = start_linked("rlstack.training.proof_process", self._log)

    def begin(self, request: Request, keys: Sequence[str]) -> None:
        """Begin :func:`rlstack.verification.quick_grid.quick_figures`."""
        with contextlib.suppress(ConnectionError):  # it has ended, which `figures` says
            send(self._linked.connection, (request.for_another_process(), keys))

    def figures(self) -> Mapping[str, Figures]:
        """Return its figures.

        Raises:
            UserError: It has failed, or ended.
        """
        try:
            found = receive(self._linked.connection)
        except (EOFError, OSError):
            said = last_words(self._log)
            raise UserError(f"The process that proves meanwhile exited unexpectedly: {said}") from None
        if isinstance(found, Failed):
            raise UserError(found.why)
        return dict(found)


def _serve(connection: Connection) -> None:
    give_way()  # to the nodes, one of which flies the robot
    logging.disable(logging.WARNING)
    from rlstack.policies import load_policy
    from rlstack.verification.quick_grid import quick_figures

    while True:
        request, keys = receive(connection)
        try:
            policy = load_policy(request.policy, robot=request.robot, sha256=request.sha256)
            send(connection, quick_figures(replace(request, loaded=policy), keys))
        except UserError as error:
            send(connection, Failed(str(error)))


def main() -> None:
    """Prove for the process that started this one."""
    serve_linked(_serve)


if __name__ == "__main__":
    main()

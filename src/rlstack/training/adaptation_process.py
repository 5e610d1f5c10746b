"""The process in which a policy is adapted, so that the nodes that command a robot are not held up.

It measures, learns and proves, and another one proves meanwhile (:mod:`rlstack.training.proof_process`).
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.processes import give_way
from rlstack.training.adaptation_messages import Adapt, Ended, Failed, Look, Origin, Warm
from rlstack.training.linked_process import last_words, receive, send, serve_linked, start_linked


class AdaptationProcess:
    """The handle of the process; it answers one question after the other.

    Args:
        origin: The policy and its robot.
        folder: See :class:`rlstack.training.adaptation.Adapter`; what the processes print is kept there, too.

    Raises:
        UserError: The folder cannot be made.
    """

    def __init__(self, origin: Origin, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"out: the folder {folder} cannot be made: {error.strerror}.") from error
        self._log = folder / "adaptation.txt"
        self._linked = start_linked("rlstack.training.adaptation_process", self._log)
        send(self._linked.connection, (origin, folder))
        self.busy = True
        """Whether an answer is due; the first is :class:`Warm`."""

    def ask(self, question: Look | Adapt) -> None:
        """Ask; :attr:`busy` must be false."""
        self.busy = True
        with contextlib.suppress(ConnectionError):  # it has ended, which the next `answer` says
            send(self._linked.connection, question)

    def answer(self) -> Any:
        """Return the answer, or None as long as there is none.

        Raises:
            UserError: The process has ended.
        """
        try:
            if not self.busy or not self._linked.connection.poll():
                return None
            answer = receive(self._linked.connection)
        except (EOFError, OSError):
            raise UserError(f"The process that adapts exited unexpectedly: {last_words(self._log)}") from None
        if isinstance(answer, Ended):
            raise UserError(answer.why)
        self.busy = False
        return answer

    def close(self) -> None:
        """End it, and with it the one that proves meanwhile."""
        self._linked.end()


def _serve(connection: Connection) -> None:
    give_way()  # to the nodes, one of which flies the robot
    logging.disable(logging.WARNING)
    origin, folder = receive(connection)
    try:
        from rlstack.training.proof_process import ProofProcess

        beside = ProofProcess(folder)  # first, as it loads for seconds, too
        from rlstack.training.adaptation import Adapter
        from rlstack.training.command import import_torch

        import_torch()
        adapter = Adapter(origin, folder, beside)
        try:
            adapter.warm()
        finally:
            shutil.rmtree(folder / "warm_up", ignore_errors=True)
        send(connection, Warm())
        while True:
            question = receive(connection)
            try:
                looks = isinstance(question, Look)
                found = adapter.look(question.messages) if looks else adapter.adapt(question.told, question.number)
                send(connection, found)
            except UserError as error:
                send(connection, Failed(str(error)))
    except EOFError:  # the node has ended
        return
    except UserError as error:
        send(connection, Ended(str(error)))
    except Exception as error:
        traceback.print_exc()
        send(connection, Ended(f"The adaptation has failed ({type(error).__name__}: {error})."))


def main() -> None:
    """Adapt for the node that started this process."""
    serve_linked(_serve)


if __name__ == "__main__":
    main()

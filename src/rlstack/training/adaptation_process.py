"""A process of its own in which a policy is adapted, so that the nodes that command a robot are not held up."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import traceback
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.training.adaptation_messages import Adapt, Ended, Failed, Look, Origin, Warm

_NICE = 5
"""By how much it gives way to the nodes."""


class AdaptationProcess:
    """The handle of the process; it answers one question after the other.

    Args:
        origin: The policy and its robot.
        folder: See :class:`rlstack.training.adaptation.Adapter`.
    """

    def __init__(self, origin: Origin, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, origin, folder, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.busy = True
        """Whether an answer is due; the first is :class:`Warm`."""

    def ask(self, question: Look | Adapt) -> None:
        """Ask; :attr:`busy` must be false."""
        self.busy = True
        with contextlib.suppress(OSError):  # it has ended, which the next `answer` says
            self._connection.send(question)

    def answer(self) -> Any:
        """Return the answer, or None as long as there is none.

        Raises:
            UserError: The process has ended.
        """
        try:
            if not self.busy or not self._connection.poll():
                return None
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(1.0)
            raise UserError(f"The process that adapts has ended with status {self._process.exitcode}.") from None
        if isinstance(answer, Ended):
            raise UserError(answer.why)
        self.busy = False
        return answer

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._connection.close()


def _serve(connection: Any, origin: Origin, folder: Path, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node ends it
    die_with_parent(parent)
    os.nice(_NICE)
    logging.disable(logging.WARNING)
    try:
        from rlstack.training.adaptation import Adapter
        from rlstack.training.command import import_torch

        import_torch()
        adapter = Adapter(origin, folder)
        try:
            adapter.warm()
        finally:
            shutil.rmtree(folder / "warm_up", ignore_errors=True)
        connection.send(Warm())
        while True:
            question = connection.recv()
            try:
                looks = isinstance(question, Look)
                found = adapter.look(question.messages) if looks else adapter.adapt(question.told, question.number)
                connection.send(found)
            except UserError as error:
                connection.send(Failed(str(error)))
    except EOFError:
        return
    except UserError as error:
        connection.send(Ended(str(error)))
    except Exception as error:
        traceback.print_exc()
        connection.send(Ended(f"The adaptation has failed ({type(error).__name__}: {error})."))

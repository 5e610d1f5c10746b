"""Processes in which a policy is adapted, so that the nodes that command a robot are not held up.

One measures, learns and proves, and another one proves meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.processes import die_with_parent, give_way
from rlstack.training.adaptation_messages import Adapt, Ended, Failed, Look, Origin, Warm
from rlstack.verification.quick_grid import Figures
from rlstack.verification.request import Request


class AdaptationProcess:
    """The handle of the processes; they answer one question after the other.

    Args:
        origin: The policy and its robot.
        folder: See :class:`rlstack.training.adaptation.Adapter`.
    """

    def __init__(self, origin: Origin, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
        self._connection, theirs = context.Pipe()
        asks, proves = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, asks, origin, folder, os.getpid()), daemon=True)
        self._beside = context.Process(target=_prove, args=(proves, os.getpid()), daemon=True)
        self._process.start()
        self._beside.start()
        for end in (theirs, asks, proves):
            end.close()
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
        """End them."""
        for process in (self._process, self._beside):
            process.terminate()
        for process in (self._process, self._beside):
            process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join()
        self._connection.close()


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the node ends it
    die_with_parent(parent)
    give_way()  # to the nodes, one of which flies the robot
    logging.disable(logging.WARNING)


def _serve(connection: Any, elsewhere: Any, origin: Origin, folder: Path, parent: int) -> None:
    _begin(parent)
    try:
        from rlstack.training.adaptation import Adapter
        from rlstack.training.command import import_torch

        import_torch()
        adapter = Adapter(origin, folder, _Elsewhere(elsewhere))
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


def _prove(connection: Any, parent: int) -> None:
    """Fly a part of each proof."""
    _begin(parent)
    from rlstack.policies import load_policy
    from rlstack.verification.quick_grid import quick_figures

    try:
        while True:
            request, keys = connection.recv()
            try:
                policy = load_policy(request.policy, robot=request.robot, sha256=request.sha256)
                connection.send(quick_figures(replace(request, loaded=policy), keys))
            except UserError as error:
                connection.send(Failed(str(error)))
    except EOFError:
        return


class _Elsewhere:
    """See :class:`rlstack.verification.quick_grid.Elsewhere`: the process of :func:`_prove`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def begin(self, request: Request, keys: Sequence[str]) -> None:
        self._connection.send((request.for_another_process(), keys))

    def figures(self) -> Mapping[str, Figures]:
        try:
            found = self._connection.recv()
        except EOFError:
            raise UserError("The process that proves meanwhile has ended.") from None
        if isinstance(found, Failed):
            raise UserError(found.why)
        return dict(found)

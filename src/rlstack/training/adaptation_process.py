"""A process of its own in which a policy is adapted, so that the nodes that command a robot are not held up."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.data.bags.mcap_file import Message
from rlstack.errors import UserError
from rlstack.identification.kind_adaptation import Told
from rlstack.processes import die_with_parent

_NICE = 5
"""By how much it gives way to the nodes."""


@dataclass(frozen=True)
class Origin:
    """The proven policy that is adapted, and the robot that it is for.

    Args:
        policy: Its file, a path.
        sha256: SHA-256 of its bytes.
        robot: The robot's name or file.
        robot_sha256: Of that file; empty: any.
        namespace: Namespace of the robot's topics.
    """

    policy: str
    sha256: str
    robot: str
    robot_sha256: str = ""
    namespace: str = "/"


@dataclass(frozen=True)
class Candidate:
    """A policy that was adapted and judged.

    Args:
        policy: Its file.
        sha256: Of its bytes.
        failures: Why it does not pass its proof, a sentence each; nothing: it passes.
        trials: Flights of the proof at each condition.
        conditions: Number of conditions.
        error_m: Median distance from the goal in the nominal flights, m.
        learned_s: Processor time of learning, s.
        proved_s: Of the proof.
    """

    policy: Path
    sha256: str
    failures: tuple[str, ...]
    trials: int
    conditions: int
    error_m: float
    learned_s: float
    proved_s: float


@dataclass(frozen=True)
class Warm:
    """It is loaded and compiled."""


@dataclass(frozen=True)
class Look:
    """Asks what messages tell of the robot: a :class:`Told`, or :class:`Failed`."""

    messages: Sequence[Message]


@dataclass(frozen=True)
class Adapt:
    """Asks for a policy for what was told: a :class:`Candidate`, or :class:`Failed`."""

    told: Told
    number: int


@dataclass(frozen=True)
class Failed:
    """Why there is no answer, a sentence."""

    why: str


@dataclass(frozen=True)
class Ended:
    """Why the process has ended, a sentence."""

    why: str


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

"""Policy-gradient updates in a process of their own, while the robots collect the next iteration's experience.

The robots then act with a policy that lags one iteration behind, for which the clipped ratios make up, since they refer
to the policy that acted (RLinf, arXiv 2509.15965, overlaps likewise).
"""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.training.language.actor import LanguageActor, Seen
from rlstack.training.language.policy_gradient import PolicyGradient, PolicyGradientSettings

_USED = ("choice", "log_prob", "inside", "places")
"""What an update uses of chunks, beside what the policy saw."""


class OverlappedPolicyGradient:
    """What :class:`.PolicyGradient` does, one iteration later: :meth:`update` begins it and adopts the one before.

    Args:
        settings: Its settings.
        policy: The policy that acts.
        generator: Seeds the other process.
    """

    def __init__(self, settings: PolicyGradientSettings, policy: LanguageActor, generator: torch.Generator) -> None:
        self.policy, self._settings = policy, settings
        self._twin = policy.copied()
        """The policy that learns, as the other process had it when it was last asked."""
        seed = int(torch.randint(2**31, (), generator=generator))
        self._learner = PolicyGradient(settings, self._twin, torch.Generator().manual_seed(seed))
        self._process: Any = None
        self._connection: Connection | None = None
        self._waiting = False
        self._result: tuple[dict[str, Any], dict[str, float]] | None = None

    def refer(self) -> None:
        """Begin with the acting policy, which is also the reference of the KL divergence, if that has a weight."""
        self._twin.load_state_dict(self.policy.state_dict())
        self._learner.refer()

    def update(self, chunks: dict[str, Any], advantage: Tensor, share: float) -> dict[str, float]:
        """Begin an update; see :meth:`.PolicyGradient.update`. Adopt the one before, and return its losses.

        Raises:
            UserError: The other process ended.
        """
        self._wait()
        losses: dict[str, float] = {}
        if self._result is not None:
            weights, losses = self._result
            self.policy.load_state_dict(weights)
            self._result = None
        named = {name: chunks[name] for name in _USED}
        self._start()
        self._send("update", ({**named, "seen": tuple(chunks["seen"])}, advantage, share))
        self._waiting = True
        return losses

    def state_dict(self) -> dict[str, Any]:
        """Return the learner's state, the policy that learns, and the update that is not adopted yet."""
        self._take_over()
        return copy.deepcopy(
            {
                "learner": self._learner.state_dict(),
                "random": self._learner.generator.get_state(),
                "twin": self._twin.state_dict(),
                "result": self._result,
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned; the policy is loaded before."""
        self.close()
        self._load(state["learner"], state["random"], state["twin"])
        self._result = state["result"]

    def finish(self) -> None:
        """Take over what the other process has learned, and end it."""
        self._take_over()
        self.close()

    def close(self) -> None:
        """End the other process."""
        if self._connection is not None:
            self._connection.close()
            self._process.join()
            self._connection, self._waiting = None, False

    def _take_over(self) -> None:
        self._wait()
        if self._connection is not None:
            self._send("state", None)
            self._load(*self._receive())

    def _load(self, state: dict[str, Any], generator: Tensor, weights: dict[str, Any]) -> None:
        self._twin.load_state_dict(weights)
        self._learner.load_state_dict(state)
        self._learner.generator.set_state(generator)

    def _start(self) -> None:
        if self._connection is not None:
            return
        context = multiprocessing.get_context("spawn")  # threads of the simulator do not survive a fork
        self._connection, theirs = context.Pipe()
        # a copy, since the two processes would share the memory of its weights
        given = (theirs, os.getpid(), torch.get_num_threads(), self._settings, copy.deepcopy(self._twin))
        self._process = context.Process(target=_learn, args=given, name="learner", daemon=True)
        self._process.start()
        theirs.close()
        self._send("begin", (self._learner.state_dict(), self._learner.generator.get_state()))

    def _wait(self) -> None:
        """Wait for the update that was begun, if any."""
        if self._waiting:
            self._result = self._receive()
            self._waiting = False

    def _send(self, kind: str, content: Any) -> None:
        assert self._connection is not None
        try:
            self._connection.send_bytes(packed((kind, content)))
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self) -> Any:
        assert self._connection is not None
        try:
            return unpacked(self._connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._ended() from None

    def _ended(self) -> UserError:
        self._process.join()
        return UserError(
            f"The learner's process exited unexpectedly (status {self._process.exitcode}): the message above says why,"
            " or memory ran out. Resume the run, or set overlap to false."
        )


def _learn(
    connection: Connection,
    parent: int,
    threads: int,
    settings: PolicyGradientSettings,
    policy: LanguageActor,
) -> None:
    """Update the policy as often as asked, until the connection is closed."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the robots' process handles Ctrl-C
    torch.set_num_threads(threads)
    learner = PolicyGradient(settings, policy, torch.Generator())
    while True:
        try:
            kind, content = unpacked(connection.recv_bytes())
        except EOFError:
            return
        if kind == "begin":
            state, random = content
            learner.load_state_dict(state)
            learner.generator.set_state(random)
        elif kind == "state":
            now = (learner.state_dict(), learner.generator.get_state(), policy.state_dict())
            connection.send_bytes(packed(now))
        else:
            begin = time.process_time()
            chunks, advantage, share = content
            losses = learner.update({**chunks, "seen": Seen(*chunks["seen"])}, advantage, share)
            losses["learner_cpu_s"] = time.process_time() - begin
            connection.send_bytes(packed((policy.state_dict(), losses)))


def packed(content: Any) -> bytes:
    """Return tensors and plain data as bytes; a connection's own pickling would share the tensors' memory."""
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def unpacked(content: bytes) -> Any:
    """Return what :func:`packed` was given."""
    return torch.load(io.BytesIO(content), weights_only=True)


def policy_gradient(
    settings: PolicyGradientSettings, policy: LanguageActor, generator: torch.Generator
) -> PolicyGradient | OverlappedPolicyGradient:
    """Return the updates of a policy, in this process or in one of their own; choose how its actions are sampled.

    Raises:
        UserError: Its head cannot be sampled so, or its eyes cannot be fixed.
    """
    policy.head.explore_by(settings.exploration)
    if settings.fixed_eyes:
        if settings.places or policy.grounded is None:
            why = "places is above 0: what is seen would have to learn" if settings.places else "a checkpoint's network"
            raise UserError(f"algorithm_settings: fixed_eyes: true is not allowed with {why}.")
        policy.fix_eyes()
    kind = OverlappedPolicyGradient if settings.overlap else PolicyGradient
    return kind(settings, policy, generator)


def finish(learner: PolicyGradient | OverlappedPolicyGradient) -> None:
    """End the process of updates, if they have one, with what it has learned taken over."""
    if isinstance(learner, OverlappedPolicyGradient):
        learner.finish()

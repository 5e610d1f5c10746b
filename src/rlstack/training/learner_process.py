"""An asynchronous learner: it learns in a process of its own while the robots go on in another.

The two share a run's folder: the robots' process writes steps, the learner reads them, and what it has learned lies in
``learner/``, written whole or not at all. So either may die at any moment, and both go on from what is there.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rlstack import schema
from rlstack.data.replay import Overwritten, ReplayReader
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.processes import die_with_parent
from rlstack.training.algorithm import NotFinite
from rlstack.training.hindsight_replay import ReplaySampler
from rlstack.training.mixed_replay import MixedReplay
from rlstack.training.soft_actor_critic import SoftActorCriticLearner

LEARNER = "learner"
"""Folder of a run that holds what its learner has learned."""

_PLAN, _STATE, _POLICY, _STEPS, _LOG = "plan.pt", "state.pt", "policy.pt", "steps", "log.txt"

_PUBLISH_S, _SAVE_S, _IDLE_S = 0.25, 10.0, 0.005
"""How often the learner gives its policy away, and saves all it needs to go on; and how long it waits for steps."""


_TRIES = 3
"""Deaths without having learned anything, after which it is not started again."""
_NOT_FINITE = 65
"""Status of a learner that diverged: from what it saved last it would do so again (EX_DATAERR of sysexits.h)."""


class LearnerProcess:
    """The learner as the robots' process sees it.

    Args:
        folder: The run's, which holds steps already, or will.
        learner: What the learner begins with, where it has not begun yet.
        settings: :class:`rlstack.training.algorithms.rlpd.RLPDSettings`.
        sources: Folders of the run that hold what the robots did, demonstrations, and corrections.
        unrewarded: See :class:`rlstack.training.mixed_replay.MixedReplay`.
        seed: Of what is drawn.
    """

    def __init__(
        self,
        folder: Path,
        learner: SoftActorCriticLearner,
        settings: Any,
        sources: tuple[str, str, str],
        unrewarded: bool,
        seed: int,
    ) -> None:
        self.folder = folder / LEARNER
        self.updates = 0
        """Of the critics, so far as is known here."""
        kind = type(settings)
        plan = {
            "settings": schema.to_data(settings),
            "kind": [kind.__module__, kind.__qualname__],
            "columns": learner.columns,
            "actions": learner.actions,
            "sources": list(sources),
            "unrewarded": unrewarded,
            "seed": seed,
            "threads": torch.get_num_threads(),
        }
        _save(self.folder / _PLAN, plan)
        if not (self.folder / _STATE).is_file():
            _save(self.folder / _STATE, {"learner": learner.state_dict(), "updates": 0, "lessons": None})
        self._seen, self._begun_at, self._idle = 0, -1, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: Callable[[], Any] | None = None

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def number(self) -> int:
        """Its process id."""
        return 0 if self._process is None else int(self._process.pid)

    def start(self) -> None:
        """Start it, from what it saved last.

        Raises:
            UserError: It has died several times without learning anything.
            NotFinite: It ended because what it learned was not finite.
        """
        if self._process is not None and self._process.poll() == _NOT_FINITE:
            raise NotFinite(self._last_words())
        self._idle = self._idle + 1 if self._begun_at == self.updates else 0
        if self._idle >= _TRIES:
            raise UserError(
                f"The learner died {_TRIES} times without learning anything: {self._last_words()} See"
                f" {self.folder / _LOG}."
            )
        self._begun_at = self.updates
        with (self.folder / _LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rlstack.training.learner_process", str(self.folder), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._ended = weakref.finalize(self, _end, self._process)

    def tell(self, steps: int, done: float) -> None:
        """Say how many steps there are to learn from, and what share of the run lies behind."""
        path = self.folder / _STEPS
        beside = path.with_suffix(".new")
        beside.write_text(f"{steps} {done}")
        os.replace(beside, path)

    def take(self, actor: torch.nn.Module) -> dict[str, float]:
        """Put the newest policy into ``actor``, if there is one that is newer; return what was logged with it."""
        path = self.folder / _POLICY
        try:
            written = path.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        if written == self._seen:
            return {}
        self._seen = written
        newest = torch.load(path, weights_only=True)
        actor.load_state_dict(newest["actor"])
        self.updates = newest["updates"]
        logged: dict[str, float] = newest["logged"]
        return logged

    def close(self) -> None:
        """End it; it saves first."""
        if self._ended is not None:
            self._ended()

    def _last_words(self) -> str:
        lines = (self.folder / _LOG).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with {self._process.returncode if self._process else None}."


def learn(folder: Path, parent: int) -> None:
    """Be the learner: learn from what the other process writes, until it is gone or SIGTERM comes.

    Args:
        folder: :data:`LEARNER` in the run's.
        parent: The robots' process.
    """
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the robots' process, which ends this one
    die_with_parent(parent)
    plan = torch.load(folder / _PLAN, weights_only=True)
    torch.set_num_threads(plan["threads"])
    module, name = plan["kind"]
    settings = schema.load(getattr(importlib.import_module(module), name), plan["settings"], str(folder / _PLAN))
    generator = torch.Generator().manual_seed(plan["seed"])
    learner = SoftActorCriticLearner(settings, plan["columns"], plan["actions"], generator)
    own, prior, corrections = (
        ReplaySampler(ReplayReader(folder.parent / source), plan["seed"] + k)
        for k, source in enumerate(plan["sources"])
    )
    lessons = MixedReplay(settings, own, prior, corrections, plan["unrewarded"])
    state = torch.load(folder / _STATE, weights_only=True)
    learner.load_state_dict(state["learner"])
    if state["lessons"] is not None:
        lessons.load_state_dict(state["lessons"])
    updates: int = state["updates"]
    logged: dict[str, torch.Tensor] = {}
    published = saved = time.monotonic()

    def save() -> None:
        learner.check(logged)  # what has diverged must not be what it goes on from
        _save(folder / _STATE, {"learner": learner.state_dict(), "updates": updates, "lessons": lessons.state_dict()})

    while not asked:
        steps, done = _told(folder)
        if updates >= settings.updates * (steps - settings.warm_up):
            time.sleep(_IDLE_S)
        else:
            try:
                (batch,) = lessons.batches(1)
            except Overwritten:
                continue
            logged.update(learner.update_critics(batch))
            updates += 1
            if updates % settings.actor_every == 0:
                logged.update(learner.update_actor(batch, settings.cloning_at(done)))
        now = time.monotonic()
        if now - published > _PUBLISH_S and logged:
            told = {"actor": learner.actor.state_dict(), "updates": updates, "logged": learner.check(logged)}
            _save(folder / _POLICY, told)
            published, logged = now, {}
        if now - saved > _SAVE_S:
            save()
            saved = now
    save()


def _told(folder: Path) -> tuple[int, float]:
    """Return what :meth:`LearnerProcess.tell` said."""
    try:
        steps, done = (folder / _STEPS).read_text().split()
    except FileNotFoundError:
        return 0, 0.0
    return int(steps), float(done)


def _save(path: Path, data: Any) -> None:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    write_atomically(path, buffer.getvalue())


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    try:
        learn(Path(sys.argv[1]), int(sys.argv[2]))
    except NotFinite as error:
        print(error, file=sys.stderr)
        sys.exit(_NOT_FINITE)

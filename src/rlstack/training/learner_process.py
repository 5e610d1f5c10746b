"""Asynchronous learner: learns in its own process while the robots act in another.

The two share a run's folder: the robots' process writes steps; the learner reads them and writes its state atomically
to ``learner/``. So either may die at any moment, and both resume from these files.
"""

from __future__ import annotations

import importlib
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rlstack import schema
from rlstack.data.replay import Overwritten, ReplayReader
from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.tasks.core.learning_environment import GoalEnvironment
from rlstack.training.algorithm import NotFinite
from rlstack.training.elsewhere import robots_of
from rlstack.training.episode_outcomes import with_outcomes
from rlstack.training.hindsight_replay import ReplaySampler
from rlstack.training.linked_process import start_module
from rlstack.training.mixed_replay import AT_ONCE, MixedReplay
from rlstack.training.recipe import read_recipe
from rlstack.training.run_files import RECIPE
from rlstack.training.run_folder import save_state
from rlstack.training.soft_actor_critic import SoftActorCriticLearner

LEARNER = "learner"
"""Folder of the learner's state in a run's folder."""

_PLAN, _STATE, _POLICY, _STEPS, _LOG = "plan.pt", "state.pt", "policy.pt", "steps", "log.txt"

_PUBLISH_S, _SAVE_S, _IDLE_S = 0.25, 10.0, 0.005
"""Periods at which the learner publishes its policy and saves its state, and how long it waits for steps."""


_TRIES = 3
"""Number of deaths without progress after which it is not restarted."""
_NOT_FINITE = 65
"""Exit status of a learner that diverged, which a restart would repeat (EX_DATAERR of sysexits.h)."""


_DAMAGED = (RuntimeError, EOFError, OSError, pickle.UnpicklingError)
"""What loading a file raises that was not written to its end."""


class LearnerProcess:
    """Handle of the learner in the robots' process.

    Args:
        folder: The run's folder, which holds the steps.
        learner: Initial state of a learner that has not started yet.
        settings: :class:`rlstack.training.algorithms.sac.SACSettings`; with hindsight, the folder has the run's recipe.
        sources: The run's folders of own steps, and of demonstrations and corrections if there are any.
        unrewarded: See :class:`rlstack.training.mixed_replay.MixedReplay`.
        seed: Seed of sampling.
    """

    def __init__(
        self,
        folder: Path,
        learner: SoftActorCriticLearner,
        settings: Any,
        sources: tuple[str, ...],
        unrewarded: bool,
        seed: int,
    ) -> None:
        self.folder = folder / LEARNER
        self.updates = 0
        """Critic updates so far, as last reported."""
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
        save_state(self.folder / _PLAN, plan)
        if not (self.folder / _STATE).is_file():
            save_state(self.folder / _STATE, {"learner": learner.state_dict(), "updates": 0, "lessons": None})
        self._seen, self._begun_at, self._idle = 0, -1, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: Callable[[], Any] | None = None

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it from its last saved state.

        Raises:
            UserError: It died several times without progress.
            NotFinite: It stopped at a value that is not finite.
        """
        if self._process is not None and self._process.poll() == _NOT_FINITE:
            raise NotFinite(self._last_line())
        self._idle = self._idle + 1 if self._begun_at == self.updates else 0
        if self._idle >= _TRIES:
            raise UserError(
                f"The learner died {_TRIES} times without progress: {self._last_line()} See {self.folder / _LOG}."
            )
        self._begun_at = self.updates
        self._process = start_module("rlstack.training.learner_process", str(self.folder), self.folder / _LOG)
        self._ended = weakref.finalize(self, _end, self._process)

    def report(self, steps: int, done: float) -> None:
        """Report the number of steps to learn from, and the completed share of the run."""
        path = self.folder / _STEPS
        beside = path.with_suffix(".new")
        beside.write_text(f"{steps} {done}")
        os.replace(beside, path)

    def take(self, actor: torch.nn.Module) -> dict[str, float]:
        """Load the latest policy into ``actor`` if it is newer; return the scalars logged with it."""
        path = self.folder / _POLICY
        try:
            written = path.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        if written == self._seen:
            return {}
        self._seen = written
        try:
            newest = torch.load(path, weights_only=True)
        except _DAMAGED:  # after a power cut, until the learner is there
            return {}
        actor.load_state_dict(newest["actor"])
        self.updates = newest["updates"]
        logged: dict[str, float] = newest["logged"]
        return logged

    def state(self) -> dict[str, Any]:
        """Return the learner's state that was saved last."""
        saved: dict[str, Any] = torch.load(self.folder / _STATE, weights_only=True)["learner"]
        return saved

    def close(self) -> None:
        """Stop it; it saves first."""
        if self._ended is not None:
            self._ended()

    def _last_line(self) -> str:
        lines = (self.folder / _LOG).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with {self._process.returncode if self._process else None}."


def learn(folder: Path, parent: int) -> None:
    """Run the learner: learn from the steps of the other process until that is gone or SIGTERM arrives.

    Args:
        folder: :data:`LEARNER` in the run's folder.
        parent: Id of the robots' process.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the robots' process handles Ctrl-C and stops this one
    die_with_parent(parent)
    plan = torch.load(folder / _PLAN, weights_only=True)
    torch.set_num_threads(plan["threads"])
    module, name = plan["kind"]
    settings = schema.load(getattr(importlib.import_module(module), name), plan["settings"], str(folder / _PLAN))
    generator = torch.Generator().manual_seed(plan["seed"])
    learner = SoftActorCriticLearner(settings, plan["columns"], plan["actions"], generator)
    environment = _environment(folder.parent) if settings.hindsight else None
    own, *others = (
        ReplaySampler(ReplayReader(folder.parent / source), plan["seed"] + k, environment)
        for k, source in enumerate(plan["sources"])
    )
    prior, corrections = (*others, None, None)[:2]
    replay = MixedReplay(settings, own, prior, corrections, plan["unrewarded"])
    state = torch.load(folder / _STATE, weights_only=True)
    learner.load_state_dict(state["learner"])
    if state["lessons"] is not None:
        replay.load_state_dict(state["lessons"])
    updates: int = state["updates"]
    logged: dict[str, torch.Tensor] = {}
    published = saved = time.monotonic()

    def save() -> None:
        learner.check(logged)  # never save a diverged state
        save_state(
            folder / _STATE, {"learner": learner.state_dict(), "updates": updates, "lessons": replay.state_dict()}
        )

    def publish() -> None:
        report = {"actor": learner.actor.state_dict(), "updates": updates, "logged": learner.check(logged)}
        _publish(folder / _POLICY, report)

    publish()  # of a power cut, the file that is there may be damaged
    batches: list[dict[str, torch.Tensor]] = []
    done = 0.0
    while not stop.is_set():
        if not batches:
            steps, done = _progress(folder)
            owed = settings.updates * (steps - settings.warm_up) - updates
            try:
                batches = replay.batches(min(math.ceil(owed), AT_ONCE)) if owed > 0.0 else []
            except Overwritten:
                continue
        if batches:
            batch = batches.pop()
            logged.update(learner.update_critics(batch))
            updates += 1
            if updates % settings.actor_every == 0:
                logged.update(learner.update_actor(batch, settings.cloning_at(done)))
        else:
            time.sleep(_IDLE_S)
        now = time.monotonic()
        if now - published > _PUBLISH_S and logged:
            publish()
            published, logged = now, {}
        if now - saved > _SAVE_S:
            save()
            saved = now
    save()


def _publish(path: Path, report: dict[str, Any]) -> None:
    """Replace a file at once, without waiting for the disk, which would take a twentieth of the learner's time."""
    beside = path.with_suffix(".new")
    torch.save(report, beside)
    os.replace(beside, path)


def _environment(run: Path) -> GoalEnvironment:
    """Return an environment of a run's task, which relabels goals."""
    recipe = read_recipe(run / RECIPE)
    told = with_outcomes(robots_of(recipe, 1, "cpu", recipe.seed))
    assert told is not None
    return told


def _progress(folder: Path) -> tuple[int, float]:
    """Return the values that :meth:`LearnerProcess.report` reported."""
    try:
        steps, done = (folder / _STEPS).read_text().split()
    except FileNotFoundError:
        return 0, 0.0
    return int(steps), float(done)


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

"""Training run: the loop, and a folder with the recipe, checkpoints, scalars and the policy file.

Files in the folder: ``recipe.yaml`` (full configuration), ``checkpoint.pt`` (to resume), TensorBoard events,
``evaluations.json`` (figures so far), ``training.json`` (final figures), ``policy.onnx`` (best policy by evaluation).
"""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlstack.errors import UserError
from rlstack.files import write_atomically, write_json
from rlstack.policies import PolicyOutputError
from rlstack.processes import children_cpu_s
from rlstack.progress import working
from rlstack.robots import RobotSpec, load_robot
from rlstack.training import ALGORITHMS
from rlstack.training.algorithm import Actor, Algorithm, ChecksFirst, HasProcesses, NotFinite, UsesFolder, on_ray
from rlstack.training.export import PolicyGraph, TorchPolicy, export_policy
from rlstack.training.interrupt import deferred_interrupt
from rlstack.training.intervention_strategies import needs_human
from rlstack.training.origin import SCHEDULE_FROM, Origin, read_origin
from rlstack.training.recipe import Recipe, recipe_to_yaml
from rlstack.training.recipe_changes import changed_settings, iteration_of, read_changes
from rlstack.training.run_contract import contract_of
from rlstack.training.run_files import EVALUATIONS, FIGURES, LINEAGE, POLICY, RECIPE
from rlstack.training.run_folder import (
    create_folder,
    exists_already,
    is_unused,
    load_checkpoint,
    lock_folder,
    never_learned,
    recipe_of,
    room_needed,
    save_checkpoint,
)
from rlstack.training.run_margins import check_margins, margins_of
from rlstack.training.run_result import OnBest, OnProgress, Progress, Result
from rlstack.training.tracking import Tracking
from rlstack.verification.training_evaluation import Evaluator

if TYPE_CHECKING:
    from rlstack.training.human_intervention import Devices, HumanIntervener

CHECKPOINT_EVERY_S = 30.0
"""Wall time between checkpoints."""


def start(
    recipe: Recipe[Any, Any],
    folder: Path,
    on_progress: OnProgress | None = None,
    devices: Devices | None = None,
    on_start: Callable[[Path], None] = lambda folder: None,
    on_best: OnBest | None = None,
    evaluate: bool = True,
    until: float = 1.0,
    ray: str = "",
) -> Result:
    """Train ``recipe`` in a new ``folder`` until its last step, or until Ctrl-C, which saves and returns.

    Check a recipe that was changed in code with :func:`rlstack.training.recipe.check_recipe` first.

    Ctrl-C stops after the iteration, so that the saved run resumes exactly; a second one raises ``KeyboardInterrupt``
    at once and leaves the previous checkpoint. ``on_progress`` may also raise it to stop.
    ``on_start`` is called once all is checked and the folder is there, ``on_best`` with each new best policy.
    ``devices`` creates the teleoperation device if the recipe has human intervention. Without ``evaluate`` the last
    policy is exported, which somebody else is to judge. With ``until`` it stops, evaluated and saved, once that share
    of the steps is done. ``ray`` is the address of a Ray cluster for the algorithm's rollout workers.

    A run that ends before its first iteration leaves no folder, unless it has demonstrations.

    Raises:
        UserError: The folder exists already, human intervention is not possible, or learning diverged.
    """
    if folder.exists():
        raise exists_already(folder)
    check_margins(recipe)
    origin = _origin(recipe)
    run = _Run(recipe, folder)
    run.on_best, run.evaluates = on_best, evaluate
    run.stop_after(until)
    run.act_on(ray)
    run.check()
    if origin is not None:
        run.start_from(origin)
    with _human_intervention(run, devices) as operator, create_folder(folder), ExitStack() as tracked:
        on_start(folder)
        try:
            write_atomically(folder / RECIPE, recipe_to_yaml(recipe))
            if run.lineage:
                write_json(folder / LINEAGE, run.lineage)
            tracked.enter_context(run.tracking)
            run.open()
        except BaseException as error:
            if is_unused(folder):
                shutil.rmtree(folder, ignore_errors=True)
            elif isinstance(error, UserError):
                raise UserError(
                    f"{error} The data so far are kept: change {folder / RECIPE} if needed, and resume with"
                    f" `rlstack train --resume {folder}`."
                ) from error
            raise
        return run.learn(on_progress, operator)


def resume(
    folder: Path,
    on_progress: OnProgress | None = None,
    devices: Devices | None = None,
    on_best: OnBest | None = None,
    until: float = 1.0,
    ray: str = "",
) -> Result:
    """Resume the run in ``folder`` exactly from its latest checkpoint.

    A run that was killed before its first iteration has none, and restarts with its existing demonstrations.
    The other arguments are those of :func:`start`.

    Raises:
        UserError: There is no run, its checkpoint is missing, damaged or does not fit its recipe, another process
            trains there, human intervention is not possible, or learning diverged.
    """
    if not (folder / RECIPE).is_file():
        load_checkpoint(folder)  # raises before a lock is created in a folder that is not a run
    recipe = recipe_of(folder)
    with lock_folder(folder):
        state = None if never_learned(folder) else load_checkpoint(folder)
        run = _Run(recipe, folder)
        run.on_best = on_best
        if state is not None:
            run.load(state)
        run.stop_after(until)
        run.act_on(ray)
        with _human_intervention(run, devices) as operator, run.tracking:
            run.open()
            return run.learn(on_progress, operator)


def _origin(recipe: Recipe[Any, Any]) -> Origin | None:
    """Return what a recipe starts from, checked before anything is built."""
    if recipe.fine_tuned_from is None:
        return None
    origin = read_origin(recipe.fine_tuned_from, recipe.algorithm)
    task = recipe.task_settings
    origin.check(recipe, task.pipeline(task.reference(load_robot(recipe.robot))))
    return origin


def _human_intervention(run: _Run, devices: Devices | None) -> AbstractContextManager[HumanIntervener | None]:
    """Return the context of human intervention, if the recipe asks for it."""
    if not needs_human(run.recipe.algorithm_settings):
        return nullcontext()
    from rlstack.training.human_intervention import human_intervener

    return human_intervener(run.algorithm, run.environment, devices)


def export(folder: Path, out: Path | None = None) -> Path:
    """Write the best policy of the run in ``folder`` to ``out``, by default its ``policy.onnx``.

    Raises:
        UserError: The checkpoint is missing, damaged or does not fit its recipe, or ``out`` cannot be written.
    """
    state = load_checkpoint(folder)
    # the device of training may be missing here
    run = _Run(recipe_of(folder), folder, device="cpu")
    run.load(state)
    return run.export(out or folder / POLICY)


_KEPT = ("iteration", "seconds", "cpu_seconds", "evaluation_cpu_seconds", "evaluations", "success", "best")
"""Attributes of a run in its checkpoint, beside the algorithm."""


class _Run:
    def __init__(self, recipe: Recipe[Any, Any], folder: Path, device: str | None = None) -> None:
        self.recipe, self.folder = recipe, folder
        self.task = recipe.task_settings
        self.robot: RobotSpec = self.task.reference(load_robot(recipe.robot))
        torch.set_num_threads(recipe.threads)
        torch.manual_seed(recipe.seed)
        pipeline = self.task.pipeline(self.robot)
        environment = self.task.environment(
            self.robot, pipeline, recipe.envs, device=device or recipe.device, seed=recipe.seed
        )
        self.algorithm: Algorithm = ALGORITHMS.load(recipe.algorithm)(recipe.algorithm_settings, environment)
        self.environment = environment
        self.evaluator = Evaluator(self.task, self.robot, recipe.selection.episodes, recipe.selection.seed)
        self.iterations = self.last = max(1, -(-recipe.steps // self.algorithm.steps_per_iteration))
        self.until = 1.0
        self.iteration = 0
        settings = recipe.algorithm_settings
        self.changes = read_changes(recipe.changes, recipe.algorithm, settings, f"{folder / RECIPE}")
        self.seconds = self.cpu_seconds = self.evaluation_cpu_seconds = 0.0
        self.setup_cpu_seconds = 0.0
        self.others_s = 0.0
        """CPU time of processes that had ended before the first iteration."""
        self.evaluations: list[dict[str, float]] = []
        self.success: float | None = None
        self.on_best: OnBest | None = None
        self.evaluates = True
        self.tracking = Tracking(recipe, folder)
        self.best: dict[str, Any] = {}
        """``actor`` (weights), ``rank``, ``step`` and ``figures`` of the best policy so far."""
        self.lineage: list[dict[str, Any]] = []
        if recipe.fine_tuned_from is not None and (folder / LINEAGE).is_file():
            self.lineage = json.loads((folder / LINEAGE).read_text())

    def check(self) -> None:
        """Raise ``UserError`` if the algorithm lacks something that it begins with, such as a policy."""
        if isinstance(self.algorithm, ChecksFirst):
            self.algorithm.check()

    def start_from(self, origin: Origin) -> None:
        """Begin with the weights of another run or policy file, which is the best policy until another one is."""
        origin.check_network(self.algorithm.actor())
        algorithm: Any = self.algorithm  # one that fine-tunes: the origin was read for it
        try:
            algorithm.start_from(origin.actor, origin.state)
        except (KeyError, RuntimeError, TypeError) as error:
            raise UserError(
                f"--from: the checkpoint in {origin.path} has other networks ({type(error).__name__}): another version"
                " of rlstack wrote it, or its critics see something else."
            ) from error
        self.lineage = origin.lineage()

    def stop_after(self, until: float) -> None:
        """Stop once a share of the steps is done."""
        if until * self.iterations < 1.0 - 1e-6:
            raise UserError(
                f"{until:g} of the run's {self.iterations} iterations is less than one: stop later (--until, fewer"
                " generations), or train more steps."
            )
        self.until, self.last = until, iteration_of(until, self.iterations)

    def act_on(self, ray: str) -> None:
        """Have the rollout workers on a Ray cluster, if there is an address."""
        if ray:
            on_ray(self.algorithm, self.recipe.algorithm_settings, ray)

    def _change(self, iteration: int) -> None:
        """Take over the settings that hold after so many iterations, if changes have come before."""
        due = [one for one in self.changes if iteration_of(one.after, self.iterations) <= iteration]
        if due:
            algorithm: Any = self.algorithm  # one that changes in mid-run: the recipe was read for it
            algorithm.change(changed_settings(self.recipe.algorithm_settings, due))

    def load(self, state: dict[str, Any]) -> None:
        try:
            self._change(state["iteration"] - 1)  # those of this very iteration come before the next one
            self.algorithm.load_state_dict(state["algorithm"])
            for name in _KEPT:
                setattr(self, name, state[name])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise UserError(
                f"The checkpoint in {self.folder} does not fit the {RECIPE} beside it, or was written by another"
                f" version of rlstack ({type(error).__name__}). Restore the recipe, or train again."
            ) from error

    def save(self) -> None:
        save_checkpoint(self.folder, self._state())

    def _state(self) -> dict[str, Any]:
        kept = {name: copy.copy(getattr(self, name)) for name in _KEPT}
        return {**kept, "algorithm": self.algorithm.state_dict()}

    def open(self) -> None:
        """Write the initial state of learning to the folder."""
        before = children_cpu_s()
        if isinstance(self.algorithm, UsesFolder):
            self.algorithm.open(self.folder)
        self.others_s = children_cpu_s()
        self.setup_cpu_seconds = time.process_time() + self.others_s - before
        if not self.iteration:
            if self.recipe.fine_tuned_from is not None and self.evaluates:
                self._evaluate()  # no fine-tuning ends with a policy that is worse than the one before
            self.save()  # so that there is always a checkpoint

    def learn(self, on_progress: OnProgress | None, operator: HumanIntervener | None = None) -> Result:
        from torch.utils.tensorboard import SummaryWriter

        saved_at = time.monotonic()
        waiting: dict[str, Any] | None = None
        # drop scalars after the checkpoint: their iterations repeat
        with (
            room_needed(self.folder),
            deferred_interrupt() as stop,
            SummaryWriter(str(self.folder), purge_step=self._steps() + 1) as writer,
        ):
            while self.iteration < self.last and not stop.is_set():
                progress = self._iterate(writer)
                if waiting is not None:
                    # save only a state that learning can continue from
                    save_checkpoint(self.folder, waiting)
                    waiting, saved_at = None, time.monotonic()
                try:
                    if on_progress is not None:
                        on_progress(progress)
                except KeyboardInterrupt:
                    stop.set()
                if operator is not None and operator.stopped:
                    stop.set()
                if time.monotonic() - saved_at > CHECKPOINT_EVERY_S:
                    waiting = self._state()
        return self._finish()

    def _iterate(self, writer: Any) -> Progress:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            if any(iteration_of(one.after, self.iterations) == self.iteration for one in self.changes):
                self._change(self.iteration)
            result = self.algorithm.iterate(self._done())
            self.iteration += 1
            took = time.perf_counter() - wall
            self.cpu_seconds += time.process_time() - cpu
            scalars = result.logged()
            if self._evaluation_due():
                self._evaluate()
                scalars["evaluation/success"] = self.success if self.success is not None else 0.0
        except NotFinite as error:
            raise UserError(
                f"Training stopped at step {self._steps()}: {error}. Lower learning_rate in {self.folder / RECIPE} and"
                f" resume from the last good checkpoint with `rlstack train --resume {self.folder}`; if it recurs,"
                " look at that term's scalars in TensorBoard."
            ) from error
        self.seconds += time.perf_counter() - wall
        for name, scalar in scalars.items():
            writer.add_scalar(name, scalar, self._steps())
        self.tracking.log(scalars, self._steps())
        return Progress(
            steps=self._steps(),
            total_steps=self._steps(self.iterations),
            steps_per_s=self.algorithm.steps_per_iteration / took,
            reward_per_s=result.reward_per_s,
            lost_share=result.lost_share,
            success=self.success,
            seconds=self.seconds,
            seconds_left=self.seconds / self.iteration * (self.iterations - self.iteration),
        )

    def _done(self) -> float:
        """Return the completed share of the run's schedules, of which fine-tuning goes through the end."""
        first = 0.0 if self.recipe.fine_tuned_from is None else SCHEDULE_FROM
        return first + (1.0 - first) * self.iteration / self.iterations

    def _evaluation_due(self) -> bool:
        if not self.evaluates:
            return False
        choose = self.recipe.selection
        first = max(1, round(choose.after * self.iterations))
        every = max(1, round(choose.every * self.iterations))
        now = self.iteration
        return now in (self.iterations, self.last) or (now >= first and (now - first) % every == 0)

    def _evaluate(self) -> None:
        begin, learning = time.process_time(), self.cpu_seconds - self.evaluation_cpu_seconds
        actor = self.algorithm.actor()
        if not self.evaluates:
            self.best = {"actor": actor.state_dict(), "rank": [], "step": self._steps(), "figures": {}}
            return
        graph = self._graph(actor)
        policy = TorchPolicy(graph, self._contract(graph), self.robot)
        try:
            with working("held-out trials"):
                found = self.evaluator.evaluate(policy)
        except UserError as error:
            if isinstance(error.__cause__, PolicyOutputError):
                raise NotFinite("The policy's command on held-out starts is not finite") from error
            raise
        self.success, rank = found.success, list(found.rank)
        if not self.best or rank > self.best["rank"]:
            self.best = {"actor": actor.state_dict(), "rank": rank, "step": self._steps(), "figures": found.figures}
            if self.on_best is not None:
                self.on_best(graph, policy.contract, self._steps())
        self.evaluations.append({"step": self._steps(), "cpu_seconds": round(learning, 2), **found.figures})
        write_json(self.folder / EVALUATIONS, self.evaluations)
        took = time.process_time() - begin
        self.cpu_seconds += took
        self.evaluation_cpu_seconds += took

    def _finish(self) -> Result:
        if isinstance(self.algorithm, HasProcesses):
            self.algorithm.close()
            self.cpu_seconds += children_cpu_s() - self.others_s
        self.save()
        if not self.best:
            self._evaluate()
            self.save()
        policy = self.export(self.folder / POLICY)
        begin, margins = time.process_time(), dict[str, float]()
        if self.recipe.selection.margins and self.iteration >= self.last:
            margins = margins_of(self.recipe, self.robot, policy)
            self.cpu_seconds += time.process_time() - begin
        result = Result(
            recipe=self.recipe,
            folder=self.folder,
            policy=policy,
            finished=self.iteration >= self.iterations,
            until=self.until if self.iteration >= self.last else 0.0,
            steps=self._steps(),
            seconds=round(self.seconds, 1),
            cpu_seconds=round(self.cpu_seconds, 2),
            evaluation_cpu_seconds=round(self.evaluation_cpu_seconds, 2),
            setup_cpu_seconds=round(self.setup_cpu_seconds, 2),
            evaluation=self.best["figures"],
            margins=margins,
            evaluations=self.evaluations,
        )
        write_atomically(self.folder / FIGURES, result.as_json())
        self.tracking.finish(result.evaluation, policy)
        return result

    def export(self, path: Path) -> Path:
        if not self.best:
            self._evaluate()
        actor = self.algorithm.actor()
        actor.load_state_dict(self.best["actor"])
        graph = self._graph(actor)
        export_policy(graph, self._contract(graph), self.robot, path)
        return path

    def _graph(self, actor: Actor) -> PolicyGraph:
        return PolicyGraph(self.task.pipeline(self.robot), actor, self.task.inputs)

    def _contract(self, graph: PolicyGraph) -> Any:
        steps, figures = self.best.get("step", self._steps()), self.best.get("figures", {})
        return contract_of(self.recipe, self.robot, graph, steps, figures, self.lineage)

    def _steps(self, iterations: int | None = None) -> int:
        done = self.iteration if iterations is None else iterations
        return done * self.algorithm.steps_per_iteration + int(getattr(self.algorithm, "extra_steps", 0))

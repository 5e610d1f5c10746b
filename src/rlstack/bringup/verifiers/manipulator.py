"""Arms are verified by held-out trials: many at once, in every engine in process, and through the deployed nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.bringup.parallel import run_trials
from rlstack.bringup.trials import concluded
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import Request, held_by, over_topics
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.manipulator.verification_run import try_in_parallel, try_over_topics
from rlstack.policies import Contract
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.settings import in_words, own_settings, trained_task
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import Trials
from rlstack.verification.arm_cell import world_of
from rlstack.verification.arm_plots import draw_trials
from rlstack.verification.arm_score import score_arm
from rlstack.verification.manipulation import held_out
from rlstack.verification.records import ManipulationRecord
from rlstack.verification.report import environment
from rlstack.verification.trials import TrialColumn, TrialVerification

TRIALS, TRIALS_IN_ENGINES, TRIALS_OVER_TOPICS = 500, 100, 40
"""In the batch simulator, in every other simulator in process, and over topics."""

FIRST = ("episodes", "success", "lost", "time_s", "error_m", "error_p95_m", "intervened", "latency_p99_ms")
"""Figures that a reader wants first."""

_VERIFIED = 1_000_000
"""Added to the seed: no run chose its best policy by these trials."""

_TOLD = (
    "Starts, goals and objects that no training drew, and by which no run's best policy was chosen; the first are the"
    " same in every column. Joint states, and the object's pose, have the task's noise. The batch simulator is many"
    " worlds in MuJoCo, the arm's links as capsules and boxes; the engines have the links' meshes, and joints are"
    " commanded at the robot's control rate. Over topics the guard is between, with the robot file's limits."
)


def verify_arm(request: Request) -> Verified:
    """Let a policy do held-out trials in every simulator, judge it, and write report and record.

    Raises:
        UserError: The trials could not be done to their end, or the policy's task is no arm's.
    """
    if request.drivers is not None:
        raise UserError("drivers: is of wheeled bases; nobody does an arm's trials beside its policy.")
    robot, contract = request.robot, request.loaded.contract
    assert isinstance(robot, Manipulator)
    task = task_of(contract, request.given)
    settings = own_settings(task)
    most = request.episodes or max(TRIALS, TRIALS_IN_ENGINES, TRIALS_OVER_TOPICS)
    trials = held_out(task, robot, most, _VERIFIED + request.seed)
    held, left_out = _held(request.names, task, robot, trials)
    if not held:
        raise UserError(f"None of these simulators can hold the task: {' '.join(left_out.values())}")
    tried: dict[str, ManipulationRecord] = {}
    asked: dict[str, Bounds] = {}
    for name in held:
        some = trials.take(np.arange(request.episodes or (TRIALS if name == BATCH else TRIALS_IN_ENGINES)))
        shown = request.shown(name)
        tried[name] = try_in_parallel(request.policy, task, robot, some, name, seed=request.seed, on_progress=shown)
        asked[name] = task.bounds
    for name in (name for name in held if request.topics and name != BATCH):
        label, some = over_topics(name), trials.take(np.arange(request.episodes or TRIALS_OVER_TOPICS))
        tried[label] = run_trials(
            try_over_topics,
            some,
            on_progress=request.shown(label),
            policy=request.policy,
            task=task,
            robot=robot,
            backend_name=name,
            robot_name=request.named,
            seed=request.seed,
        )
        asked[label] = task.bounds_over_topics
    words = f"{task.moved.replace('_', ' ')} within {task.tolerance_m:g} m of the goal for {task.hold_s:g} s"
    words += "" if task.ends else ", and still there at the end"
    columns = {
        name: TrialColumn(
            simulator=one.simulator,
            score=score_arm(one, words),
            theirs={},
            bounds=asked[name],
            told=f"the first {len(one)} trials of {task.episode_s:g} s",
        )
        for name, one in tried.items()
    }
    verification = TrialVerification(
        contract=contract,
        sha256=request.sha256,
        robot=robot,
        columns=columns,
        first=FIRST,
        left_out=left_out,
        told=_TOLD,
        settings=in_words(settings),
        pictures=draw_trials(tried, task.tolerance_m),
        provenance={
            "seed": request.seed,
            "settings": {name: mine for name, (mine, _) in settings.items()},
            "training": contract.training,
            **environment(),
        },
        command=request.command,
    )
    return concluded(request, verification)


def _held(
    names: Sequence[str], task: ArmTask, robot: Manipulator, trials: Trials
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return which simulators can hold a task, and of the others why they cannot."""
    if task.objects is None:
        return held_by(names, robot)
    try:
        world = world_of(task, trials, 0)
    except UserError as error:
        others = {name: str(error) for name in names if name != BATCH}
        return tuple(name for name in names if name == BATCH), others
    return held_by(names, robot, world)


def task_of(contract: Contract, where: str) -> ArmTask:
    """Return an arm's task as a policy was trained on it; ``where`` is what errors call the policy's file.

    Raises:
        UserError: There is no such task of arms, or not with the settings that the file says.
    """
    if not issubclass(TASKS.load(contract.task), ArmTask):
        others = [other for other in TASKS.names() if issubclass(TASKS.load(other), ArmTask)]
        raise UserError(f"The task '{contract.task}' is no arm's; those that are: {', '.join(others)}.")
    task: ArmTask = trained_task(contract, where)
    return task


VERIFIER = verify_arm

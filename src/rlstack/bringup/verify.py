"""Verification before deployment: run a policy's held-out trials in simulators, judge them, and write the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlstack.bringup.episode_runner import run_episodes
from rlstack.bringup.simulators_at_hand import check_topics, checked_simulators, simulators_at_hand
from rlstack.bringup.verification_check import file_sha256, record_path, require_verification
from rlstack.errors import UserError
from rlstack.files import check_folder, write_json
from rlstack.policies import find_policy, load_policy, robot_name
from rlstack.policies.released import writable_copy
from rlstack.policies.robot_contract import check_robot
from rlstack.policies.signing import signed, signing_key
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.text_table import aligned
from rlstack.verification.page import write_report
from rlstack.verification.parallel import Spread, run_trials
from rlstack.verification.reality_plots import draw_reality
from rlstack.verification.reality_runner import RealityGrid
from rlstack.verification.replay import make_replay
from rlstack.verification.report import Column, Replay, Verification, environment
from rlstack.verification.request import Request
from rlstack.verification.schedule import OnColumn, Progress, Schedule
from rlstack.verification.task_verification import REPORT, ColumnPlan, TaskVerification, known_planners
from rlstack.verification.training_evaluation import verification_of
from rlstack.verification.transfer import TransferTable


@dataclass(frozen=True)
class Verified:
    """A verification and the paths of its report.

    Args:
        verification: The results.
        report: Path of the page.
        record: Path of the record that deployment requires.
        data: Content of the record.
    """

    verification: Verification
    report: Path
    record: Path
    data: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """The verdict."""
        return self.verification.passed

    @property
    def incomplete(self) -> bool:
        """Whether it was interrupted."""
        return bool(self.verification.incomplete)

    def as_data(self) -> dict[str, Any]:
        """Return the content of verify.json."""
        return dict(self.data)

    def table(self) -> str:
        """Format figures, transfer table and verdict."""
        v = self.verification
        lines = [*aligned(v.rows()), "", v.transfer.text(), *v.findings, ""]
        if v.reality is not None:
            lines += [*aligned(v.reality.rows(v.name)), ""]
        lines += [f"{name}: {column.judgement}." for name, column in v.columns.items()]
        lines += [f"Not passed: {reason}" for reason in v.failures]
        lines += [f"Left out: {name}: {reason}" for name, reason in v.left_out.items()]
        lines += [*([v.settings] if v.settings else []), v.worth, v.scope]
        return "\n".join([*lines, f"{v.verdict.upper()}. Report: {self.report}"])


@dataclass(frozen=True)
class AllVerified:
    """Several policies' verifications, by policy file."""

    by_policy: dict[str, Verified]

    @property
    def passed(self) -> bool:
        """Whether all have passed."""
        return all(one.passed for one in self.by_policy.values())

    @property
    def incomplete(self) -> bool:
        """Whether it was interrupted."""
        return any(one.incomplete for one in self.by_policy.values())

    def as_data(self) -> dict[str, Any]:
        """Return the content of verify.json; for several policies, by file."""
        if len(self.by_policy) == 1:
            return next(iter(self.by_policy.values())).as_data()
        data = {policy: one.as_data() for policy, one in self.by_policy.items()}
        return {"passed": self.passed, "policies": data, "transfer": self._transfer().to_json()}

    def table(self) -> str:
        """Format each policy's table, and for several the comparison."""
        tables = [one.table() for one in self.by_policy.values()]
        if len(tables) > 1:
            tables = [f"{policy}\n{table}" for policy, table in zip(self.by_policy, tables)]
            tables.append(f"Comparison\n{self._transfer().text()}")
        return "\n\n".join(tables)

    def _transfer(self) -> TransferTable:
        rows = {p: one.verification.transfer.scores[one.verification.name] for p, one in self.by_policy.items()}
        return TransferTable(rows)


def verify(
    policy: str | Path,
    *,
    backends: Sequence[str] | None = None,
    topics: bool = True,
    episodes: int | None = None,
    seed: int = 1,
    robot: str = "",
    drivers: Sequence[str] | None = None,
    thorough: bool = False,
    margins: Sequence[str] | None = None,
    replay: bool = True,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_column: OnColumn | None = None,
    spread: Spread | None = None,
) -> Verified:
    """Verify ``policy`` in every backend, judge it, and write the report and the record that deployment requires.

    One that is interrupted leaves a record of the same file that passed as it was. Its task declares the trials:
    see :class:`rlstack.verification.task_verification.TaskVerification`.

    Args:
        policy: The policy file, or the name of a released policy, which is copied to ``runs/`` with its new record.
        backends: ``batch`` and other simulators; None takes those that are installed.
        topics: Also run over topics, through the deployed nodes, in every simulator except ``batch``.
        episodes: Trials in every simulator; None takes the task's default.
        seed: Seed of the starts, disturbances and sensor noise.
        robot: A robot's name or file; empty takes the policy's; required for a policy for a family.
        drivers: Classical planners to compare a base's policy with; None takes those of its task.
        thorough: Run the large numbers of trials; otherwise those of a proof within minutes.
        margins: Axes of the reality grid to measure; None: all; ``none`` alone: none. A policy passes with all only.
        replay: Make a film of trials, and a replay of them in the report.
        out: The report's folder; None takes the policy's. The record always lies beside the policy.
        on_progress: Called with how far it is, and an estimate of the time that is left.
        on_column: Called with each simulator's figures and trials, see :class:`Request`.
        spread: Runs trials and margins in process elsewhere, such as on a Ray cluster; None: on this machine.

    Raises:
        UserError: An argument is unknown, missing or unreadable, or the trials could not be completed.
    """
    names = checked_simulators(simulators_at_hand() if backends is None else backends, episodes)
    signing_key()  # before minutes of trials, whose record could not be signed without
    path = writable_copy(policy, robot).absolute()  # elsewhere, another folder is the working one
    if robot:
        named, spec = robot, load_robot(robot)
        loaded = load_policy(path, robot=spec)
    else:
        loaded = load_policy(path)
        named = robot_name(loaded.contract, str(policy))
        spec = load_robot(named)
        check_robot(loaded.contract, spec, str(path))
    task = TASKS.load(loaded.contract.task)()
    request = Request.of_policy(
        loaded,
        spec,
        named,
        given=str(policy),
        robot_option=robot,
        task=task,
        names=names,
        topics=topics,
        episodes=episodes,
        seed=seed,
        drivers=None if drivers is None else tuple(drivers),
        thorough=thorough,
        margins=None if margins is None else tuple(margins),
        replay=replay,
        report=on_progress,
        on_column=on_column,
        spread=spread,
    )
    proof = _proof(path, spec)
    verified = _reported(request, path.parent if out is None else Path(out).expanduser())
    beside = record_path(path).with_name(verified.verification.record_name)
    if file_sha256(path) != loaded.sha256:
        raise UserError(f"The policy file {path} was replaced while it was verified, so no record was written: again.")
    record = signed(verified.data)
    for target in {verified.record, beside}:
        write_json(target, record)
    if verified.incomplete and proof is not None:
        write_json(record_path(path), proof)  # the same file passed before, and nobody said that it failed since
    return replace(verified, record=beside, data=record)


def _proof(policy: Path, robot: RobotSpec) -> dict[str, Any] | None:
    """Return a policy's record if it has passed already."""
    try:
        return require_verification(policy, robot)
    except UserError:
        return None


def verify_planner(
    driver: str,
    *,
    policy: str | Path = "",
    robot: str = "",
    task: str = "base_navigation",
    backends: Sequence[str] | None = None,
    topics: bool = True,
    episodes: int | None = None,
    seed: int = 1,
    replay: bool = True,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_column: OnColumn | None = None,
    spread: Spread | None = None,
) -> Verified:
    """Drive a classical planner over a task's verification maps, and write a report.

    Args:
        driver: The planner's name.
        policy: The policy file that follows the plan, required by ``astar_policy``; others take none.
        robot: A base's name or file; empty: the TurtleBot3.
        task: The task that declares the maps.
        backends: ``batch`` and other simulators; None takes ``batch``.
        out: The report's folder; None: ``runs/<driver>-<robot>``.

    The other arguments are those of :func:`verify`.

    Raises:
        UserError: An argument is unknown, missing or unreadable.
    """
    names = checked_simulators(backends or (BATCH,), episodes)
    named = robot or "turtlebot3_burger"
    chosen, spec = TASKS.load(task), load_robot(named)
    if not verification_of(chosen, spec.kind).takes_planner:
        others = [other for other in TASKS.names() if verification_of(TASKS.load(other)).takes_planner]
        raise UserError(f"The task '{task}' is not verified on maps; tasks that are: {', '.join(others)}.")
    (driver,) = known_planners([driver])
    request = Request(
        policy=find_policy(policy) if policy else None,
        given=str(policy),
        loaded=None,
        sha256="",
        driver=driver,
        task=chosen(),
        task_name=task,
        robot=spec,
        named=named,
        robot_option=named,
        names=names,
        topics=topics,
        episodes=episodes,
        seed=seed,
        replay=replay,
        report=on_progress,
        on_column=on_column,
        spread=spread,
    )
    return _reported(request, Path("runs") / f"{driver}-{spec.name}" if out is None else Path(out).expanduser())


def _reported(request: Request, folder: Path) -> Verified:
    """Verify and write the report with its record into a folder."""
    check_folder(folder, "--out")
    if request.topics and set(request.names) - {BATCH}:
        check_topics()
    verification = verify_task(verification_of(request.task, request.robot.kind)(request))
    page = write_report(folder, verification)
    return Verified(verification, page, folder / verification.record_name, verification.to_json())


def verify_task(verifier: TaskVerification) -> Verification:
    """Run a policy's trials in every simulator and judge them.

    After Ctrl-C it returns what is complete, with a verdict of ``incomplete``.

    Raises:
        UserError: No simulator supports the task, or the trials could not be completed.
        KeyboardInterrupt: It was interrupted before any column was complete.
    """
    request = verifier.request
    supported, left_out = verifier.supported(request.names)
    if not supported:
        raise UserError(f"None of these simulators supports the task: {' '.join(left_out.values())}")
    work = _Work(verifier, supported)
    incomplete = ""
    try:
        work.run()
    except KeyboardInterrupt:
        if not work.records:
            raise
        incomplete = work.missing()
    records, plans, reality = work.records, work.plans, work.grid.result()
    findings, entries = ([], {}) if incomplete else work.findings
    settings, provenance = verifier.settings()
    contract = None if request.driver else request.loaded.contract
    tell = verifier.request.progress_of(REPORT) or (lambda done, count: None)
    tell(0, 2)
    pictures = () if incomplete else verifier.pictures(records, plans)
    chart = draw_reality(reality, request.name) if reality else ()
    tell(1, 2)
    replay = Replay() if incomplete or not request.replay else make_replay(verifier, records, plans, pictures)
    tell(2, 2)
    return Verification(
        name=request.name,
        contract=contract,
        sha256=request.sha256 if contract else "",
        task=request.task_name,
        robot=verifier.robot,
        columns={name: _column(verifier, plans[name], *found) for name, found in records.items()},
        first=verifier.first,
        reasons=verifier.reasons(),
        left_out=left_out,
        findings=findings,
        description=verifier.description,
        settings=settings,
        pictures=[*chart, *pictures],
        replay=replay,
        topics=request.topics,
        incomplete=incomplete,
        reality=reality,
        record=entries,
        provenance={
            "seed": request.seed,
            **provenance,
            **({"training": contract.training} if contract else {}),
            **environment(),
        },
        command=request.command,
    )


class _Work:
    """The parts of a verification, and the results of those that are complete.

    Args:
        verifier: The verification.
        supported: The simulators.
    """

    def __init__(self, verifier: TaskVerification, supported: Sequence[str]) -> None:
        request = verifier.request
        self._verifier, self._named = verifier, request.names
        self.plans = {plan.name: plan for name in supported for plan in verifier.columns(name)}
        engines = [name for name in supported if name != BATCH] if request.topics else []
        topics = [verifier.topics_column(name, first=name == engines[0]) for name in engines]
        self.plans |= {plan.name: plan for plan in topics}
        self.grid = RealityGrid(request)
        self.records: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self.findings: tuple[list[str], dict[str, Any]] = [], {}
        if request.report is not None:
            parts = verifier.parts(list(self.plans.values()), len(self.grid.axes))
            verifier.request = replace(request, on_progress=Schedule(parts, request.report))

    def run(self) -> None:
        """Run every part: the batch simulator, the margins, the other simulators, and over topics."""
        plans = list(self.plans.values())
        for plan in (plan for plan in plans if plan.simulator == BATCH):
            self._run_in_process(plan)
        self.grid.run(self._verifier.request.on_progress)
        for plan in (plan for plan in plans if plan.simulator != BATCH and not plan.over_topics):
            self._run_in_process(plan)
        self.findings = self._verifier.findings(self.records)
        for plan in (plan for plan in plans if plan.over_topics):
            verifier = self._verifier
            beside = {who: verifier.beside(one, plan) for who, one in self.records[plan.simulator][1].items()}
            record = _run_over_topics(verifier, plan)
            self.records[plan.name] = record, {who: one for who, one in beside.items() if one is not None}
            self._tell(plan)

    def missing(self) -> str:
        """Describe what an interrupt left out."""
        columns = [name for name in self.plans if name not in self.records]
        return f"it was interrupted before {', '.join(columns) or 'its end'}: verify again."

    def _run_in_process(self, plan: ColumnPlan) -> None:
        verifier = self._verifier
        theirs: dict[str, Any] = {}
        mine = verifier.run(plan, None)
        for who in verifier.baselines if plan.baseline_trials is not None else ():
            theirs[who] = verifier.run(plan, who)
        self.records[plan.name] = mine, theirs
        self._tell(plan)

    def _tell(self, plan: ColumnPlan) -> None:
        """Tell who watches what a column has found: figures at once, then again with trials, which take a while."""
        verifier = self._verifier
        if (tell := verifier.request.on_column) is None:
            return
        record, beside = self.records[plan.name]
        figures = [(one.title, one.text) for one in verifier.score(record, beside).figures if not one.detail]
        tell(plan.name, figures, ())
        with suppress(UserError):  # they cannot be shown: the figures can
            tell(plan.name, figures, verifier.replay({plan.name: (record, beside)}, {plan.name: plan}))


def _column(verifier: TaskVerification, plan: ColumnPlan, record: Any, baselines: Mapping[str, Any]) -> Column:
    return Column(
        simulator=record.simulator,
        score=verifier.score(record, baselines),
        baselines={who: verifier.score_baseline(theirs, record) for who, theirs in baselines.items()},
        bounds=plan.bounds,
        description=verifier.describe(plan, record),
        labels=verifier.labels(plan),
    )


def _run_over_topics(verifier: TaskVerification, plan: ColumnPlan) -> Any:
    make_recorder, options = verifier.topics_recorder()
    request = verifier.request
    return run_trials(
        run_episodes,
        plan.trials,
        on_progress=request.progress_of(plan.name),
        **{
            "make_recorder": make_recorder,
            "policy": request.policy or "",
            "robot": verifier.robot,
            "backend_name": plan.simulator,
            "robot_name": request.named,
            "driver": request.driver,
            "name": request.name,
            "seed": request.seed,
            **options,
        },
    )


def verify_all(policies: Sequence[str | Path], *, out: str | Path | None = None, **options: Any) -> AllVerified:
    """Verify each policy with :func:`verify`; with several, each report goes to a folder of its own in ``out``.

    Raises:
        UserError: See :func:`verify`.
    """
    paths = [str(policy) for policy in dict.fromkeys(policies)]
    done = {}
    for number, path in enumerate(paths):
        folder = out if out is None or len(paths) == 1 else Path(out) / f"{number:02d}-{Path(path).parent.name}"
        done[path] = verify(path, out=folder, **options)
        if done[path].incomplete:
            break
    return AllVerified(done)

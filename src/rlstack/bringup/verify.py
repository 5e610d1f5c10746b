"""Proof before flight: try a policy where nothing can break, in ways it was not trained on, and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.proof import file_sha256
from rlstack.bringup.verifiers import OnProgress, Request, Verdict, verifier_of
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces.backend import BACKENDS
from rlstack.policies import load_policy, robot_name
from rlstack.robots import load_robot
from rlstack.sim.vector import BATCH, engine_of
from rlstack.verification.transfer import TransferTable


@dataclass(frozen=True)
class AllVerified:
    """Several policies' verifications, by policy file."""

    by_policy: dict[str, Verdict]

    @property
    def passed(self) -> bool:
        """Whether all have passed."""
        return all(one.passed for one in self.by_policy.values())

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds, for several policies by file."""
        if len(self.by_policy) == 1:
            return next(iter(self.by_policy.values())).as_data()
        data = {policy: one.as_data() for policy, one in self.by_policy.items()}
        return {"passed": self.passed, "policies": data, "transfer": self._transfer().to_json()}

    def table(self) -> str:
        """Return each one's table, and for several the one that compares them."""
        tables = [one.table() for one in self.by_policy.values()]
        if len(tables) > 1:
            tables = [f"{policy}\n{table}" for policy, table in zip(self.by_policy, tables)]
            tables.append(f"Beside each other\n{self._transfer().text()}")
        return "\n\n".join(tables)

    def _transfer(self) -> TransferTable:
        rows = {p: one.verification.transfer.cells[one.verification.contract.name] for p, one in self.by_policy.items()}
        return TransferTable(rows)


def simulators_at_hand() -> tuple[str, ...]:
    """Return the batch simulator and every simulator that is installed here."""
    found = [BATCH]
    for name in BACKENDS.names():
        engine = engine_of(name)
        if engine is None:
            continue
        try:
            engine.require()
        except UserError:
            continue
        found.append(name)
    return tuple(found)


def verify(
    policy: str | Path,
    *,
    backends: Sequence[str] | None = None,
    topics: bool = True,
    episodes: int | None = None,
    seed: int = 1,
    robot: str = "",
    drivers: Sequence[str] | None = None,
    out: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Verdict:
    """Try ``policy`` in every backend, judge it, and write the report and the record that deployment asks for.

    How is the business of what verifies its task, or robots of its kind (:data:`rlstack.bringup.verifiers.VERIFIERS`).

    Args:
        policy: The policy file.
        backends: ``batch`` and other simulators; None takes those that are installed.
        topics: In every simulator but ``batch`` over topics as well, through the nodes that are deployed.
        episodes: In every simulator; None takes what is usual for the kind of robot.
        seed: Of the starts, disturbances and sensor noise.
        robot: A robot's name or file; empty takes the policy's, which one for a family does not have.
        drivers: Classical planners to compare a base's policy with; None takes those that its task names.
        out: The report's folder; None takes the policy's. The record always lies beside the policy.
        on_progress: Called with a backend's name, what is done, and the total.

    Raises:
        UserError: Anything is unknown, missing or unreadable, or it could not be tried to the end.
    """
    _check_episodes(episodes)
    names = list(dict.fromkeys(simulators_at_hand() if backends is None else backends))
    if not names:
        raise UserError("No backend was given: give at least one, such as batch.")
    check_simulators(names)
    path = Path(policy).expanduser()
    loaded = load_policy(path)
    flown = robot or robot_name(loaded.contract, str(policy))
    spec = load_robot(flown)
    verifier = verifier_of(spec, loaded.contract.task)
    return verifier(
        Request(
            policy=path,
            given=str(policy),
            loaded=load_policy(path, robot=spec),
            sha256=file_sha256(path),
            robot=spec,
            named=flown,
            robot_option=robot,
            names=tuple(names),
            topics=topics,
            episodes=episodes,
            seed=seed,
            drivers=None if drivers is None else tuple(drivers),
            folder=path.parent if out is None else Path(out).expanduser(),
            on_progress=on_progress,
        )
    )


def verify_planner(
    driver: str,
    *,
    policy: str | Path = "",
    robot: str = "",
    task: str = "base_navigation",
    backends: Sequence[str] | None = None,
    **options: Any,
) -> Verdict:
    """Drive a classical planner over the maps that policies of a task are verified on, and report.

    Args:
        driver: The planner's name.
        policy: The policy file that the planner leads, which ``astar_policy`` needs; others take none.
        robot: A base's name or file; empty: the TurtleBot3.
        task: Whose maps.
        backends: ``batch`` and other simulators; None takes ``batch``.
        options: ``topics``, ``episodes``, ``seed``, ``out`` and ``on_progress`` as of :func:`verify`.

    Raises:
        UserError: Anything is unknown, missing or unreadable.
    """
    from rlstack.bringup.verifiers.wheeled_base import score_planner

    _check_episodes(options.get("episodes"))
    names = list(dict.fromkeys(backends or (BATCH,)))
    check_simulators(names)
    chosen = robot or "turtlebot3_burger"
    return score_planner(driver, robot=chosen, policy=policy, task=task, backends=names, **options)


def verify_all(policies: Sequence[str | Path], *, out: str | Path | None = None, **options: Any) -> AllVerified:
    """Do what :func:`verify` does for each policy; with several, each report goes to a folder of its own in ``out``.

    Raises:
        UserError: As there.
    """
    paths = [str(policy) for policy in dict.fromkeys(policies)]
    done = {}
    for number, path in enumerate(paths):
        folder = out if out is None or len(paths) == 1 else Path(out) / f"{number:02d}-{Path(path).parent.name}"
        done[path] = verify(path, out=folder, **options)
    return AllVerified(done)


def _check_episodes(episodes: int | None) -> None:
    if episodes is not None and episodes < 1:
        raise UserError(f"{episodes} episodes are not allowed: at least 1.")


def check_simulators(names: Sequence[str]) -> None:
    """Refuse unknown simulators, and those that are not installed, before anything moves."""
    known = [BATCH, *BACKENDS.names()]
    for name in names:
        if name not in known:
            raise unknown_name("backend", name, known)
        if name == BATCH:
            continue
        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' is not a simulator: a policy is verified in simulators.")
        engine.require()

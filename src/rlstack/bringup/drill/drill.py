"""`rlstack drill`: inject faults into a deployed system, and report the guard's answers."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.drill.chain import Chain, NotReady
from rlstack.bringup.drill.fault import Fault
from rlstack.bringup.drill.firmware import firmware_faults
from rlstack.bringup.drill.kind_drill import KindDrill, drill_of
from rlstack.bringup.drill.launcher import LAUNCHER_FAULTS, LauncherRunner
from rlstack.bringup.drill.report import as_data, chart, expected, table
from rlstack.bringup.drill.running import FaultResult, Runner, expected_s, faults_for
from rlstack.bringup.node_process import with_real_time_priority
from rlstack.bringup.robot_group import is_simulator
from rlstack.bringup.sitl import RESET
from rlstack.bringup.system import chosen_robot, deploy_system
from rlstack.errors import UserError, unknown_name
from rlstack.files import write_atomically, write_json
from rlstack.progress import duration
from rlstack.robots import load_robot
from rlstack.text_table import aligned

FIRMWARES = ("betaflight",)
"""Backends whose autopilot's own firmware `rlstack sitl` runs."""
_START_S = 6.0
"""Time to start the chain, for the estimate."""
_CLIMB_S = 4.0
"""Time to arm and to climb from the ground, for the estimate."""


@dataclass(frozen=True)
class DrillOptions:
    """What to drill; see `rlstack drill --help`."""

    policy: str = ""
    robot: str = ""
    backend: str = "mujoco"
    uri: str = ""
    driver: str = ""
    world: str | None = None
    faults: tuple[str, ...] = ()
    repeats: int = 3
    seed: int = 0
    real_time_factor: float = 1.0
    verbose: bool = False


def drill(options: DrillOptions, *, out: Path | None = None, json: Path | None = None) -> int:
    """Run a drill, print its table, and write the report; Ctrl-C ends it early and reports what is done.

    Args:
        options: What to drill.
        out: Folder for drill.json and drill.png; None: nothing is written there.
        json: Another file for the figures.

    Returns:
        0 if every repeat passed, 1 if one failed, 130 after Ctrl-C.

    Raises:
        UserError: An unknown robot, policy, backend or fault; or the chain does not start.
    """
    robot = chosen_robot(options.policy, options.robot)
    spec = load_robot(robot)
    kind = drill_of(spec)
    firmware = not is_simulator(options.backend)
    if firmware and not (options.backend in FIRMWARES and options.uri.startswith("tcp://127.0.0.1")):
        raise UserError(
            f"A drill breaks things, so it runs in simulators only, and '{options.backend}' is not one. Beside `rlstack"
            " sitl` it runs with --backend betaflight --uri tcp://127.0.0.1:5761."
        )
    if options.repeats < 1:
        raise UserError(f"--repeats {options.repeats} is not allowed: give at least 1.")
    faults = faults_for(kind)
    known: list[Any] = firmware_faults(faults) if firmware else [*faults, *LAUNCHER_FAULTS]
    chosen = _chosen(known, options.faults)
    from rlstack.nodes.runtime import prepare_environment

    prepare_environment()
    world = options.world if options.world is not None else "" if firmware else kind.WORLD
    deployed: dict[str, Any] = {"world": world, "goal": kind.GOAL, "driver": options.driver, "uri": options.uri}
    system = deploy_system(
        options.policy, robot, options.backend, auto_arm=False, real_time_factor=options.real_time_factor, **deployed
    )
    system = with_real_time_priority(system)  # as beside a real robot

    def make() -> Chain:
        log = _print_line if options.verbose else _ignore
        start: dict[str, Any] = {"reset": RESET} if firmware else {"start_height_m": kind.START_HEIGHT_M}
        return Chain(system, kind, factor=options.real_time_factor, log=log, **start)

    lines = _Progress(chosen, options, kind)
    runner: Any = Runner(make, kind, options.seed)
    launcher = LauncherRunner(options.policy, robot, options.backend, deployed)
    results: list[FaultResult] = []
    stopped = False
    try:
        for fault in chosen:
            turn = launcher if fault in LAUNCHER_FAULTS else runner
            if turn is launcher:
                runner.close()
            results.append(turn.result(fault))
            for k in range(options.repeats):
                lines.show(fault, k)
                turn.repeat(results[-1])
    except KeyboardInterrupt:
        stopped = True
    except NotReady as error:
        raise UserError(f"The chain did not start: {error}.") from error
    finally:
        with _unstoppable():
            runner.close()
            launcher.close()
        lines.end()
    print(table(results))
    about = {
        "robot": spec.name,
        "policy": options.policy or options.driver,
        "backend": options.backend,
        "control_rate_hz": spec.control_rate_hz,
        "real_time_factor": options.real_time_factor,
        "repeats": options.repeats,
        "seed": options.seed,
        "complete": not stopped,
    }
    data = as_data(results, about)
    if json is not None:
        write_json(json, data)
    if out is not None:
        write_json(out / "drill.json", data)
        if any(result.repeats for result in results):
            title = f"rlstack drill: {spec.name}, {about['policy']}, {options.backend}"
            write_atomically(out / "drill.png", chart(results, title, kind.PATH))
        print(f"Written: {out / 'drill.json'} and {out / 'drill.png'}")
    return 130 if stopped else 0 if data["passed"] else 1


def list_faults(robot: str) -> str:
    """Return a table of the faults of a robot, with their safe answers."""
    kind = drill_of(load_robot(robot))
    rows = [(fault.name, fault.text, expected(_empty(fault, kind))) for fault in faults_for(kind)]
    rows += [(fault.name, fault.text, expected(LauncherRunner.empty(fault))) for fault in LAUNCHER_FAULTS]
    return "\n".join(aligned(rows))


def _empty(fault: Fault, kind: KindDrill) -> FaultResult:
    from rlstack.bringup.drill.answers import limit_s
    from rlstack.kinds import find_kind

    config = find_kind(kind.robot.kind).load("guard").CONFIG.from_robot(kind.robot)
    answer = kind.ANSWERS[fault.answer]
    return FaultResult(fault, answer, limit_s(answer.within, config, kind.robot_timeout_s))


def _chosen(known: Sequence[Any], names: Sequence[str]) -> list[Any]:
    by_name = {fault.name: fault for fault in known}
    for name in names:
        if name not in by_name:
            raise unknown_name("fault", name, by_name)
    return [by_name[name] for name in dict.fromkeys(names)] or list(known)


class _Progress:
    """Says how long the drill takes, and what it is doing."""

    def __init__(self, chosen: Sequence[Any], options: DrillOptions, kind: KindDrill) -> None:
        each = {fault.name: LauncherRunner.EXPECTED_S for fault in LAUNCHER_FAULTS}
        own = [fault for fault in chosen if fault not in LAUNCHER_FAULTS]
        climb_s = _CLIMB_S if options.uri else 0.0
        each |= {fault.name: climb_s + expected_s(fault, kind) / options.real_time_factor for fault in own}
        self._each, self._repeats = each, options.repeats
        self._chosen = chosen
        self._done = 0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        total = _START_S + options.repeats * sum(each[fault.name] for fault in chosen)
        print(
            f"{len(chosen)} faults, {options.repeats} times each: this takes about {duration(total)}.", file=sys.stderr
        )

    def show(self, fault: Any, repeat: int) -> None:
        """Show the next repeat."""
        left = sum(self._each[one.name] for one in self._chosen[self._chosen.index(fault) + 1 :]) * self._repeats
        left += self._each[fault.name] * (self._repeats - repeat)
        if self._terminal:
            text = f"{fault.name} {repeat + 1}/{self._repeats}, about {duration(left)} left"
            print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)
        elif repeat == 0:
            text = f"{fault.name}: {duration(time.monotonic() - self._began)} so far, about {duration(left)} left"
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line in a terminal."""
        if self._terminal:
            print(file=sys.stderr)


@contextlib.contextmanager
def _unstoppable() -> Iterator[None]:
    """Ignore Ctrl-C while the processes end."""
    import signal

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore(line: str) -> None:
    """Log nothing."""


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

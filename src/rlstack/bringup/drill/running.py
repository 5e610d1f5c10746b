"""Running a drill: each fault several times on one running chain, in random order of moments."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.drill.answers import Answer, Repeat, judge, limit_s
from rlstack.bringup.drill.chain import Chain, NotReady
from rlstack.bringup.drill.fault import COMMANDER, Fault
from rlstack.bringup.drill.faults import FAULTS
from rlstack.bringup.drill.kind_drill import KindDrill
from rlstack.errors import MalformedMessage

AFTER_S = 0.4
"""How long the robot is watched after the answer, s of the robot."""
_PATIENCE = 1.5
"""Multiple of the time limit after which an answer is no longer waited for."""
_OVERHEAD_S = 0.7
"""Time of a repeat besides its settling and watching, for the estimate, s."""
_AGAIN_S = 4.0
"""Time to start a process again, for the estimate, s."""
_OFF = ("disarmed", "estop")


@dataclass
class FaultResult:
    """The repeats of one fault.

    Args:
        fault: The fault.
        answer: Its safe answer.
        limit_s: Its time limit; None: the answer must hold throughout.
        repeats: What happened.
    """

    fault: Any
    answer: Answer
    limit_s: float | None
    repeats: list[Repeat] = field(default_factory=list)

    @property
    def passed(self) -> int:
        """Number of repeats that passed."""
        return sum(not repeat.why for repeat in self.repeats)


def faults_for(drill: KindDrill) -> list[Fault]:
    """Return the faults of a kind of robot: those that have a safe answer, and an edit if they need one."""
    return [fault for fault in (*FAULTS, *drill.FAULTS) if fault.answer in drill.ANSWERS and _has_edit(fault, drill)]


def _has_edit(fault: Fault, drill: KindDrill) -> bool:
    what, _, name = fault.edit.partition(".")
    return not what or name in {"command": drill.command_edits, "observation": drill.observation_edits}[what]


def expected_s(fault: Fault, drill: KindDrill) -> float:
    """Return about how long a repeat takes, s of the robot."""
    again = _AGAIN_S * len(fault.kills)
    return float(np.mean(drill.SETTLE_S)) + max(fault.watch_s, AFTER_S) + _OVERHEAD_S + again


class Runner:
    """Runs repeats of faults on a chain, and starts it again where it cannot go on.

    Args:
        make: Returns a chain that is not started.
        drill: The robot's drill.
        seed: Of the moments of the faults.
    """

    def __init__(self, make: Callable[[], Chain], drill: KindDrill, seed: int = 0) -> None:
        self._make, self._drill = make, drill
        self._random = np.random.default_rng(seed)
        self._chain: Chain | None = None
        self._began = False

    def result(self, fault: Fault) -> FaultResult:
        """Return an empty result of a fault."""
        answer = self._drill.ANSWERS[fault.answer]
        chain = self._chain or self._make()
        return FaultResult(fault, answer, limit_s(answer.within, chain.config, self._drill.robot_timeout_s))

    def repeat(self, result: FaultResult) -> None:
        """Run and judge one repeat, and add it.

        Raises:
            NotReady: The chain cannot be started for the first time; later that only fails the repeat.
        """
        try:
            if self._chain is None:
                self._chain = self._make()
                self._chain.start()
            done = self._run(self._chain, result)
        except NotReady as error:
            if not self._began:
                raise
            done = Repeat(modes=[(0.0, self._chain.mode if self._chain else "")], why=f"not run: {error}")
            self.close()
        self._began = True
        result.repeats.append(done)

    def close(self) -> None:
        """End the chain."""
        chain, self._chain = self._chain, None
        if chain is not None:
            chain.close()

    def _run(self, chain: Chain, result: FaultResult) -> Repeat:
        fault, factor = result.fault, chain.factor
        try:
            fault.ready(chain)
            chain.prepare(float(self._random.uniform(*self._drill.SETTLE_S)))
        except NotReady:
            with contextlib.suppress(KeyError):  # what has not begun
                fault.end(chain)
            raise
        chain.lines.clear()
        chain.warnings.clear()
        chain.keep(True)
        began: list[float] = []

        def begin() -> None:
            began.append(time.monotonic())
            fault.begin(chain)

        chain.at(float(self._random.uniform(0.5, 1.5)) / chain.drill.robot.control_rate_hz, begin)
        modes_before = len(chain.modes) - 1
        chain.node.spin_while(lambda: not began)
        self._watch(chain, result, began[0], modes_before)
        chain.keep(False)
        killed = {chain.commander if name == COMMANDER else name for name in fault.kills}
        ended = [name for name in chain.ended if name not in killed]
        first = [relay.changed_at for relay in chain.node.relays.values() if relay.changed_at is not None]
        t0 = max(began[0], min(first)) if first else began[0]
        modes = [(factor * (t - t0), mode) for t, mode in chain.modes[modes_before:]]
        modes[0] = (min(modes[0][0], 0.0), modes[0][1])
        done = Repeat(modes=modes, ended=ended, robot_off_s=self._robot_off(chain, t0))
        self._measure(chain, done, t0, result)
        done.problem = "; ".join(filter(None, [done.problem, fault.check(chain)]))
        judge(done, result.answer, result.limit_s)
        done.reason = chain.reason(done.answer) if len(done.modes) > 1 else ""
        self._recover(chain, fault, killed)
        return done

    def _watch(self, chain: Chain, result: FaultResult, t0: float, modes_before: int) -> None:
        """Pass messages on until the answer has come and a moment more, or for long enough."""
        factor, answer, limit = chain.factor, result.answer, result.limit_s
        least = t0 + max(result.fault.watch_s, 0.0 if limit is None else _PATIENCE * limit) / factor
        shortest = t0 + result.fault.watch_s / factor
        answered: list[float] = []

        def go_on() -> bool:
            now = time.monotonic()
            if not answered:
                if answer.robot_stops:
                    there = self._robot_off(chain, t0) is not None
                else:
                    there = limit is not None and chain.mode in answer.modes and len(chain.modes) > modes_before + 1
                if there:
                    answered.append(now)
            end = max(shortest, answered[0] + AFTER_S / factor) if answered else least
            return now < end

        chain.node.spin_while(go_on)

    def _robot_off(self, chain: Chain, t0: float) -> float | None:
        """Return when the robot node said that it had stopped the robot, s of the robot after the fault."""
        for t, who, line in list(chain.lines):
            if who == "robot" and ": disarmed." in line and t >= t0:
                return chain.factor * (t - t0)
        return None

    def _measure(self, chain: Chain, done: Repeat, t0: float, result: FaultResult) -> None:
        """Read what has passed: excursions, and commands and motions beyond a limit."""
        drill = self._drill
        problems: list[str] = []
        seen: list[Mapping[str, Array]] = []
        times: list[float] = []
        for t, data in chain.observed.kept:
            try:
                observation = drill.observation(data)
            except (ValueError, MalformedMessage):
                continue
            if times and times[-1] < t0 <= t:  # from the last one before the fault
                seen, times = seen[-1:], times[-1:]
            seen.append(observation)
            times.append(t)
        if seen:
            done.excursion = drill.excursion(seen)
            done.path = [(chain.factor * (t - t0), x) for t, x in zip(times, drill.path(seen))]
            off_t = next((t for t, mode in chain.modes if t > t0 and mode in _OFF), None)
            if done.robot_off_s is not None:
                off_t = min(t0 + done.robot_off_s / chain.factor, off_t or t0 + done.robot_off_s / chain.factor)
            held = [one for t, one in zip(times, seen) if off_t is None or t < off_t]
            problems.append(drill.limit_problem(held, chain.config))
        for _, data in chain.command.kept:
            if problem := drill.command_problem(data):
                problems.append(problem)
                break
        for topic in drill.TOPICS:
            done.excursion |= drill.other_excursion(topic, [data for t, data in chain.sensors[topic].kept if t >= t0])
        done.problem = "; ".join(filter(None, problems))

    def _recover(self, chain: Chain, fault: Fault, killed: Collection[str]) -> None:
        """Disarm, end the fault, and start again what it has killed."""
        fault_ended = False
        try:
            if "guard" not in killed:
                chain.disarm()
            fault.end(chain)
            fault_ended = True
            chain.clear()
            for name in killed:
                chain.start_again(name)
        finally:
            if not fault_ended:
                fault.end(chain)
                chain.clear()

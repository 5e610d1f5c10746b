"""Runs a sentence on a robot: plans, checks, does one step after the other, and plans anew where something fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rlstack.agent.abilities import Abilities
from rlstack.agent.checks import Situation, Target, check_plan, precondition, target_of
from rlstack.agent.grammar import plan_by_grammar
from rlstack.agent.model import Model, Request, remaining
from rlstack.agent.skills import Arm, Disarm, Estop, Hold, Instruct, Land, Rest, Step, TakeOff, Wait
from rlstack.errors import UserError

MOST_REPLANS = 2
"""How often a sentence is planned anew after a failure."""
GOAL_WITHIN_S = 120.0
"""Time limit for a goal."""
ARMED_WITHIN_S = 40.0
"""Time limit for arming, and taking off until the policy commands."""
RESTING_WITHIN_S = 60.0
"""Time limit for landing, or coming to rest."""
ANSWERED_WITHIN_S = 3.0
"""Time limit for the answer of a robot's service."""
CALMED_WITHIN_S = 10.0
"""How long a guard that has taken over may take to hand back, before the rest is given up."""
TIME_IS_UP = "Time is up; nothing measures whether it did what it was told."
"""The end of a sentence with an instruction: a policy that follows one does not say when it is done."""
_HEADING_RAD = 0.2
_TURNED_WITHIN_S = 10.0
_POLICY = "policy"
"""The guard's mode in which the policy commands."""
_FINAL = ("off", "replaced", "not taken", "silent")
"""Causes of a goal's failure after which nothing is tried again: somebody stopped it, or something has ended."""


class Answer(Protocol):
    """The answer of a robot's service, awaited."""

    def poll(self) -> tuple[bool, str] | None:
        """Return whether it is done, and what was said; None while the answer is awaited."""


class Outcome(Protocol):
    """What has become of a goal: :class:`rlstack.nodes.goal_watch.Outcome`."""

    @property
    def state(self) -> str:
        """``sent``, ``pursued``, ``reached`` or ``failed``."""

    @property
    def why(self) -> str:
        """Why it has failed."""

    @property
    def cause(self) -> str:
        """The same as a word."""


Service = Literal["arm", "disarm", "estop", "rest", "hold"]


class Robot(Protocol):
    """What the executive does with a robot; every call returns at once."""

    @property
    def situation(self) -> Situation:
        """What is known of it."""

    @property
    def seconds(self) -> float:
        """Its own time, s: simulated time may be faster or slower than the machine's."""

    def call(self, service: Service) -> Answer:
        """Call one of its services."""

    def send_goal(self, target: Target) -> None:
        """Send a goal."""

    def outcome(self) -> Outcome:
        """Return what has become of the last goal."""

    def instruct(self, text: str) -> None:
        """Send an instruction."""


class _Failed(Exception):
    """A step has failed; ``again`` says whether the rest may be tried again."""

    def __init__(self, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


@dataclass(frozen=True)
class Verdict:
    """How a sentence ended.

    Args:
        how: ``done``, ``stopped`` on the way, or ``refused`` before anything was done.
        said: A sentence on it.
    """

    how: Literal["done", "stopped", "refused"]
    said: str


_Steps = Generator[None, None, tuple[Step, ...]]
"""Goes on with every tick, and returns a plan."""


class Executive:
    """Runs one sentence at a time; call :meth:`tick` some 20 times a second.

    Args:
        robot: The robot.
        abilities: Its abilities.
        model: The language model that plans; None: the grammar does.
        say: Called with each sentence about what it does.
    """

    def __init__(self, robot: Robot, abilities: Abilities, model: Model | None, say: Callable[[str], Any]) -> None:
        self._robot, self._abilities, self._model, self._say = robot, abilities, model, say
        self._work: Generator[None, None, None] | None = None
        self.verdict: Verdict | None = None
        """Of the last sentence; None before the first, and while one is run."""
        self._begun = self._told = False
        self.doing = ""
        """The step that is being done, as a phrase."""

    @property
    def busy(self) -> bool:
        """Whether a sentence is run."""
        return self._work is not None

    def begin(self, sentence: str, only_plan: bool = False) -> None:
        """Run a sentence; with ``only_plan`` it is planned and checked, and nothing moves.

        Raises:
            UserError: Another one is run.
        """
        if self._work is not None:
            raise UserError(f"It is busy: {self.doing or 'it plans'}. Say it again later, or stop that first.")
        self.verdict, self._work = None, self._run(sentence, only_plan)
        self._begun = self._told = False

    def tick(self) -> None:
        """Go on with the sentence."""
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration:
            self._end(Verdict("done", TIME_IS_UP if self._told else "Done."))
        except (UserError, _Failed) as error:
            why = str(error).rstrip(".")
            if self._begun:
                self._end(Verdict("stopped", f"Stopped: {why}."))
            else:
                self._end(Verdict("refused", f"Nothing was done: {why}."))

    def stop(self, why: str) -> Answer | None:
        """Give up the sentence, and have the robot hold its position if it is under way; return the answer to that."""
        if self._work is None:
            return None
        self._work.close()
        held = self._hold()
        if held is not None:
            held.poll()  # which sends it
        self._end(Verdict("stopped", f"Stopped: {why}."))
        return held

    def _end(self, verdict: Verdict) -> None:
        self._work, self.verdict, self.doing = None, verdict, ""
        self._say(verdict.said)

    def _hold(self) -> Answer | None:
        """Have a robot that its policy moves hold its position, or come to rest where no goal can hold it."""
        now = self._robot.situation
        if now.mode != _POLICY:
            return None  # its guard has it
        if now.hears_goals:
            return self._robot.call("hold")
        return None if self._abilities.text is None else self._robot.call("rest")

    def _held(self, held: Answer) -> Iterator[None]:
        """Wait for the answer that the robot holds its position; whatever it is, the sentence is given up."""
        end = time.monotonic() + ANSWERED_WITHIN_S
        while held.poll() is None and time.monotonic() < end:
            yield

    # A sentence ------------------------------------------------------------------------------------------------

    def _run(self, sentence: str, only_plan: bool) -> Generator[None, None, None]:
        steps = yield from self._plan(sentence, "")
        start = self._robot.situation
        check_plan(steps, start, self._abilities)
        shown = "; ".join(f"{number} {step.shown()}" for number, step in enumerate(steps, 1))
        self._say(f"The plan: {shown}.")
        if only_plan:
            return
        replans, number, self._begun = 0, 0, True
        while number < len(steps):
            step = steps[number]
            self.doing = step.shown()
            self._say(f"{number + 1} of {len(steps)}: {step.shown()}")
            try:
                if why := precondition(step, self._robot.situation, start, self._abilities):
                    raise _Failed(why, again=self._model is not None)
                if isinstance(step, (Arm, TakeOff)) and (text := _first_instruction(steps[number:])):
                    yield from self._instructed(text)  # a policy without one does not answer: its guard arms none
                yield from self._do(step, start)
            except _Failed as failure:
                if not failure.again or replans == MOST_REPLANS:
                    if (held := self._hold()) is not None:
                        yield from self._held(held)
                    raise _Failed(self._left(failure, steps[number:], replans)) from failure
                replans += 1
                steps = yield from self._plan_anew(sentence, steps[number:], str(failure), start)
                number = 0
                continue
            number += 1

    def _left(self, failure: _Failed, left: Sequence[Step], replans: int) -> str:
        tried = f", planned anew {replans} times" if replans else ""
        more = f"; not done: {'; '.join(step.shown() for step in left)}"
        return f"{str(failure).rstrip('.')}{tried}{more}"

    def _plan(self, sentence: str, told: str) -> _Steps:
        """Return the steps of a sentence."""
        if self._model is None or sentence.lower().strip(" .!") in ("estop", "emergency stop", "stop"):
            return plan_by_grammar(sentence, self._abilities)  # no model stands between a person and a stop
        self.doing = "it waits for the model's plan"
        request = Request(self._model, self._abilities, sentence, told)
        try:
            while (steps := request.poll()) is None:
                yield
        finally:
            request.cancel()
        return steps

    def _plan_anew(self, sentence: str, left: Sequence[Step], why: str, start: Situation) -> _Steps:
        """Return the steps that are left, once the robot holds its position and its policy commands again."""
        self._say(f"{why[:1].upper()}{why[1:].rstrip('.')}. It holds its position and plans the rest anew.")
        self.doing = "it plans anew"
        if (held := self._hold()) is not None:
            yield from self._answered(held, "holding the position")
        end = time.monotonic() + CALMED_WITHIN_S
        while (now := self._robot.situation).mode != _POLICY and not now.off and time.monotonic() < end:
            yield
        if now.mode != _POLICY:
            raise _Failed(f"{why.rstrip('.')}, and the guard stays in the mode {now.mode} ({now.reason.rstrip('.')})")
        steps = tuple(left)
        if self._model is not None:
            steps = yield from self._plan(sentence, remaining(left, why))
        check_plan(steps, start, self._abilities, self._robot.situation)
        return steps

    # Steps -----------------------------------------------------------------------------------------------------

    def _do(self, step: Step, start: Situation) -> Iterator[None]:
        robot = self._robot
        if isinstance(step, (Arm, TakeOff)):
            yield from self._arm()
        elif isinstance(step, (Land, Rest)):
            yield from self._rest(step)
        elif isinstance(step, Disarm):
            yield from self._answered(robot.call("disarm"), "disarming")
        elif isinstance(step, Estop):
            yield from self._answered(robot.call("estop"), "the emergency stop")
        elif isinstance(step, Hold):
            yield from self._answered(robot.call("hold"), "holding the position")
        elif isinstance(step, Wait):
            yield from self._wait(step.seconds)
        elif isinstance(step, Instruct):
            self._told = True
            robot.instruct(step.text)
            yield from self._wait(step.seconds)
        else:
            target = target_of(step, robot.situation, start, self._abilities)
            assert target is not None
            yield from self._go(target)

    def _answered(self, answer: Answer, what: str) -> Iterator[None]:
        """Wait for a service's answer.

        Raises:
            _Failed: It refuses, or does not answer.
        """
        end = time.monotonic() + ANSWERED_WITHIN_S
        while (said := answer.poll()) is None:
            if time.monotonic() > end:
                raise _Failed(f"{what} was not answered within {ANSWERED_WITHIN_S:g} s")
            yield
        if not said[0]:
            raise _Failed(f"{what} was refused: {said[1].rstrip('.') or 'no reason was given'}")

    def _arm(self) -> Iterator[None]:
        if self._robot.situation.off:
            yield from self._answered(self._robot.call("arm"), "arming")
        end = calm_until = time.monotonic() + ARMED_WITHIN_S
        before, was_armed = self._robot.situation.interventions, False
        while (now := self._robot.situation).mode != _POLICY:
            was_armed = was_armed or not now.off
            if now.interventions > before:
                before, calm_until = now.interventions, time.monotonic() + CALMED_WITHIN_S
            if was_armed and now.off:
                raise _Failed(f"the guard has disarmed it ({now.reason.rstrip('.')})")
            if time.monotonic() > min(end, calm_until):
                raise _Failed(f"the guard stays in the mode {now.mode} ({now.reason.rstrip('.')})")
            yield

    def _instructed(self, text: str) -> Iterator[None]:
        """Send an instruction, and wait until a policy that waits for one follows it."""
        self._robot.instruct(text)
        end = time.monotonic() + ANSWERED_WITHIN_S
        while self._robot.situation.instruction == "" and time.monotonic() < end:
            yield

    def _rest(self, step: Step) -> Iterator[None]:
        yield from self._answered(self._robot.call("rest"), step.shown())
        end = time.monotonic() + RESTING_WITHIN_S
        while not (now := self._robot.situation).off:
            if time.monotonic() > end:
                raise _Failed(
                    f"after {RESTING_WITHIN_S:g} s the guard is still in the mode {now.mode} ({now.reason.rstrip('.')})"
                )
            yield

    def _wait(self, seconds: float) -> Iterator[None]:
        """Let the robot's time go on; a robot that is switched off meanwhile, or time that stands still, ends it."""
        was_off = self._robot.situation.off
        begun = newest = self._robot.seconds
        moved = time.monotonic()
        while (now := self._robot.seconds) - begun < seconds:
            if now != newest:
                newest, moved = now, time.monotonic()
            elif time.monotonic() - moved > ANSWERED_WITHIN_S:
                raise _Failed("the robot's observations have stopped")
            state = self._robot.situation
            if state.off and not was_off:
                raise _Failed(f"the guard is in the mode {state.mode} ({state.reason.rstrip('.')})")
            yield

    def _go(self, target: Target) -> Iterator[None]:
        self._robot.send_goal(target)
        end = time.monotonic() + GOAL_WITHIN_S
        while (outcome := self._robot.outcome()).state != "reached":
            if outcome.state == "failed":
                again = outcome.cause not in _FINAL and (outcome.cause != "refused" or self._model is not None)
                raise _Failed(outcome.why, again)
            if time.monotonic() > end:
                raise _Failed(f"it is not there after {GOAL_WITHIN_S:g} s", again=True)
            yield
        end = time.monotonic() + _TURNED_WITHIN_S
        while self._abilities.turns and _apart(self._robot.situation.heading_rad, target.heading_rad) > _HEADING_RAD:
            if time.monotonic() > end:
                raise _Failed("it is there, but does not take the heading")
            yield


def _first_instruction(steps: Sequence[Step]) -> str:
    return next((step.text for step in steps if isinstance(step, Instruct)), "")


def _apart(one: float, other: float) -> float:
    return abs(math.remainder(one - other, 2.0 * math.pi))

"""Run a recorded policy again on the inputs that it had, and compare its commands with the recorded ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.explain.recorded_run import RecordedRun
from rlstack.bringup.explain.steps import Step
from rlstack.interfaces import topics
from rlstack.nodes.step_inputs import StepInputs
from rlstack.policies import Policy, PolicyOutputError

TOLERANCE = 1e-4
"""Difference from which a command is another one, as a share of its range: float32 has 1e-7, and runtimes on other
processors add in another order, step by step through the recurrent state."""


@dataclass(frozen=True)
class Difference:
    """A command that the policy file does not give.

    Args:
        topic: Its topic.
        stamp_ns: Its stamp.
        number: Its number among the recorded messages of its topic, from 1 on.
        element: The element that differs most.
        recorded: Its value there.
        again: That of the rerun.
        share: The difference as a share of the range.
        unit: Of both.
        time_s: Since the bag began.
    """

    topic: str
    stamp_ns: int
    number: int
    element: str
    recorded: float
    again: float
    share: float
    unit: str
    time_s: float

    def __str__(self) -> str:
        return (
            f"{self.topic} message {self.number} (stamp {stamp_text(self.stamp_ns)}, at {self.time_s:.3f} s):"
            f" {self.element} is {self.recorded:.7g} {self.unit}, and the policy file gives {self.again:.7g}, off by"
            f" {abs(self.recorded - self.again):.3g}"
        )


@dataclass(frozen=True)
class Taken:
    """A step of the rerun.

    Args:
        step: The recorded step.
        inputs: The policy's inputs; none where it repeats the last answer.
        before: The recurrent state before it.
        outputs: The commands.
        known: Whether its inputs and the recurrent state are those of the recorded step.
    """

    step: Step
    inputs: Mapping[str, Array]
    before: Mapping[str, Array]
    outputs: Mapping[str, Array]
    known: bool


@dataclass
class Rerun:
    """The comparison.

    Args:
        told: Whether the policy node told which messages each step was on.
        possible: Why nothing can be compared; empty: it can.
    """

    told: bool
    possible: str = ""
    compared: int = 0
    identical: int = 0
    """Commands that are the same to the last bit."""
    uncertain: int = 0
    """Steps whose recurrent state, or one of whose inputs, is not known."""
    largest: float = 0.0
    """Largest difference of the compared commands, as a share of the range."""
    differences: list[Difference] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    """Steps on a message that is not in the bag, by topic."""
    first_known_s: float | None = None
    """From when on, since the bag began, the recurrent state was known."""
    steps: int = 0
    time_s: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    """Difference of each compared command."""
    kept: dict[int, Taken] = field(default_factory=dict)
    """Those of the steps that were to be kept, by their place."""


class Repeater:
    """Steps a policy as it was stepped.

    Args:
        run: The recording.
        steps: Its steps.
        told: Whether their node told of them; otherwise a gap in them is not known.
    """

    def __init__(self, run: RecordedRun, steps: Sequence[Step], told: bool) -> None:
        self._run, self._steps, self._told = run, steps, told
        self._complete = StepInputs(run.policy.contract).complete
        self._ports = [port for port in run.policy.contract.inputs if port.topic]
        self.missing: dict[str, int] = {}
        """Steps on a message that is not in the bag, by topic."""

    def __iter__(self) -> Iterator[tuple[int, Taken]]:
        """Yield every step in turn with its place; a step whose inputs the policy refuses is left out."""
        policy: Policy = self._run.policy
        keeps, known, last = bool(policy.contract.state), False, None
        outputs: Mapping[str, Array] = {}
        self.missing = {}
        policy.reset()
        for place, step in enumerate(self._steps):
            if last is not None and step.number == last.number and outputs:
                yield place, Taken(step, {}, {}, outputs, known)  # in lock step an answer is repeated
                continue
            follows = step.number == 1 if last is None else step.number == last.number + 1
            if last is None or step.resets != last.resets:
                policy.reset()
                known = follows or not self._told
            elif not follows:
                known = False
            last = step
            values, complete = self._values(step)
            known = known and complete
            before = {name: state[0].copy() for name, state in policy.state.items()}
            if values is None:
                continue
            try:
                inputs = dict(self._complete(values, step.stamps, step.held.path if step.held else None, step.stamp_ns))
                outputs = policy.step(inputs)
            except (ValueError, PolicyOutputError):
                known = False
                continue
            yield place, Taken(step, inputs, before, outputs, complete and (known or not keeps))

    def _values(self, step: Step) -> tuple[dict[str, Array] | None, bool]:
        """Return a step's inputs, and whether they are those that it had; None: one is not known at all."""
        found, complete = dict[str, Array](), True
        for topic, stream in self._run.inputs.items():
            number = stream.number_of(step.stamps.get(topic, -1))
            if number is None:
                self.missing[topic] = self.missing.get(topic, 0) + 1
                complete, number = False, stream.before(step.at_ns)
                if number is None:
                    return None, False
            found |= stream.values(number)
        if step.held is not None:
            found |= step.held.values
        lacking = [p for p in self._ports if p.name not in found and p.picture is None and not _derived(p.name)]
        if lacking and step.held is None:
            self.missing[topics.POLICY_HELD] = self.missing.get(topics.POLICY_HELD, 0) + 1
        return (None, False) if lacking else (found, complete)


def _derived(name: str) -> bool:
    return name.startswith("path_") or name.endswith("_age")


def rerun(
    run: RecordedRun,
    steps: Sequence[Step],
    told: bool,
    keep: Collection[int] = (),
    watch: Callable[[Taken], None] | None = None,
) -> Rerun:
    """Return the comparison of a recording's commands with those of its policy file.

    Args:
        run: The recording.
        steps: Its steps.
        told: Whether their node told of them.
        keep: Places of the steps that are to be kept.
        watch: Called with each step that has inputs.
    """
    made = Rerun(told, steps=len(steps))
    plans = run.parameters.get("policy", {})
    if run.policy.contract.chunk and plans.get("asynchronous", True) and not plans.get("lock_step", False):
        made.possible = "the policy plans while the robot moves, and when each plan was ready is not recorded"
        return made
    repeater = Repeater(run, steps, told)
    for place, taken in repeater:
        if place in keep and taken.inputs:
            made.kept[place] = taken
        if watch is not None and taken.inputs:
            watch(taken)
        if not taken.known:
            made.uncertain += 1
            continue
        if made.first_known_s is None:
            made.first_known_s = run.seconds(taken.step.at_ns)
        if taken.step.command is not None:
            _compare(run, taken, made)
    made.missing = repeater.missing
    return made


def _compare(run: RecordedRun, taken: Taken, made: Rerun) -> None:
    number = taken.step.command
    assert number is not None
    worst, same = 0.0, True
    found: Difference | None = None
    for port in run.policy.contract.outputs:
        stream = run.commands[port.name]
        if number >= len(stream):
            return
        said, again = np.ravel(stream.values(number)[port.name]), np.ravel(taken.outputs[port.name])
        if said.shape != again.shape:
            return  # a stop command has no elements
        low, high = port.limits
        share = np.abs(said - again) / np.maximum(np.ravel(high - low), 1e-12)
        same = same and bool(np.array_equal(said, again))
        k = int(np.argmax(share))
        if share[k] >= worst:
            worst = float(share[k])
            name = port.element_names[k] if port.element_names else f"{port.name}[{k}]"
            found = Difference(
                f"{run.namespace}/{stream.topic}", int(stream.stamp_ns[number]), number + 1, name,
                float(said[k]), float(again[k]), worst, port.unit, run.seconds(stream.received_ns[number]),
            )  # fmt: skip
    made.compared += 1
    made.identical += same
    made.largest = max(made.largest, worst)
    made.time_s.append(run.seconds(taken.step.at_ns))
    made.share.append(worst)
    if found is not None and worst > TOLERANCE:
        made.differences.append(found)


def stamp_text(stamp_ns: int) -> str:
    """Return a stamp as seconds with all its digits."""
    return f"{stamp_ns // 10**9}.{stamp_ns % 10**9:09} s"

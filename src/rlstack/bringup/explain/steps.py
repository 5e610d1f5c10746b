"""The steps of a recorded policy: on which messages each was, as its node said, or else inferred from their receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.explain.recorded_run import Indices, RecordedRun
from rlstack.interfaces import topics
from rlstack.interfaces.instruction import encoded
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.step_messages import HELD, RESETS, STAMP, STEP, Held

_TAKES_OVER = "policy"
"""The guard's mode before which the policy is reset."""


@dataclass(frozen=True)
class Step:
    """One answered observation.

    Args:
        number: The node's count of steps; an answer that repeats the last one has its number.
        resets: How often the recurrent state had been reset.
        stamp_ns: Stamp of the observation.
        stamps: Stamp of the newest message of each sensor topic then, ns.
        held: What was held; None: it is not in the bag.
        command: Number of its message in the bag by output; None: it is not in the bag.
        at_ns: When its observation was received, ns; else its command.
    """

    number: int
    resets: int
    stamp_ns: int
    stamps: Mapping[str, int]
    held: Held | None
    command: int | None
    at_ns: int


def steps_of(run: RecordedRun) -> tuple[list[Step], bool]:
    """Return the steps in their order, and whether the policy node told of them; otherwise they are inferred."""
    return (list(_told(run)), True) if run.rows is not None else (list(_inferred(run)), False)


def _told(run: RecordedRun) -> Iterator[Step]:
    rows = run.rows or {}
    order = np.argsort(rows[STEP], kind="stable")
    stamps = rows[STAMP][order]
    commands, trigger = next(iter(run.commands.values())), run.inputs[run.trigger]
    numbers = match(stamps, commands.stamp_ns)
    for place, row in enumerate(order.tolist()):
        stamp = int(stamps[place])
        seen, said = trigger.number_of(stamp), numbers[place]
        at = trigger.received_ns[seen] if seen is not None else commands.received_ns[said] if said is not None else 0
        yield Step(
            int(rows[STEP][row]),
            int(rows[RESETS][row]),
            stamp,
            {topic: int(rows[topic][row]) for topic in run.inputs if topic in rows},
            run.held.get(int(rows[HELD][row])),
            said,
            int(at),
        )


def match(stamps: Indices, said: Indices) -> list[int | None]:
    """Return the number of the command of each step, by its stamp.

    Several steps may answer one observation; where as many commands have its stamp they are in the same order, and
    otherwise some were lost and which is not known.
    """
    places: dict[int, list[int]] = {}
    for number, stamp in enumerate(said.tolist()):
        places.setdefault(stamp, []).append(number)
    counts: dict[int, int] = {}
    for stamp in stamps.tolist():
        counts[stamp] = counts.get(stamp, 0) + 1
    taken: dict[int, int] = {}
    found: list[int | None] = []
    for stamp in stamps.tolist():
        there, turn = places.get(stamp, []), taken.get(stamp, 0)
        taken[stamp] = turn + 1
        found.append(there[turn] if len(there) == counts[stamp] else None)
    return found


def _inferred(run: RecordedRun) -> Iterator[Step]:
    """Yield a step for each command: on the observation that it answers, and on what had been received before."""
    commands, resets, before = next(iter(run.commands.values())), 0, ""
    modes = iter([*run.said.get(topics.GUARD_MODE, []), None])
    mode = next(modes)
    for number, (stamp, at) in enumerate(zip(commands.stamp_ns.tolist(), commands.received_ns.tolist())):
        while mode is not None and mode.at_ns <= at:
            resets += mode.text == _TAKES_OVER and before != _TAKES_OVER
            before, mode = mode.text, next(modes)
        newest = {topic: stream.before(at) for topic, stream in run.inputs.items()}
        stamps = {t: int(run.inputs[t].stamp_ns[n]) if n is not None else -1 for t, n in newest.items()}
        held = Held(0, *_held_at(run, at))
        yield Step(number + 1, resets, stamp, {**stamps, run.trigger: stamp}, held, number, at)


def _held_at(run: RecordedRun, at_ns: int) -> tuple[dict[str, Array], GoalPath | None]:
    """Return the goal, the instruction and the path at a time, as far as they were said by then."""
    found: dict[str, Array] = {}
    names = {port.name for port in run.policy.contract.inputs if port.topic in topics.LATCHED}
    goal = next((pose for when, pose in reversed(run.goals) if when <= at_ns), run.goals[0][1] if run.goals else None)
    if goal is not None:
        found = {"goal_position": goal[:3], "goal_orientation": goal[3:]}
    told = [said for said in run.said.get(topics.INSTRUCTION, []) if said.at_ns <= at_ns]
    if told:
        found[topics.INSTRUCTION] = encoded(told[-1].text).astype(float)
    path = next((path for when, path in reversed(run.paths) if when <= at_ns), None)
    return {name: value for name, value in found.items() if name in names}, path

"""The explanation of a recorded run: rerun, inputs, guard, training, and a conclusion in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rlstack.bringup.explain.events import Event, joined
from rlstack.bringup.explain.guard_log import GuardLog, Stay, guard_log
from rlstack.bringup.explain.influence import Influence, influence, medians, samples, window
from rlstack.bringup.explain.recorded_run import RecordedRun
from rlstack.bringup.explain.rerun import TOLERANCE, Rerun, Taken, rerun
from rlstack.bringup.explain.steps import steps_of
from rlstack.bringup.explain.timing import InputTiming, input_timings, silences
from rlstack.bringup.explain.training_range import Outside, Ranges
from rlstack.policies import load_policy

_WINDOWS = 20
"""Most windows whose influences are measured."""
_CAUSE_S = 2.0
"""What happened within this time before an intervention may be its cause."""


@dataclass
class Explanation:
    """Everything that was found.

    Args:
        run: The recording.
        rerun: The comparison with the policy file.
        timings: Of each input.
        silences: Where commands are missing or out of order.
        guard: What the guard did.
        outside: How long each quantity was outside of training's range.
        normalised: Whether the policy file has the statistics of training's observations.
        influences: Which inputs mattered before each intervention, or over the run if there was none.
    """

    run: RecordedRun
    rerun: Rerun
    timings: list[InputTiming]
    silences: list[Event]
    guard: GuardLog
    outside: list[Outside]
    normalised: bool
    influences: list[Influence]

    @property
    def events(self) -> list[Event]:
        """All of the timeline, in order."""
        run = self.rerun
        wrong = [
            Event("commands", one.time_s, one.time_s, "differs from the policy file", str(one))
            for one in run.differences
        ]
        found = [
            *self.guard.events,
            *joined(wrong, 0.2),
            *self.silences,
            *(event for timing in self.timings for event in timing.faults),
            *(event for one in self.outside for event in one.events),
        ]
        return sorted(found, key=lambda one: one.start_s)

    @property
    def is_faithful(self) -> bool:
        """Whether no command differs from the policy file's."""
        return not self.rerun.differences

    @property
    def verdict(self) -> Literal["good", "doubtful", "bad"]:
        """How the run went: bad if commands differ from the policy file's, doubtful if anything else was at fault."""
        if not self.is_faithful:
            return "bad"
        quiet = self.rerun.compared and not any(event.bad for event in self.events)
        return "good" if quiet and not self.guard.interventions else "doubtful"

    @property
    def conclusion(self) -> str:
        """One or a few sentences that say what happened."""
        sentences = [self._deployment(), *self._takeovers()]
        return " ".join(sentences)

    def _deployment(self) -> str:
        made = self.rerun
        if made.possible:
            return f"The commands cannot be compared with the policy file: {made.possible}."
        if made.differences:
            first = made.differences[0]
            how = "" if made.told else ", as far as the order of receipt tells (this recording has no policy/steps)"
            return (
                f"{len(made.differences)} of {made.compared} commands are not what the policy file gives for the"
                f" recorded inputs{how}: a fault of the deployment or of the recording, not of the policy. The first is"
                f" {first}."
            )
        if not made.compared:
            return (
                "No command could be compared with the policy file, because its recurrent state is not known: record"
                " from before the robot is armed."
            )
        what = (
            "the same to the last bit"
            if made.identical == made.compared
            else f"within {made.largest:.1e} of their range"
        )
        return (
            f"All {made.compared} commands that can be compared are those of the policy file, {what}: the deployment"
            " ran it faithfully."
        )

    def _takeovers(self) -> list[str]:
        taken = self.guard.interventions
        if not self.guard.stays:
            return ["The recording has nothing of a guard."]
        if not taken:
            limited = self.guard.limited
            some = f" and changed {100.0 * limited:.3g}% of the commands" if limited else ""
            return [f"The guard never took over from the policy{some}."]
        times = f"{len(taken)} times, first" if len(taken) > 1 else "once,"
        first = taken[0]
        return [
            f"The guard took over {times} at {first.start_s:.2f} s ({first.mode}: {first.reason}).",
            self._cause(first),
        ]

    def _cause(self, stay: Stay) -> str:
        before = [
            e
            for e in self.events
            if e.bad and e.lane != "guard" and stay.start_s - _CAUSE_S <= e.end_s and e.start_s <= stay.start_s
        ]
        inputs = [event for event in before if event.lane == "inputs"]
        commands = [event for event in before if event.lane == "commands"]
        ranges = [event for event in before if event.lane == "range"]
        ranked = next((one.ranked for one in self.influences if one.time_s == stay.start_s), [])
        most = (
            f" The input that moved its commands most then was {ranked[0][0]}." if ranked and ranked[0][1] > 0.0 else ""
        )
        for found, what in (
            (inputs, "The inputs were outside of what the policy is proven for"),
            (commands, "The commands were at fault"),
            (ranges, "The robot was outside of the policy's training"),
        ):
            if found:
                return f"{what} just before: {found[-1].text}.{most}"
        return (
            f"No input was late or missing and none was outside of training in the {_CAUSE_S:g} s before, so look at"
            f" the policy's behaviour itself.{most}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        run, made = self.run, self.rerun
        return {
            "bag": str(run.path),
            "robot": run.namespace,
            "policy": run.policy.contract.name,
            "policy_file": str(run.policy.path),
            "policy_sha256": run.policy.sha256,
            "duration_s": run.seconds(run.last_ns),
            "conclusion": self.conclusion,
            "faithful": self.is_faithful,
            "damage": list(run.damage),
            "rerun": {
                "steps": made.steps,
                "told_by_the_node": made.told,
                "impossible": made.possible,
                "compared": made.compared,
                "identical": made.identical,
                "uncertain": made.uncertain,
                "known_from_s": made.first_known_s,
                "tolerance": TOLERANCE,
                "largest_difference": made.largest,
                "differences": [asdict(one) for one in made.differences],
                "steps_on_messages_that_are_missing": made.missing,
            },
            "inputs": [
                {
                    **{k: v for k, v in vars(timing).items() if k != "faults"},
                    "faults": [asdict(e) for e in timing.faults],
                }
                for timing in self.timings
            ],
            "guard": {
                "modes": [asdict(stay) for stay in self.guard.stays],
                "interventions": len(self.guard.interventions),
                "limited_share": self.guard.limited,
            },
            "training": {
                "normalisation": self.normalised,
                "quantities": [one.to_json() for one in self.outside],
            },
            "influence": [asdict(one) for one in self.influences],
            "events": [asdict(event) for event in self.events],
        }


def explain(run: RecordedRun) -> Explanation:
    """Return the explanation of a recording."""
    steps, told = steps_of(run)
    guard = guard_log(run)
    times = np.array([run.seconds(step.at_ns) for step in steps])
    ends = [(stay.start_s, f"{stay.mode}: {stay.reason}") for stay in guard.interventions][:_WINDOWS]
    if not ends and len(times):
        ends = [(float(end), "") for end in np.linspace(times[0], times[-1], _WINDOWS + 1)[1:]]
    places = {end: window(times, end[0]) for end in ends}
    sampled = samples(len(steps))
    ranges = Ranges(run)
    made = rerun(run, steps, told, keep={*sampled, *(k for part in places.values() for k in part)}, watch=ranges.add)
    parts = {end: [made.kept[k] for k in part if k in made.kept] for end, part in places.items()}
    found = _influences(run, [made.kept[k] for k in sampled if k in made.kept], parts)
    timings = input_timings(run, steps)
    return Explanation(run, made, timings, silences(run), guard, ranges.outside(), ranges.normalised, found)


def _influences(
    run: RecordedRun, sampled: Sequence[Taken], parts: Mapping[tuple[float, str], Sequence[Taken]]
) -> list[Influence]:
    instead = medians(sampled)
    if not instead:
        return []
    policy = load_policy(run.policy.path, robot=run.robot, sha256=run.policy.sha256)
    return [influence(policy, part, instead, *end) for end, part in parts.items() if part]

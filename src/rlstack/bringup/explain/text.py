"""The explanation as text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rlstack.bringup.explain.explanation import Explanation
from rlstack.bringup.explain.influence import Influence, mean_change

_MOST = 12
"""Most lines of a list."""


def text_of(found: Explanation) -> str:
    """Return the text."""
    run = found.run
    lines = [
        *textwrap.wrap(found.conclusion, 110),
        "",
        f"bag     {run.path}, {run.seconds(run.last_ns):.1f} s; robot {run.namespace}",
        f"policy  {run.policy.contract.name}, {run.policy.path}",
        *(f"damage  {sentence}" for sentence in run.damage),
    ]
    for title, part in (
        ("commands, run again", commands(found)),
        ("inputs", inputs(found)),
        ("guard", guard(found)),
        ("training", training(found)),
        ("which inputs mattered", mattered(found.influences)),
    ):
        lines += ["", title, *(f"  {line}" for line in part)]
    return "\n".join(lines)


def commands(found: Explanation) -> list[str]:
    """Return what the rerun gave."""
    made = found.rerun
    if made.possible:
        return [f"not compared: {made.possible}"]
    how = "as the policy node told" if made.told else "inferred from the order of receipt: the bag has no policy/steps"
    lines = [
        f"{made.steps} steps, on the messages {how}",
        f"{made.compared} compared, {made.identical} the same to the last bit, {len(made.differences)} differ;"
        f" largest difference {made.largest:.1e} of the range",
    ]
    if made.uncertain:
        since = f", known from {made.first_known_s:.2f} s on" if made.first_known_s is not None else ""
        lines.append(f"{made.uncertain} not compared: an input or the recurrent state is not known{since}")
    lines += [
        f"{count} steps were on messages of {topic} that the bag does not have" for topic, count in made.missing.items()
    ]
    lines += [str(one) for one in made.differences[:_MOST]]
    lines += [f"{event.start_s:.3f} s: {event.text}" for event in found.silences[:_MOST]]
    return lines


def inputs(found: Explanation) -> list[str]:
    """Return the timing of the inputs."""
    lines = []
    for one in found.timings:
        parts = [
            f"{one.topic}: {one.rate_hz:.4g} Hz (at least {one.least_hz:.4g}), jitter {1000.0 * one.jitter_s:.2g} ms"
        ]
        if one.delay_s is not None:
            limit_s, source = one.delay_limit_s
            parts.append(
                f"delay {1000.0 * one.delay_s[0]:.3g} ms, 99% below {1000.0 * one.delay_s[1]:.3g} ms"
                f" (proven up to {1000.0 * limit_s:.3g} ms, {source})"
            )
        if one.age_s is not None:
            allowed = f" ({1000.0 * one.age_limit_s:.3g} ms allowed)" if one.age_limit_s is not None else ""
            parts.append(
                f"age at the steps {1000.0 * one.age_s[0]:.3g} ms, at most {1000.0 * one.age_s[1]:.3g} ms{allowed}"
            )
        lines += [", ".join(parts), *(f"  {event.start_s:.3f} s: {event.text}" for event in one.faults[:_MOST])]
    return lines


def guard(found: Explanation) -> list[str]:
    """Return what the guard did."""
    stays = found.guard.stays
    lines = [f"{stay.start_s:8.2f} s  {stay.mode:<12} {stay.reason}" for stay in stays]
    if found.guard.limited is not None:
        lines.append(f"changed {100.0 * found.guard.limited:.3g}% of the policy's commands")
    return lines or ["the recording has nothing of it"]


def training(found: Explanation) -> list[str]:
    """Return where the run left the training."""
    lines = []
    for one in found.outside:
        bound = one.bound
        when = ", ".join(f"{e.start_s:.2f}-{e.end_s:.2f} s" for e in one.events[:4])
        lines.append(
            f"{bound.quantity}: {one.least:.4g} to {one.most:.4g} {bound.unit}, {bound.low:.4g} to {bound.high:.4g} in"
            f" training ({bound.source}): outside {100.0 * one.share:.3g}% of the time{f', {when}' if when else ''}"
        )
    return lines or ["the policy file states no range of its inputs"]


def mattered(influences: Sequence[Influence]) -> list[str]:
    """Return how much commands change without each input."""
    lines = []
    told = [one for one in influences if one.before]
    for one in told[:_MOST]:
        changes = ", ".join(f"{name} {100.0 * change:.3g}%" for name, change in one.ranked)
        lines.append(f"before {one.time_s:.2f} s ({one.before}): {changes}")
    if not told and influences:
        ranked = ", ".join(f"{name} {100.0 * change:.3g}%" for name, change in mean_change(influences))
        lines.append(f"over the run: {ranked}")
    explained = "change of the commands, as a share of their range, with the input at its median"
    return [*lines, explained] if lines else ["no input changed in the recording"]

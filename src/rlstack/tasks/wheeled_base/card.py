"""Task cards of mobile bases."""

from __future__ import annotations

from typing import Any

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.spec_response import NUMBERS
from rlstack.tasks.core.card import Row, TaskCard, asked_rows, columns_after, seconds
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.tasks.wheeled_base.step import GUIDE_WIDTH


def critic_columns(pipeline: Pipeline) -> tuple[TermInfo, ...]:
    """Return the critic's privileged terms, as columns after the policy's."""
    guide = ("guide", GUIDE_WIDTH, "-, -, m", "the way to the goal, map")
    return columns_after(pipeline, (guide, ("clearance", 1, "m", "to the nearest obstacle")))


def responses(robot: WheeledBase) -> tuple[Row, ...]:
    """Return the ranges that robots' responses to commands are drawn from."""
    ranges = {name: robot.response.range_of(name) for name in NUMBERS}
    return tuple(
        (name, f"{low:g}" if low == high else f"{low:g} .. {high:g}", "s" if name.endswith("_s") else "1")
        for name, (low, high) in ranges.items()
    )


def base_card(task: Any, robot: WheeledBase, pipeline: Pipeline) -> TaskCard:
    """Return the card of a :class:`rlstack.tasks.wheeled_base.task.BaseTask`."""
    asked_of = (f"on {', '.join(task.verified_on)}", "over topics", "on other maps") if task.verified_on else ()
    return TaskCard(
        length=seconds(task),
        critic=critic_columns(pipeline),
        actions=task.actions(pipeline),
        rewards=(
            *((name, f"{weight:g}", "1/s") for name, (weight, _) in task.reward_terms().items()),
            ("lost", f"{task.reward.lost:g}", "once"),
        ),
        endings=task.endings(),
        episode="way",
        drawn=responses(robot),
        judged=(("succeeds", f"comes within {task.arrival_m:g} m of the goal in time, and touches nothing before"),),
        asked_of=asked_of,
        asked=asked_rows((task.bounds, task.bounds_over_topics, task.bounds_elsewhere)),
    )

"""Task card of the racing task."""

from __future__ import annotations

from typing import Any

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.tasks.core.card import TaskCard, columns_after, seconds
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.tasks.wheeled_base.card import responses
from rlstack.tasks.wheeled_base.racing.pipeline import RacingPipeline
from rlstack.tasks.wheeled_base.racing.step import TERMS

_PRIVILEGED = (
    ("aside", 1, "m", "left of the middle"),
    ("heading", 1, "1", "sine of the heading beside it"),
    ("curvature", 1, "1/m", "of the middle"),
    ("half_width", 1, "m", "of the track"),
)
"""The critic's privileged terms."""

_UNITS = {"progress": "1/m", "lost": "once"}
"""Units of the reward weights that are not rates."""


def critic_columns(pipeline: Pipeline) -> tuple[TermInfo, ...]:
    """Return the critic's privileged terms, as columns after the policy's."""
    return columns_after(pipeline, _PRIVILEGED)


def racing_card(task: Any, robot: WheeledBase, pipeline: RacingPipeline) -> TaskCard:
    """Return the card of :class:`rlstack.tasks.catalog.base_racing.RacingTask`."""
    driving = pipeline.driving
    return TaskCard(
        length=seconds(task),
        critic=critic_columns(pipeline),
        actions=(
            ("change of the speed", f"{-driving.change_m_s:g}", f"{driving.change_m_s:g}", "m/s a period"),
            ("curvature", f"{-driving.bend_1_m:g}", f"{driving.bend_1_m:g}", "1/m"),
        ),
        rewards=tuple((name, f"{getattr(task.reward, name):g}", _UNITS.get(name, "1/s")) for name in TERMS),
        endings=(
            ("lost", f"{task.through_m:g} m through a wall, turning faster than 20 rad/s, or not finite"),
            ("timed out", f"after {task.episode_s:g} s; the value of going on is counted"),
        ),
        episode="race",
        drawn=responses(robot),
        judged=(("succeeds", "two laps from rest without contact"),),
    )

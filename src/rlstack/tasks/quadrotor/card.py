"""Task cards of quadrotor tasks."""

from __future__ import annotations

import dataclasses
from typing import Any

from rlstack.interfaces.signals import commanded
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.tasks.core.card import Row, TaskCard, asked_rows, seconds
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.quadrotor.pipeline import CanonicalPipeline
from rlstack.tasks.quadrotor.privileged import critic_table, privileged_terms


def quadrotor_card(task: Any, robot: Quadrotor, pipeline: Pipeline) -> TaskCard:
    """Return the card of a :class:`rlstack.tasks.quadrotor.task.QuadrotorTask`."""
    critic = critic_table(pipeline, robot, privileged_terms(task, robot), bool(task.path_window))
    criteria = task.criteria
    return TaskCard(
        length=seconds(task),
        critic=tuple(critic[len(pipeline.table()) :]),
        actions=_actions(pipeline, robot),
        rewards=(
            *((name, f"{weight:g}", "1/s") for name, (weight, _) in task.reward_terms().items()),
            ("lost", f"{task.reward.lost:g}", "once"),
        ),
        endings=(
            ("lost", _losses(task)),
            ("timed out", f"after {task.episode_s:g} s; the value of going on is counted"),
        ),
        episode="flight",
        judged=(
            (
                "succeeds",
                f"never farther than {criteria.radius_m:g} m from {criteria.from_s:g} s to {criteria.to_s:g} s"
                f" of {criteria.duration_s:g} s",
            ),
            ("lost", f"ever farther than {criteria.lost_m:g} m"),
        ),
        asked_of=("batch simulator", "over topics"),
        asked=asked_rows((task.bounds, task.bounds_over_topics)),
    )


def _actions(pipeline: Pipeline, robot: Quadrotor) -> tuple[Row, ...]:
    if isinstance(pipeline, CanonicalPipeline):
        places = (f"{place} in the common frame" for place in CanonicalPipeline.PLACES)
        return tuple((place, "slowest", "fastest", "of the robot's speeds") for place in places)
    limits = zip(robot.rotor_names, pipeline.minimum.tolist(), pipeline.maximum.tolist())
    unit = commanded(pipeline.output).unit
    return tuple((rotor, f"{low:g}", f"{high:g}", unit) for rotor, low, high in limits)


def _losses(task: Any) -> str:
    limits = [field for field in dataclasses.fields(task) if field.name.startswith("lost_")]
    beyond = [f"beyond {f.name} = {getattr(task, f.name):g} {f.metadata['unit']}" for f in limits]
    return ", ".join([*beyond, "or not finite"])

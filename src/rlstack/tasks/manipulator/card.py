"""Task cards of manipulation tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlstack.tasks.core.card import Row, TaskCard, seconds

if TYPE_CHECKING:
    from rlstack.tasks.manipulator.pipeline import ArmPipeline


def arm_card(task: Any, pipeline: ArmPipeline) -> TaskCard:
    """Return the card of a :class:`rlstack.tasks.manipulator.task.ArmTask`."""
    if task.rewards == "sparse":
        rewards: tuple[Row, ...] = (("sparse", "1", "a step: -1, and 0 where it is done"),)
    else:
        rewards = (
            *((name, f"{weight:g}", "1/s") for name, (weight, _) in task.dense().items()),
            ("lost", f"{task.lost:g}", "once"),
        )
    done = f"{task.moved} within {task.tolerance_m:g} m of the goal for {task.hold_s:g} s"
    counted = "" if task.rewards == "sparse" else "; the value of going on is counted"
    ending: tuple[Row, ...] = (("done", done + counted),) if task.ends else ()
    return TaskCard(
        length=seconds(task),
        critic=(),
        actions=action_rows(pipeline),
        rewards=rewards,
        endings=(
            ("lost", "the object is off the table, or a number is not finite"),
            *ending,
            ("timed out", f"after {task.episode_s:g} s; the value of going on is counted"),
        ),
        episode="trial",
        scale="actions in -1..1, motions of the tool's target",
        judged=(("succeeds", done),),
    )


def action_rows(pipeline: ArmPipeline) -> tuple[Row, ...]:
    """Return name, effects of -1 and +1, and unit of each action."""
    speed, turn = pipeline.motion.speed_m_s, pipeline.motion.yaw_rate_rad_s
    said = {
        **{axis: (f"{-speed:g}", f"{speed:g}", "m/s") for axis in "xyz"},
        "yaw": (f"{-turn:g}", f"{turn:g}", "rad/s"),
        "gripper": ("closes", "opens", "at the joints' speed"),
    }
    return tuple((axis, *said[axis]) for axis in pipeline.axes)

"""A task as plain text for people: index, name, shape and unit of everything it senses, does and is judged by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from rlstack.interfaces.signals import Signal, commanded, fed
from rlstack.robots import Quadrotor
from rlstack.tasks.canonical import CanonicalPipeline
from rlstack.tasks.criteria import Criteria, Thresholds
from rlstack.tasks.environment import critic_table
from rlstack.tasks.pipeline import Pipeline, TermInfo
from rlstack.tasks.privileged import privileged_terms

_TERM = ("index", "name", "shape", "unit", "meaning")


def describe_task(task: Any, robot: Quadrotor) -> str:
    """Return tables of a task's inputs, observation, actions, rewards, endings, what varies, and what is judged.

    Args:
        task: Its configuration.
        robot: Whose rotors and units.
    """
    robot = task.reference(robot)
    pipeline = task.pipeline(robot)
    critic = critic_table(pipeline, robot, privileged_terms(task, robot), bool(getattr(task, "path_window", ())))
    shared = len(pipeline.table())
    steps = round(task.episode_s * task.rate_hz)
    parts = [
        f"{type(task).__name__}: {_first_line(task)}\n"
        f"robot {robot.name}, {task.rate_hz:g} Hz, episodes of {task.episode_s:g} s ({steps} steps)",
        _section("inputs, as they come off the topics", _SIGNAL, _signals(map(fed, task.inputs), robot)),
        _section(f"observation of the policy, {pipeline.size} columns", _TERM, _terms(pipeline.table())),
        _section("what only a critic sees, after that", _TERM, _terms(critic[shared:])),
        _section("memory of the observation, zero at the start", ("name", "shape"), _memory(pipeline.memory)),
        _section(
            f"actions in -1..1, commanded as {pipeline.output}",
            ("index", "name", "at -1", "at +1", "unit"),
            _actions(pipeline, robot),
        ),
        _section(
            "reward",
            ("index", "name", "weight", "unit"),
            [
                *((str(i), name, f"{weight:g}", "1/s") for i, (name, (weight, _)) in enumerate(_rewards(task))),
                (str(len(_rewards(task))), "lost", f"{task.reward.lost:g}", "once"),
            ],
        ),
        _section(
            "endings",
            ("index", "name", "when"),
            [
                ("0", "lost", _losses(task)),
                ("1", "timed out", f"after {task.episode_s:g} s; the value of going on is counted"),
            ],
        ),
        *(
            _section(title, ("name", "value", "unit"), _settings(getattr(task, name)))
            for name, title in _GROUPS.items()
            if hasattr(task, name)
        ),
        _section("other settings", ("name", "value", "unit"), _settings(task, _shown_elsewhere(task))),
        _section("what a held-out flight is judged by", ("what", "limit"), _criteria(task.criteria)),
        _section(
            "what all of them must reach to pass",
            ("figure", "batch simulator", "over topics"),
            _thresholds(task.thresholds, task.thresholds_over_topics),
        ),
    ]
    return "\n\n".join(parts) + "\n"


_GROUPS = {
    "vehicles": "vehicles of the family, one drawn for each episode; pairs are ranges",
    "starts": "starts, around the goal or the beginning of the path",
    "randomisation": "randomisation of each episode; pairs are ranges, sigmas of a normal distribution",
    "noise": "noise of the inputs, standard deviations",
    "observation": "settings of the observation",
    "curriculum": "curriculum",
}
"""Groups of settings that are shown as they are, and their headings."""

_SIGNAL = ("index", "name", "shape", "unit", "frame", "topic")


def _signals(signals: Iterable[Signal], robot: Quadrotor) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for i, s in enumerate(signals):
        shape = ", ".join(str(len(robot.rotors) if size == "rotors" else size) for size in s.shape)
        rows.append((str(i), s.name, f"[{shape}]", s.unit, s.frame or "-", f"{s.topic or 'robot file'}: {s.field}"))
    return rows


def _actions(pipeline: Pipeline, robot: Quadrotor) -> list[tuple[str, ...]]:
    if isinstance(pipeline, CanonicalPipeline):
        return [
            (str(i), f"{place} in the common frame", "slowest", "fastest", "of the robot's speeds")
            for i, place in enumerate(CanonicalPipeline.PLACES)
        ]
    limits = zip(robot.rotor_names, pipeline.minimum.tolist(), pipeline.maximum.tolist())
    unit = commanded(pipeline.output).unit
    return [(str(i), rotor, f"{low:g}", f"{high:g}", unit) for i, (rotor, low, high) in enumerate(limits)]


def _terms(terms: Iterable[TermInfo]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for term in terms:
        last = term.start + term.size - 1
        index = f"{term.start}..{last}" if term.size > 1 else str(term.start)
        rows.append((index, term.name, f"[{term.size}]", term.unit, term.meaning))
    return rows


def _memory(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, ...]]:
    return [(name, str(list(shape))) for name, shape in shapes.items()]


def _rewards(task: Any) -> list[tuple[str, tuple[float, Any]]]:
    return list(task.reward_terms().items())


def _losses(task: Any) -> str:
    units = {f.name: f.metadata["unit"] for f in dataclasses.fields(task) if f.name in _limits(task)}
    beyond = [f"beyond {name} = {getattr(task, name):g} {unit}" for name, unit in units.items()]
    return ", ".join([*beyond, "or not finite"])


def _limits(task: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(task) if f.name.startswith("lost_")]


def _settings(group: Any, without: Iterable[str] = ()) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for field in dataclasses.fields(group):
        if field.name in without:
            continue
        value = getattr(group, field.name)
        many = isinstance(value, tuple)
        # two moments ahead are no range
        between = " .. " if many and len(value) == 2 and field.name != "ahead_s" else ", "
        text = between.join(f"{v:g}" for v in value) if many else f"{value:g}"
        rows.append((field.name, text, field.metadata.get("unit") or "-"))
    return rows


def _shown_elsewhere(task: Any) -> list[str]:
    names = [f.name for f in dataclasses.fields(task)]
    return [
        n for n in names if dataclasses.is_dataclass(getattr(task, n)) or n in ("rate_hz", "episode_s", *_limits(task))
    ]


def _criteria(c: Criteria) -> list[tuple[str, ...]]:
    return [
        ("succeeds", f"never farther than {c.radius_m:g} m from {c.from_s:g} s to {c.to_s:g} s of {c.duration_s:g} s"),
        ("lost", f"ever farther than {c.lost_m:g} m"),
    ]


_ASKED = {
    "success": ("success, at least", 100.0, "%"),
    "lost": ("lost, at most", 100.0, "%"),
    "error_m": ("position error, median, at most", 1.0, " m"),
    "rmse_m": ("RMSE, median, at most", 1.0, " m"),
    "recover_s": ("time to recover, median, at most", 1.0, " s"),
    "intervened": ("episodes with an intervention, at most", 100.0, "%"),
    "latency_p99_ms": ("control latency, 99th percentile, at most", 1.0, " ms"),
    "episodes": ("episodes, at least", 1.0, ""),
}
"""Thresholds by name: in words, and how the number is shown."""


def _thresholds(*kinds: Thresholds) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, (words, scale, unit) in _ASKED.items():
        asked = [getattr(kind, name) for kind in kinds]
        if any(limit is not None for limit in asked):
            rows.append((words, *("-" if limit is None else f"{scale * limit:g}{unit}" for limit in asked)))
    return rows


def _section(title: str, header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return f"{title}\n  none"
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = [
        "  ".join(["", *(cell.ljust(width) for cell, width in zip(row, widths))]).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    ]
    return "\n".join([title, *lines])


def _first_line(instance: Any) -> str:
    return (type(instance).__doc__ or "").strip().split("\n")[0]

"""A task as plain text for people: index, name, shape and unit of everything it senses, does and is judged by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from rlstack.interfaces.signals import Signal, commanded, sensed
from rlstack.robots import RobotSpec
from rlstack.tasks.environment import critic_table
from rlstack.tasks.pipeline import TermInfo
from rlstack.tasks.privileged import privileged_terms

_TERM = ("index", "name", "shape", "unit", "meaning")


def describe_task(task: Any, robot: RobotSpec) -> str:
    """Return tables of a task's inputs, observation, actions, rewards, endings, starts and randomisation.

    Args:
        task: Its configuration.
        robot: Whose rotors and units.
    """
    pipeline = task.pipeline(robot)
    critic = critic_table(pipeline, robot, privileged_terms(task, robot))
    shared = len(pipeline.table())
    steps = round(task.episode_s * task.rate_hz)
    parts = [
        f"{type(task).__name__}: {_first_line(task)}\n"
        f"robot {robot.name}, {task.rate_hz:g} Hz, episodes of {task.episode_s:g} s ({steps} steps)",
        _section("inputs, as they come off the topics", _SIGNAL, _signals(map(sensed, task.inputs), robot)),
        _section(f"observation of the policy, {pipeline.size} columns", _TERM, _terms(pipeline.table())),
        _section("what only the critic sees, after that", _TERM, _terms(critic[shared:])),
        _section("memory of the observation, zero at the start", ("name", "shape"), _memory(pipeline.memory)),
        _section(
            f"actions in -1..1, commanded as {pipeline.output}",
            ("index", "name", "at -1", "at +1", "unit"),
            [
                (str(i), rotor, f"{low:g}", f"{high:g}", commanded(pipeline.output).unit)
                for i, (rotor, low, high) in enumerate(
                    zip(robot.rotor_names, pipeline.minimum.tolist(), pipeline.maximum.tolist())
                )
            ],
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
            for name, title in (
                ("starts", "starts, around the goal"),
                ("randomisation", "randomisation of each episode; pairs are ranges, sigmas of a normal distribution"),
                ("noise", "noise of the inputs, standard deviations"),
                ("curriculum", "curriculum"),
            )
        ),
    ]
    return "\n\n".join(parts) + "\n"


_SIGNAL = ("index", "name", "shape", "unit", "frame", "topic")


def _signals(signals: Iterable[Signal], robot: RobotSpec) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for i, s in enumerate(signals):
        shape = [len(robot.rotors) if size == "rotors" else size for size in s.shape]
        rows.append((str(i), s.name, str(shape), s.unit, s.frame or "-", f"{s.topic}: {s.field}"))
    return rows


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
    limits = [f for f in dataclasses.fields(task) if f.name.startswith("lost_")]
    beyond = [f"beyond {f.name} = {getattr(task, f.name):g} {f.metadata['unit']}" for f in limits]
    return ", ".join([*beyond, "or not finite"])


def _settings(group: Any) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        text = " .. ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}"
        rows.append((field.name, text, field.metadata.get("unit") or "-"))
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

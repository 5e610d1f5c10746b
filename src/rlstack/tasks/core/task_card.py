"""Task card: inputs, observation, actions, rewards and pass criteria as plain text with names, shapes and units."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlstack.interfaces.kind_signals import shape_of
from rlstack.interfaces.signals import Signal, commanded, fed
from rlstack.robots import RobotSpec
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.core.pipeline import Pipeline, TermInfo, term_table

Row = tuple[str, ...]

COMMAND_NAMES: Mapping[str, tuple[str, ...]] = {
    "rates_thrust": ("roll rate", "pitch rate", "yaw rate", "thrust"),
    "twist": ("ahead", "turning"),
    "planar_twist": ("ahead", "left", "turning"),
}
"""Elements of the commands whose elements the robot file does not name."""


@dataclass(frozen=True)
class TaskCard:
    """The parts of a card that differ from task to task.

    Args:
        length: Episode length, in words.
        actions: Name, command at -1, command at +1, and unit of each action.
        rewards: Name, weight and unit of each term.
        endings: Name and condition of each ending.
        episode: What an episode is called.
        critic: Name, size, unit and meaning of the observation terms of the critic alone.
        scale: Meaning and bounds of actions.
        drawn: Name, value or range, and unit of randomised parameters that are not settings.
        criteria: Name and limit of each criterion of a held-out episode.
        bounded_columns: Columns that have bounds; empty: there are none.
        bounds: Name of each bounded figure, then its bound in each column.
    """

    length: str
    actions: tuple[Row, ...]
    rewards: tuple[Row, ...]
    endings: tuple[Row, ...]
    episode: str
    critic: Sequence[tuple[str, int, str, str]] = ()
    scale: str = "actions in -1..1"
    drawn: tuple[Row, ...] = ()
    criteria: tuple[Row, ...] = ()
    bounded_columns: tuple[str, ...] = ()
    bounds: tuple[Row, ...] = ()


def episode_length(task: Any) -> str:
    """Return the episode length in words for a task with ``episode_s``."""
    return f"episodes of {task.episode_s:g} s ({round(task.episode_s * task.rate_hz)} steps)"


def timed_out(task: Any) -> Row:
    """Return the ending by time of a task with ``episode_s``."""
    return "timed out", f"after {task.episode_s:g} s; the value is bootstrapped"


def reward_rows(terms: Mapping[str, tuple[float, Any]], lost: float) -> tuple[Row, ...]:
    """Return the rows of reward terms ``{name: (weight, term)}``, with weights per second, and of ``lost``."""
    return (*((name, f"{weight:g}", "1/s") for name, (weight, _) in terms.items()), ("lost", f"{lost:g}", "once"))


def command_rows(pipeline: Pipeline) -> tuple[Row, ...]:
    """Return the action rows of a base whose actions span the full range of its command."""
    units = commanded(pipeline.output).unit.split(", ")
    limits = zip(COMMAND_NAMES[pipeline.output], pipeline.minimum.tolist(), pipeline.maximum.tolist(), units)
    return tuple((name, f"{low:g}", f"{high:g}", unit) for name, low, high, unit in limits)


BOUND_LABELS: Mapping[str, tuple[str, float, str]] = {
    "success": ("success, at least", 100.0, "%"),
    "lost": ("lost, at most", 100.0, "%"),
    "collided": ("collisions, at most", 100.0, "%"),
    "lead_high": ("lead over the planner, 95% interval's end, at least", 100.0, "%"),
    "time_ratio": ("time over the planner's, at most", 1.0, ""),
    "error_m": ("position error, median, at most", 1.0, " m"),
    "rmse_m": ("RMSE, median, at most", 1.0, " m"),
    "recover_s": ("time to recover, median, at most", 1.0, " s"),
    "intervened": ("episodes with an intervention, at most", 100.0, "%"),
    "latency_p99_ms": ("control latency, 99th percentile, at most", 1.0, " ms"),
    "episodes": ("episodes, at least", 1.0, ""),
}
"""Label, display scale and display unit of each bound, by the key of its figure."""


def bound_rows(columns: Sequence[Bounds | None]) -> tuple[Row, ...]:
    """Return a row for each figure that has a bound in any of ``columns``; None has no bounds."""
    limits = [{} if bounds is None else bounds.limits for bounds in columns]
    return tuple(
        (words, *(f"{scale * row[key]:g}{unit}" if key in row else "-" for row in limits))
        for key, (words, scale, unit) in BOUND_LABELS.items()
        if any(key in row for row in limits)
    )


_WIDTH = 120
"""Columns of text."""

_TERM = ("index", "name", "shape", "unit", "meaning")
_SETTING = ("name", "value", "unit")


def describe_task(task: Any, robot: RobotSpec) -> str:
    """Return tables of a task's inputs, observation, actions, rewards, endings, randomisation and pass criteria.

    Args:
        task: The task's configuration; its ``card`` gives the task-specific parts.
        robot: Gives the number of rotors and rays, and the units.

    Raises:
        UserError: The task does not support the robot.
    """
    robot = task.reference(robot)
    task = task.fitted(robot)
    pipeline = task.pipeline(robot)
    card: TaskCard = task.card(robot, pipeline)
    drawn = [_section("response of each robot to commands; pairs are ranges", _SETTING, card.drawn)]
    bounds = [_section("pass bounds", ("figure", *card.bounded_columns), card.bounds)]
    parts = [
        f"{type(task).__name__}: {_first_line(task)}\nrobot {robot.name}, {task.rate_hz:g} Hz, {card.length}",
        _section("inputs, as on the topics", _SIGNAL, _signals(map(fed, task.inputs), robot)),
        _section(f"observation of the policy, {pipeline.size} columns", _TERM, _terms(pipeline.table())),
        _section(
            "privileged observation of the critic",
            _TERM,
            _terms(term_table(card.critic, pipeline.size)),
        ),
        _section("memory of the observation, zero at the start", ("name", "shape"), _memory(pipeline.memory)),
        _section(
            f"{card.scale}, commanded as {pipeline.output}",
            ("index", "name", "at -1", "at +1", "unit"),
            _numbered(card.actions),
        ),
        _section("reward", ("index", "name", "weight", "unit"), _numbered(card.rewards)),
        _section("endings", ("index", "name", "when"), _numbered(card.endings)),
        *(_section(_GROUPS.get(name, f"settings of {name}"), _SETTING, rows) for name, rows in _groups(task)),
        *(drawn if card.drawn else ()),
        _section("other settings", _SETTING, _settings(task, _shown_elsewhere(task))),
        _section(f"success of a held-out {card.episode}", ("criterion", "limit"), card.criteria),
        *(bounds if card.bounded_columns else ()),
    ]
    return "\n\n".join(parts) + "\n"


_GROUPS = {
    "vehicles": "vehicles of the family, one drawn for each episode; pairs are ranges",
    "starts": "start states, relative to the goal or path",
    "randomisation": "randomisation of each episode; pairs are ranges, sigmas of a normal distribution",
    "noise": "noise of the inputs, standard deviations",
    "observation": "settings of the observation",
    "reward": "settings of the reward",
    "curriculum": "curriculum",
    "maps": "maps",
    "people": "people",
    "moving": "pedestrians and their motion; pairs are ranges",
    "speeds": "speed limits, tighter than the robot's",
    "expedition": "ground and lidar",
}
"""Headings of groups of settings."""

_SIGNAL = ("index", "name", "shape", "unit", "frame", "topic")


def _signals(signals: Iterable[Signal], robot: RobotSpec) -> list[Row]:
    rows: list[Row] = []
    for i, s in enumerate(signals):
        shape = ", ".join(map(str, shape_of(s, robot)))
        rows.append((str(i), s.name, f"[{shape}]", s.unit, s.frame or "-", f"{s.topic or 'robot file'}: {s.field}"))
    return rows


def _numbered(rows: Iterable[Row]) -> list[Row]:
    return [(str(i), *row) for i, row in enumerate(rows)]


def _terms(terms: Iterable[TermInfo]) -> list[Row]:
    rows: list[Row] = []
    for term in terms:
        last = term.start + term.size - 1
        index = f"{term.start}..{last}" if term.size > 1 else str(term.start)
        rows.append((index, term.name, f"[{term.size}]", term.unit, term.meaning))
    return rows


def _memory(shapes: dict[str, tuple[int, ...]]) -> list[Row]:
    return [(name, str(list(shape))) for name, shape in shapes.items()]


def _groups(task: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yield name and rows of each group of settings; reward weights are listed with the reward's terms."""
    mine = [f.name for f in dataclasses.fields(task) if dataclasses.is_dataclass(getattr(task, f.name))]
    for name in (*(known for known in _GROUPS if known in mine), *(n for n in mine if n not in _GROUPS)):
        rows = _settings(getattr(task, name))
        if name == "reward":
            rows = [row for row in rows if row[-1] != "-"]
        if rows:
            yield name, rows


def _settings(group: Any, without: Iterable[str] = (), prefix: str = "") -> list[Row]:
    rows: list[Row] = []
    for field in dataclasses.fields(group):
        if field.name in without:
            continue
        setting = getattr(group, field.name)
        if dataclasses.is_dataclass(setting):
            rows += _settings(setting, prefix=f"{prefix}{field.name}.")
        else:
            # a pair of times ahead is not a range
            between = ", " if field.name == "ahead_s" else " .. "
            rows.append((f"{prefix}{field.name}", _shown(setting, between), field.metadata.get("unit") or "-"))
    return rows


def _shown(setting: Any, between: str = ", ") -> str:
    if isinstance(setting, tuple):
        numbers = len(setting) == 2 and not any(isinstance(v, str) for v in setting)
        return (between if numbers else ", ").join(map(_shown, setting))
    if setting is None:
        return "-"
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    return setting if isinstance(setting, str) else f"{setting:g}"


def _shown_elsewhere(task: Any) -> list[str]:
    names = [f.name for f in dataclasses.fields(task)]
    shown = ("rate_hz", "episode_s")
    return [n for n in names if n in shown or n.startswith("lost_") or dataclasses.is_dataclass(getattr(task, n))]


def _section(title: str, header: Sequence[str], rows: Sequence[Row]) -> str:
    if not rows:
        return f"{title}\n  none"
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    # wrap long text within its column
    widths[-1] = min(widths[-1], _WIDTH - sum(widths[:-1]) - 2 * len(widths))
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        *before, last = row
        first, *more = textwrap.wrap(last, widths[-1]) or [""]
        lines.append([*before, first])
        lines += [[""] * len(before) + [rest] for rest in more]
    shown = ["  ".join(["", *(cell.ljust(w) for cell, w in zip(line, widths))]).rstrip() for line in lines]
    return "\n".join([title, *shown])


def _first_line(instance: Any) -> str:
    return (type(instance).__doc__ or "").strip().split("\n")[0]

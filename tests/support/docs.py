"""The documentation's pages, what they contain, and the tables in them that are made from the code."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlstack.interfaces import signals, topics
from rlstack.nodes.parameters import Parameter

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def text(page: str | Path) -> str:
    """Return a page, by its path from the top."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path, language: str) -> list[str]:
    """Return the code blocks of a page in ``language``, without their indentation."""
    found = []
    for indent, kind, body in _FENCE.findall(text(page)):
        if kind == language:
            found.append("\n".join(line.removeprefix(indent) for line in body.split("\n")))
    return found


def files(page: str | Path) -> dict[str, str]:
    """Return the files that a page tells its reader to save: the block after the paragraph "Save this as `NAME`"."""
    saved = re.finditer(r"Save this as `([\w.]+)`.*?\n\n```\w+\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)
    return {found[1]: found[2] for found in saved}


def prose(page: str | Path) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text(page))


def links(page: str | Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    return _LINK.findall(prose(page))


def anchors(page: str | Path) -> set[str]:
    """Return the anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: str | Path, program: str = "rlstack") -> list[list[str]]:
    """Return the words after ``program`` of every such command line in a page's shell blocks and prose.

    Lines that a sentence of refusal follows are left out: see :func:`refusals`.
    """
    lines = [line for line, after in _shown(page) if not after.startswith("rlstack: ")]
    lines += re.findall(r"`([^`\n]+)`", prose(page))
    found = []
    for line in lines:
        words = _split(line.removeprefix("$ ").split("  #")[0].split(" && ")[-1])
        if words[:1] == [program] and len(words) > 1:
            found.append(words[1:])
    return found


def _split(line: str) -> list[str]:
    """Return a line's words as a shell does; as they stand where its quotes do not pair, as in prose."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def refusals(page: str | Path) -> list[tuple[list[str], str]]:
    """Return the command lines that are shown with a sentence of refusal, and the sentence."""
    return [
        (line.removeprefix("$ rlstack ").split(), after)
        for line, after in _shown(page)
        if line.startswith("$ rlstack ") and after.startswith("rlstack: ")
    ]


def _shown(page: str | Path) -> list[tuple[str, str]]:
    """Return each line of a page's shell blocks with the line after it."""
    pairs = []
    for language in ("sh", "console"):
        for block in blocks(page, language):
            lines = _joined(block)
            pairs += list(zip(lines, [*lines[1:], ""]))
    return pairs


def _joined(block: str) -> list[str]:
    return block.replace("\\\n", " ").split("\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def judgement_table(names: Iterable[str]) -> str:
    """Return by what the flights of tasks are judged, and what all of them must reach."""
    from rlstack.tasks import TASKS

    rows = []
    for name in names:
        task = TASKS.load(name)()
        c, inside, over = task.criteria, task.bounds.limits, task.bounds_over_topics.limits
        limits = [
            ("error", inside.get("error_m"), over.get("error_m")),
            ("RMSE", inside.get("rmse_m"), over.get("rmse_m")),
        ]
        asked = "; ".join(f"{what} {_both(a, b, ' m')}" for what, a, b in limits if a is not None)
        within = f"{c.radius_m:g} m, second {c.from_s:g} to {c.to_s:g} of {c.duration_s:g}"
        success = _both(100.0 * inside["success"], 100.0 * over["success"], "%")
        rows.append((f"`{name}`", within, success, _both(100.0 * inside["lost"], 100.0 * over["lost"], "%"), asked))
    return table(("task", "succeeds within", "success, at least", "lost, at most", "median, at most"), rows)


def _both(first: float, second: float, unit: str) -> str:
    return f"{first:g}{unit}" if first == second else f"{first:g}{unit}, {second:g}{unit}"


def topic_table() -> str:
    """Return name and type of every common topic."""
    return table(("topic", "type"), ((f"`{name}`", f"`{kind}`") for name, kind in topics.TYPES.items()))


def signal_table(catalogue: dict[str, signals.Signal]) -> str:
    """Return what a policy can be fed, or can command."""
    rows = []
    for s in catalogue.values():
        shape = f"[{', '.join(map(str, s.shape))}]"
        rows.append((f"`{s.name}`", shape, s.unit, s.frame or "-", f"`{s.topic}`", f"`{s.field}`"))
    return table(("signal", "shape", "unit", "frame", "topic", "field"), rows)


def robot_file_table() -> str:
    """Return what a policy for a family is told of the robot that it flies."""
    rows = []
    for s in signals.ROBOT_FILE.values():
        rows.append((f"`{s.name}`", f"[{', '.join(map(str, s.shape))}]", s.unit, s.frame or "-", f"`{s.field}`"))
    return table(("signal", "shape", "unit", "frame", "key of the robot file"), rows)


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """Return a node's parameters: name, default, what is allowed, whether it may change, and what it means."""
    rows = []
    for p in parameters:
        rows.append((f"`{p.name}`", _default(p), _allowed(p), "yes" if p.live else "", p.description))
    return table(("parameter", "default", "allowed", "live", "meaning"), rows)


def _default(parameter: Parameter) -> str:
    value = parameter.default
    if parameter.each is not None and not value:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, tuple):
        return "not set" if any(isinstance(x, float) and math.isnan(x) for x in value) else str(list(value))
    return "not set" if math.isnan(value) else f"{value:g}"


def _allowed(parameter: Parameter) -> str:
    low, high = parameter.minimum, parameter.maximum
    if parameter.each is not None:
        return "a list of numbers" if parameter.each is float else "a list of names"
    if math.isfinite(low) and math.isfinite(high):
        return f"{low:.10g} to {high:.10g}"
    if math.isfinite(low):
        return f"from {low:.10g}"
    return f"{len(parameter.default)} numbers" if isinstance(parameter.default, tuple) else ""

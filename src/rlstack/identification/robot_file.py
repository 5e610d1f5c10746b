"""Write an identified robot's file: the text of the one it started from, with new numbers and their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.identification.identify import Identification
from rlstack.identification.motion_model import Edit, Estimate, KindIdentification, Place
from rlstack.identification.sensors import sensor_edits
from rlstack.kinds import find_kind
from rlstack.robots import load_robot
from rlstack.robots.spec import ALIASES, robot_files, robot_names
from rlstack.yaml_files import parse_yaml, read_text

_DIGITS = 5
"""Significant digits of an identified number."""


def checked_out(out: str | Path) -> Path:
    """Return the path of the new robot file, ``out`` or ``out.yaml``.

    Raises:
        UserError: It exists, or is named as a robot that comes with rlstack or another package.
    """
    path = Path(out).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        path = path.with_name(f"{path.name}.yaml")
    if path.stem in (*robot_names(), *ALIASES):
        raise UserError(
            f"--out: {path.stem} is the name of a robot that is there already, whose policies rely on its numbers:"
            " choose another name."
        )
    if path.exists():
        raise UserError(f"--out: {path} exists already: choose another name, or move it away.")
    return path


def source_text(name_or_path: str) -> tuple[Path, str]:
    """Return the path and the text of a robot's file."""
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = robot_files()[ALIASES.get(name_or_path, name_or_path)]
    return path, read_text(path, "the robot file")


def write_robot(path: Path, source: str, found: Identification, report: str = "") -> None:
    """Write the new robot file atomically; it is read back first, so that no file appears that would be refused.

    Args:
        path: The new file.
        source: Name or path of the robot file that the identification started from.
        found: The identification.
        report: Where its report is, for the head of the file.

    Raises:
        UserError: The identified numbers are no robot, for example an inertia that no body has.
    """
    text = robot_text(path.stem, source, found, report)
    trial = path.with_name(f".{path.stem}.{path.suffix.lstrip('.')}.trial.yaml")
    try:
        write_atomically(trial, text, what="the robot file")
        load_robot(trial)
    except UserError as error:
        raise UserError(
            f"The identified numbers are no robot: {error} A parameter is then wrong that the recording cannot tell, or"
            " one that was given by --known."
        ) from error
    finally:
        trial.unlink(missing_ok=True)
    write_atomically(path, text, what="the robot file")


def robot_text(name: str, source: str, found: Identification, report: str = "") -> str:
    """Return the text of the new robot file."""
    kind: KindIdentification = find_kind(found.robot.kind).load("identification")
    origin, text = source_text(source)
    bags = ", ".join(str(recorded.path) for recorded in found.recordings)
    edits = kind.edits(found.robot, found.estimates, lambda which: evidence(found.estimates[which], bags))
    edits.append(Edit(("name",), name, ""))
    about = f"{found.robot.description}, identified from a recording"
    edits.append(Edit(("description",), about, ""))
    data = parse_yaml(text, str(origin))
    text = _without_ranges(text)
    edits += sensor_edits(found.robot, data, found.sensors, lambda which: evidence(found.sensors[which], bags))
    edits += moved_model(data, origin)
    ranges = kind.randomisation(found.robot, found.estimates)
    return _head(name, source, bags, found, report) + edited(text, edits) + _ranges(ranges)


def moved_model(data: Any, origin: Path) -> list[Edit]:
    """Return the change by which a robot file of another folder finds its model where it is."""
    model = data.get("model", "") if isinstance(data, dict) else ""
    outside = bool(model) and not model.startswith("package:")
    return [Edit(("model",), str(origin.absolute().parent / model), "")] if outside else []


def _without_ranges(text: str) -> str:
    """Return a robot file's text without the ranges of an earlier identification, and the comment above them."""
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in root.value:
        if key.value == "randomisation":
            rows = text[: key.start_mark.index].split("\n")[:-1]
            while rows and rows[-1].startswith("#"):
                rows.pop()
            return "\n".join([*rows, text[value.end_mark.index :].lstrip("\n")])
    return text


def evidence(estimate: Estimate, bags: str) -> str:
    """Return what is noted beside a number: file, value, 90% interval, bag and method."""
    parameter = estimate.parameter
    was = f"the file had {parameter.value:.{_DIGITS}g}"
    unit = f" {parameter.unit}" if parameter.unit else ""
    if estimate.verdict == "known":
        return f"{parameter.name} {estimate.value:.{_DIGITS}g}{unit}: given by --known; {was}"
    if parameter.observed is not None:
        return f"{parameter.name} {estimate.value:.{_DIGITS}g}{unit} in {bags}, {parameter.given}; {was}"
    assert estimate.interval is not None
    low, high = estimate.interval
    why = f"; {estimate.why}" if estimate.why else ""
    return (
        f"{parameter.name} {estimate.value:.{_DIGITS}g}{unit}, 90% interval {low:.{_DIGITS}g} to {high:.{_DIGITS}g};"
        f" {bags}, {estimate.method}; {was}{why}"
    )


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a YAML text with values replaced and the comments on their lines, which told the old ones' sources, too.

    Raises:
        UserError: The text has no value at an edit's place, and the edit adds none.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    lines: dict[int, list[str]] = {}
    for start, end, line, new, noted in sorted(_change(text, root, edit) for edit in edits)[::-1]:
        text = text[:start] + new + text[end:]
        if "\n" in new:  # a row of its own, above which no edit was made yet
            lines = {number + (number >= line): notes for number, notes in lines.items()}
        if noted:
            lines.setdefault(line, []).insert(0, noted)
    rows = text.split("\n")
    for number, notes in lines.items():
        row, _, _ = _comment_split(rows[number])
        rows[number] = f"{row.rstrip()}  # {'; '.join(dict.fromkeys(notes))}"
    return "\n".join(rows)


def _comment_split(row: str) -> tuple[str, str, str]:
    """Split a line of YAML at its comment, which no number or list of numbers contains."""
    return row.partition("  #")


def _change(text: str, root: Any, edit: Edit) -> tuple[int, int, int, str, str]:
    """Return from where to where the text changes, the line there, the new text and what is noted on the line."""
    if edit.adds and (mapping := _node(root, edit.place[:-1])) and not _has(mapping, edit.place[-1]):
        pair = f"{edit.place[-1]}: {_plain(edit.value)}"
        if mapping.flow_style:
            end = mapping.end_mark.index - 1
            start = len(text[:end].rstrip().rstrip(","))
            return start, end, mapping.end_mark.line, f", {pair}", edit.evidence
        first = mapping.start_mark
        return first.index, first.index, first.line, f"{pair}\n{' ' * first.column}", edit.evidence
    node = _node(root, edit.place)
    start, end = node.start_mark.index, node.end_mark.index
    end = start + len(text[start:end].rstrip())  # a block's node ends at the next key
    return start, end, node.start_mark.line, _plain(edit.value), edit.evidence


def _has(mapping: Any, key: str | int) -> bool:
    return any(name.value == key for name, _ in mapping.value)


def _node(root: Any, place: Place) -> Any:
    node = root
    for key in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = [value for name, value in pairs if name.value == key]
        if not found:
            raise UserError(
                f"The robot file has no value {'.'.join(map(str, place))}, which the recording tells: add it to the"
                " file, with any number, and identify again."
            )
        node = found[0]
    return node


def _plain(value: object) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_plain(float(one)) for one in value)}]"
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _number(value: float) -> str:
    """Return a number that YAML reads as one: an exponent needs a point and a sign there."""
    text = f"{value:.{_DIGITS}g}"
    if "e" not in text:
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+03d}"


def _head(name: str, source: str, bags: str, found: Identification, report: str) -> str:
    kept = [
        f"#   {one.parameter.name}: {one.why}"
        for one in (*found.estimates.values(), *found.sensors.values())
        if one.verdict == "kept" and one.why
    ]
    shown = f" Report: {report}." if report else ""
    return "\n".join(
        [
            f"# {name}: the robot {source}, as `rlstack identify` found it in {bags}:",
            f"# {found.moving_s:g} s of free motion.{shown} Beside each number that it tells: value, 90% interval, bag,"
            " method.",
            *(["# What the recording does not tell, so that the number is the old file's:", *kept] if kept else []),
            "",
        ]
    )


def _ranges(ranges: dict[str, tuple[float, float]]) -> str:
    if not ranges:
        return ""
    rows = [f"  {key}: [{_number(low)}, {_number(high)}]" for key, (low, high) in ranges.items()]
    return "\n".join(
        [
            "# What training draws at least, beside the recipe's ranges, as factors of this file's numbers and in s:",
            "# three standard deviations of what is told, and at least what differs from one day to the next",
            "randomisation:",
            *rows,
            "",
        ]
    )

"""Format a contract as plain text, for ``rlstack show policy.onnx``."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlstack.interfaces.image_reader import ImageGeometry
from rlstack.interfaces.instruction import TextInput
from rlstack.interfaces.scan_geometry import ScanGeometry
from rlstack.policies.contract import Contract, Port
from rlstack.policies.envelope import QUANTITIES, ScanUse, unit_of
from rlstack.policies.family_contract import families

WIDTH = 110
"""Characters per line."""

_ROWS = ("name", "shape", "unit", "frame", "topic", "field")


def describe(contract: Contract) -> str:
    """Return the contract as plain-text tables, at most 110 characters wide unless a single word is longer."""
    robot = f"{contract.robot}, of the family below" if contract.family else contract.robot
    if contract.needs_robot:
        robot = f"any {contract.robot} of the family below"
    parts = [
        _pairs(
            {
                "policy": contract.name,
                "task": contract.task,
                "robot": robot,
                "rate": f"{contract.rate_hz:g} Hz ({1000.0 / contract.rate_hz:.4g} ms)",
                **({"plans": f"{contract.chunk[0]} steps at once"} if contract.chunk else {}),
                **({"noise": f"{_shape(contract.noise)}, 0 where it is not given"} if contract.noise else {}),
                "rlstack": contract.code_version,
                "schema": str(contract.schema_version),
                "sha256": contract.sha256 or "none: not written to a file yet",
            }
        ),
        _section("inputs", as_table(_ROWS, [_port_row(port) for port in contract.inputs])),
        _section(
            "outputs (the node sends them under policy/, the guard passes them on)",
            as_table(_ROWS, [_port_row(port) for port in contract.outputs]),
        ),
        _section(
            "limits of the outputs", as_table(("output", "element", "minimum", "maximum", "unit"), _limits(contract))
        ),
        _section("topics", as_table(("topic", "type", "carries"), _topics(contract))),
    ]
    parts += [_section(f"rays of {p.name}", _pairs(_scan(p.scan), indent=2)) for p in contract.inputs if p.scan]
    parts += [
        _section(f"pictures of {p.name}", _pairs(_picture(p.picture), indent=2)) for p in contract.inputs if p.picture
    ]
    parts += [_section(f"text of {p.name}", _pairs(_text(p.text), indent=2)) for p in contract.inputs if p.text]
    if contract.family:
        parts.append(
            _section("family of robots", as_table(("parameter", "lowest", "highest", "meaning"), _family(contract)))
        )
    if contract.state:
        rows = [(s.name, _shape(s.shape), "0") for s in contract.state]
        parts.append(_section("recurrent state", as_table(("name", "shape", "starts at"), rows)))
    else:
        parts.append(_section("recurrent state", "  none"))
    named = [p for p in (*contract.inputs, *contract.outputs) if p.element_names]
    if named:
        names = {p.name: ", ".join(p.element_names) for p in named}
        parts.append(_section("elements, in order", _pairs(names, indent=2)))
    parts += envelope_sections(contract)
    for title, values in (
        ("training", contract.training),
        ("evaluation", contract.evaluation),
    ):
        flat = dict(_flatten(values, ""))
        parts.append(_section(title, _pairs(flat, indent=2) if flat else "  nothing recorded"))
    return "\n\n".join(parts) + "\n"


def envelope_sections(contract: Contract) -> list[str]:
    """Return the sections of the envelope: what varied in training, the inputs' ages and noise, the robot's numbers."""
    envelope = contract.envelope
    parts = []
    if not envelope:
        parts.append(_section("envelope", f"  {envelope.unproven}"))
    if envelope.trained:
        rows = [
            (n, _number(low), _number(high), unit_of(n), QUANTITIES.get(n, ""))
            for n, (low, high) in sorted(envelope.trained.items())
        ]
        header = ("quantity", "lowest", "highest", "unit", "meaning")
        parts.append(_section("varied in training", as_table(header, rows)))
    if envelope.max_age_s:
        ages: list[tuple[str, ...]] = []
        for port in contract.inputs:
            age, noise = envelope.max_age_s.get(port.name), envelope.noise.get(port.name)
            unit = "rad" if port.name.endswith("orientation") else port.unit
            late = "moved on by velocity times age" if port.name in envelope.extrapolated else ""
            holds = "holds until replaced" if port.topic else "robot file"
            ages.append(
                (
                    port.name,
                    holds if age is None else f"{age:g} s",
                    "-" if noise is None else f"{noise:g} {unit}",
                    late,
                )
            )
        columns = ("input", "greatest age", "noise (1 sigma)", "when late")
        parts.append(_section("ages and noise of the inputs", as_table(columns, ages)))
    for name, use in envelope.scans.items():
        parts.append(_section(f"filling of {name}", _pairs(_scan_use(use), indent=2)))
    for title, values in (
        ("conditions of the task", envelope.conditions),
        ("the robot's numbers that the outputs mean", envelope.robot),
    ):
        flat = dict(_flatten(values, ""))
        if flat:
            parts.append(_section(title, _pairs(flat, indent=2)))
    return parts


def _scan_use(use: ScanUse) -> dict[str, str]:
    used = use.rays_used
    steps = {after - before for before, after in pairwise(used)}
    if len(steps) == 1:
        (step,) = steps
        looked = f"{len(used)} rays, {used[0]} to {used[-1]}" + (f", every {step}th" if step > 1 else "")
    else:
        looked = f"{len(used)} rays, {_shape(used)}"
    degrees = math.degrees(use.neighbour_rad)
    return {
        "looks at": looked,
        "no return, +Inf": f"{use.no_return_m:g} m",
        "too near, -Inf": f"{use.too_near_m:g} m",
        "missing, NaN": f"the shorter of the nearest measured rays within {degrees:.3g} degrees on either side,"
        f" or {use.missing_m:g} m",
    }


def _port_row(port: Port) -> tuple[str, ...]:
    return port.name, _shape(port.shape), port.unit, port.frame or "-", port.topic or "robot file", port.field


def _shape(shape: Sequence[float | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _picture(picture: ImageGeometry) -> dict[str, str]:
    fits = {"exact": "", "resize": "; larger ones are made smaller", "crop": "; larger ones are cut and made smaller"}
    link = picture.link or "base_link"
    return {
        "pixels": f"{picture.width} x {picture.height}{fits[picture.fit]}",
        "sees": f"{math.degrees(picture.horizontal_fov_rad):.4g} degrees from left to right",
        "frame": ", also called ".join(filter(None, (picture.frames[0], ", ".join(picture.frames[1:])))),
        "sits at": f"{_shape(picture.position_m)} m, {_shape(picture.rpy_rad)} rad, in {link}",
        "not older than": f"{picture.max_age_s:g} s",
    }


def _text(text: TextInput) -> dict[str, str]:
    examples = {f"example {k}" if k > 1 else "example": f"'{one}'" for k, one in enumerate(text.examples, start=1)}
    taken = {"takes": ", ".join(f"{one} for {word}" for one, word in text.meanings)} if text.meanings else {}
    return {"knows": f"{len(text.words)} words: {', '.join(text.words)}", **taken, **examples}


def _scan(scan: ScanGeometry) -> dict[str, str]:
    first, last = (math.degrees(angle) for angle in scan.angles_rad[[0, -1]])
    apart = math.degrees(scan.angle_increment_rad)
    return {
        "rays": f"{scan.rays}, from {first:.4g} to {last:.4g} degrees, {apart:.4g} apart",
        "ranges": f"{scan.range_min_m:g} to {scan.range_max_m:g} m",
        "frame": ", also called ".join(filter(None, (scan.frames[0], ", ".join(scan.frames[1:])))),
        "sits at": f"{_shape(scan.position_m)} m, {_shape(scan.rpy_rad)} rad, in base_link",
    }


def _family(contract: Contract) -> list[tuple[str, ...]]:
    meanings = {key: meaning for family in families().values() for key, meaning in family.parameters.items()}
    return [(key, *map(_number, ends), meanings.get(key, "")) for key, ends in contract.family.items()]


def _limits(contract: Contract) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for port in contract.outputs:
        pairs = list(zip(port.minimum, port.maximum))
        if not pairs:
            rows.append((port.name, "each", "robot's", "robot's", port.unit))
            continue
        if len(set(pairs)) == 1:
            rows.append((port.name, "each", *map(_number, pairs[0]), port.unit))
            continue
        names = port.element_names or tuple(map(str, range(len(pairs))))
        rows += [(port.name, name, *map(_number, pair), port.unit) for name, pair in zip(names, pairs)]
    return rows


def _topics(contract: Contract) -> list[tuple[str, ...]]:
    carried: dict[tuple[str, str, str], list[str]] = {}
    for direction, ports in (("in", contract.inputs), ("out", contract.outputs)):
        for port in ports:
            if not port.topic:
                continue
            carried.setdefault((port.topic, port.type, direction), []).append(port.name)
    return [(topic, kind, f"{way}: {', '.join(names)}") for (topic, kind, way), names in carried.items()]


def _section(title: str, body: str) -> str:
    return f"{title}\n{body}"


def as_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out columns; the last one wraps."""
    cells = [tuple(map(_printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells)]
    last = sum(widths[:-1]) + 2 * len(widths)
    lines = []
    for row in (tuple(header), tuple("-" * width for width in widths), *cells):
        fixed = "".join(f"  {cell:<{width}}" for cell, width in zip(row[:-1], widths[:-1]))
        wrapped = _wrap(row[-1], WIDTH - last)
        lines.append(f"{fixed}  {wrapped[0]}".rstrip())
        lines += [" " * last + more for more in wrapped[1:]]
    return "\n".join(lines)


def _pairs(values: Mapping[str, str], indent: int = 0) -> str:
    shown = {_printable(key): _printable(value) for key, value in values.items()}
    width = max(map(len, shown))
    lines = []
    for key, value in shown.items():
        wrapped = _wrap(value, WIDTH - indent - width - 2)
        lines.append(f"{'':{indent}}{key:<{width}}  {wrapped[0]}".rstrip())
        lines += [" " * (indent + width + 2) + more for more in wrapped[1:]]
    return "\n".join(lines)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


def _flatten(value: Any, at: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{at}.{key}" if at else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) or _is_sentence(item) for item in value):
        for index, item in enumerate(value):
            yield from _flatten(item, f"{at}[{index}]")
    elif isinstance(value, (list, tuple)):
        yield at, f"[{', '.join(_number(item) for item in value)}]"
    else:
        yield at, _number(value)


def _is_sentence(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:.6g}"


def _printable(text: str) -> str:
    """Replace unprintable characters, so that a file of unknown origin cannot control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)

"""Text tables of a robot's model: mass, inertia and joints, as `rlstack model` prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rlstack.files import write_atomically
from rlstack.robots.kind_models import Rotors, check_file, checked_model, mass_properties, models_of
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.model import Model
from rlstack.robots.spec import RobotSpec
from rlstack.robots.urdf import to_urdf


def describe_model(robot: RobotSpec) -> str:
    """Return mass, centre, inertia and joints of a robot as a table; raise ``UserError`` if its model is refused."""
    model = checked_model(robot)
    title, rows = f"{robot.name}: {robot.description}", models_of(robot).table(robot)
    return "\n".join([title, "", *_mass_lines(robot, model), "", *_table(rows)])


def _mass_lines(robot: RobotSpec, model: Model | None) -> list[str]:
    whole = model.inertial if model is not None else mass_properties(robot)
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = whole.inertia_kg_m2.tolist()
    lines = [
        f"mass     {whole.mass_kg:.6g} kg",
        f"centre   {' '.join(f'{x:.4g}' for x in whole.centre_m + 0.0)} m in base_link, joints at zero",
        f"inertia  ixx {xx:.4g}  iyy {yy:.4g}  izz {zz:.4g}  ixy {xy:.4g}  ixz {xz:.4g}  iyz {yz:.4g} kg m^2",
    ]
    if model is not None:
        tool = f", tool {robot.end_effector}" if robot.end_effector else ""
        lines.append(f"model    {model.where}, {len(model.links)} links{tool}")
    return lines


def show_model(
    robot: RobotSpec,
    *,
    form: Literal["urdf", "mjcf"],
    rotors: Rotors,
    prefix: str,
    out: Path | None = None,
    check: Path | None = None,
) -> str:
    """Generate a model, write it to ``out``, check another, and return :func:`describe_model`'s table.

    Raises:
        UserError: The model cannot be generated or written, or ``check`` is not this robot.
    """
    text = to_mjcf(robot) if form == "mjcf" else to_urdf(robot, prefix=prefix, rotors=rotors)
    lines = [describe_model(robot)]
    if check is not None:
        check_file(robot, check)
        lines.append(f"{check} is this robot.")
    if out is not None:
        write_atomically(out, text, what="the model")
        lines.append(f"Wrote {out}.")
    return "\n\n".join(lines)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]

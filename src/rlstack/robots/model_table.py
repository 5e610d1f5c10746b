"""A robot's model in words: mass, inertia and joints, as `rlstack model` prints them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from rlstack.files import write_atomically
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.inertia import Inertial
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.model import Model
from rlstack.robots.model_check import check_file, checked_model, mass_properties
from rlstack.robots.spec import RobotSpec
from rlstack.robots.urdf import to_urdf


def describe_model(robot: RobotSpec) -> str:
    """Return mass, centre, inertia and joints of a robot as a table.

    Raises:
        UserError: The model that the robot file names is missing, malformed or not what the file says.
    """
    model = checked_model(robot)
    return "\n".join(
        [
            f"{robot.name}: {robot.description}",
            "",
            *_mass_lines(robot, model),
            "",
            *_table(_joint_rows(robot)),
        ]
    )


def _mass_lines(robot: RobotSpec, model: Model | None) -> list[str]:
    whole: Inertial = model.inertial if model is not None else mass_properties(robot)
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = whole.inertia_kg_m2.tolist()
    lines = [
        f"mass     {whole.mass_kg:.6g} kg",
        f"centre   {' '.join(f'{x:.4g}' for x in whole.centre_m + 0.0)} m in base_link, joints at zero",
        f"inertia  ixx {xx:.4g}  iyy {yy:.4g}  izz {zz:.4g}  ixy {xy:.4g}  ixz {xz:.4g}  iyz {yz:.4g} kg m^2",
    ]
    if isinstance(robot, Manipulator) and model is not None:
        lines.append(f"model    {model.where}, {len(model.links)} links, tool {robot.tool_link}")
    return lines


def show_model(
    robot: RobotSpec,
    *,
    form: Literal["urdf", "mjcf"],
    rotors: str,
    prefix: str,
    out: Path | None = None,
    check: Path | None = None,
) -> str:
    """Return :func:`describe_model`'s table; before that make the model, write it to ``out``, and check one.

    Raises:
        UserError: The model cannot be made or written, or ``check`` is not this robot.
    """
    text = to_mjcf(robot) if form == "mjcf" else to_urdf(robot, prefix=prefix, rotors=rotors)  # type: ignore[arg-type]
    lines = [describe_model(robot)]
    if check is not None:
        check_file(robot, check)
        lines.append(f"{check} is this robot.")
    if out is not None:
        write_atomically(out, text, what="the model")
        lines.append(f"Wrote {out}.")
    return "\n\n".join(lines)


def _joint_rows(robot: RobotSpec) -> list[tuple[str, ...]]:
    if isinstance(robot, Quadrotor):
        head = ("rotor", "x m", "y m", "z m", "turns, from above", "most rad/s")
        top = f"{robot.rotor_model.speed_max_rad_s:g}"
        turns = {1: "clockwise", -1: "counter-clockwise"}
        rows = [
            (rotor.name, *(f"{x:g}" for x in rotor.position_m), turns[rotor.yaw_torque_sign], top)
            for rotor in robot.rotors
        ]
        return [head, *rows]
    titles = ("joint", "type", "driven by", "from", "to", "most speed", "most effort", "stiffness", "damping", "rest")
    shown: list[tuple[str, ...]] = [
        (
            joint.name,
            joint.type,
            joint.mode,
            *(f"{x:g}" if math.isfinite(x) else "-" for x in (joint.lower, joint.upper)),
            *(f"{x:g}" for x in (joint.velocity_max, joint.effort_max, joint.stiffness, joint.damping, joint.rest)),
        )
        for joint in robot.drives
    ]
    return [titles, *shown]


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]

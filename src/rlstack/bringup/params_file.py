"""A parameters file, as ROS 2 writes and reads it, for the nodes of a system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlstack.bringup.node_process import System
from rlstack.errors import UserError
from rlstack.yaml_files import read_yaml

_OURS = (
    *("policy", "policy_sha256", "record_sha256", "robot", "robot_sha256", "backend", "uri", "dry_run", "tether"),
    *("world", "count", "lock_step"),
)
"""What was checked for all nodes together, and has options of its own."""


def with_params_file(system: System, file: str | Path) -> System:
    """Return ``system`` with a parameters file, which takes precedence over what its nodes are given otherwise.

    Sections apply to nodes by name, as in ROS: ``guard``, ``/crazyflie/guard``, ``/**/guard``, or ``/**`` for all.

    Args:
        system: The system.
        file: Path of the file; empty: ``system`` as it is.

    Raises:
        UserError: The file cannot be read, is not of that form, has nothing for any of the nodes, or changes what has
            an option of its own, such as the policy.
    """
    if not str(file):
        return system
    path = Path(file).expanduser().absolute()
    sections = list(_sections(read_yaml(path, "parameters file"), "", str(path)))
    names = [process.node_name for process in system.processes]
    if not any(node in (*names, "*", "**") for node, _ in sections):
        found = ", ".join(sorted({node for node, _ in sections})) or "nothing"
        raise UserError(
            f"The parameters file {path} has nothing for any of the nodes ({', '.join(dict.fromkeys(names))}), but"
            f" {found}: name its sections after them, such as /**/{names[-1]}, or /** for all."
        )
    for process in system.processes:
        for node, values in sections:
            if node not in (process.node_name, "*", "**"):
                continue
            for name in _OURS:
                if name in process.parameters and name in values and values[name] != process.parameters[name]:
                    raise UserError(
                        f"The parameters file {path} sets '{name}' of {process.node_name} to {values[name]!r}, which is"
                        f" {process.parameters[name]!r} here: leave it out of the file, and give it as an option."
                    )
    processes = tuple(
        process if process.arguments is not None else replace(process, params_file=str(path))
        for process in system.processes
    )
    return replace(system, processes=processes)


def _sections(data: Any, name: str, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the last part of each node's name, with the node's parameters.

    Names may be nested: ``crazyflie: guard: ros__parameters: ...`` is ``crazyflie/guard: ...``.
    """
    if not isinstance(data, Mapping):
        raise UserError(
            f"The parameters file {where} is not one: '{name or 'the whole'}' has no ros__parameters, as in"
            " `/**/guard: {ros__parameters: {tilt_rad: 0.5}}`."
        )
    for key, value in data.items():
        if key == "ros__parameters":
            if not name or not isinstance(value, Mapping):
                raise UserError(f"The parameters file {where}: ros__parameters must have parameters, and a node above.")
            yield name.rstrip("/").rpartition("/")[2], value
        else:
            yield from _sections(value, f"{name}/{key}", where)

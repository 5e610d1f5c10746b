"""The browser view beside a system of nodes."""

from __future__ import annotations

from dataclasses import replace

from rlstack.bringup.node_process import Parameter, Process, System
from rlstack.errors import UserError
from rlstack.view.watching import can_view

_INSTALL = "pip install 'rlstack[view]'"


def with_view(system: System, host: str = "") -> System:
    """Return a system whose robots are shown in a browser.

    Args:
        system: The system.
        host: Address that browsers reach, other machines' too if it is not this machine's own; empty: 127.0.0.1.

    Raises:
        UserError: The browser view is not installed.
    """
    if not can_view():
        raise UserError(f"The browser view needs viser: {_INSTALL}, or leave the view out.")
    spaces = [process.namespace for process in system.processes if process.node_name == "guard"]
    parameters: dict[str, Parameter] = {"host": host} if host else {}
    if spaces:
        parameters["robots"] = tuple(spaces)
    view = Process(
        name="view",
        module="rlstack.nodes.view",
        parameters=parameters,
        when_it_ends="let the rest go on",
        why="the browser view has ended",
    )
    return replace(system, processes=(*system.processes, view))

"""The browser view beside a system of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlstack.bringup.node_process import Parameter, Process, System
from rlstack.errors import UserError
from rlstack.view.watching import can_view

_INSTALL = "pip install 'rlstack[view]'"


def with_view(system: System, spaces: Sequence[str] = ()) -> System:
    """Return a system whose robots are shown in a browser.

    Args:
        system: The system.
        spaces: The robots' namespaces; empty: those of its guards.

    Raises:
        UserError: The browser view is not installed.
    """
    if not can_view():
        raise UserError(f"The browser view needs viser: {_INSTALL}, or leave the view out.")
    spaces = tuple(spaces) or tuple(one.namespace for one in system.processes if one.node_name == "guard")
    parameters: dict[str, Parameter] = {"robots": spaces} if spaces else {}
    view = Process(
        name="view",
        module="rlstack.nodes.view",
        parameters=parameters,
        when_it_ends="let the rest go on",
        why="the browser view has ended",
    )
    return replace(system, processes=(*system.processes, view))

"""A simulation in the browser view's panel: pause and pace, and how fast it really runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.nodes.viewed_robot import ViewedRobot

_FACTORS = ("0.1", "0.25", "0.5", "1", "2", "5")
_WINDOW_S = 1.0
_SET = "/set_parameters"
_PAUSE = topics.PAUSE.removeprefix("~")


class Commands(Protocol):
    """What the panel has its node do; from any thread."""

    def ask(self, kind: str, service: str, value: bool | None = None) -> None:
        """Call a service, of type ``SetBool`` with a value, by its absolute name."""

    def set_number(self, service: str, name: str, value: float) -> None:
        """Set a node's parameter, by its absolute service for that."""


class SimulationPanel:
    """The panel of one simulator's node.

    Args:
        gui: viser's ``GuiApi``.
        node: The node's absolute name.
        commands: Does what the panel is asked for.
    """

    def __init__(self, gui: Any, node: str, commands: Commands) -> None:
        self._factor: float | None = None
        self._said = ""
        self._seen: deque[tuple[float, int]] = deque(maxlen=20)
        named = node.strip("/").rpartition("/")[0]
        with gui.add_folder(f"Simulation {named}".rstrip(), order=-1.0):
            self._state = gui.add_html("")
            self._pace = gui.add_button_group("Time", ("Pause", "Go on"))
            self._factors = gui.add_dropdown("Real-time factor", _FACTORS, initial_value="1")

        async def paused(event: Any) -> None:
            commands.ask("SetBool", node + _PAUSE, event.target.value == "Pause")

        async def changed(event: Any) -> None:
            if event.client is not None:  # not what this panel shows by itself
                commands.set_number(node + _SET, "real_time_factor", float(event.target.value))

        self._pace.on_click(paused)
        self._factors.on_update(changed)

    def hear(self, factor: float) -> None:
        """Take what the simulator says of its pace."""
        self._factor = factor
        shown = f"{factor:g}"
        if shown in _FACTORS and self._factors.value != shown:
            self._factors.value = shown

    def draw(self, robots: Iterable[ViewedRobot]) -> None:
        """Show how fast it runs, by the stamps of its newest robot."""
        stamps = [robot.stamp_ns for robot in robots]
        now, newest = time.monotonic(), max(stamps, default=0)
        self._seen.append((now, newest))
        while now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        first, passed = self._seen[0][1], now - self._seen[0][0]
        text = "paused" if self._factor == 0.0 else ""
        if not text and passed > 0.5 * _WINDOW_S and newest >= first:
            text = f"runs at {(newest - first) / NANOSECONDS / passed:.2f} x real time"
        if text != self._said:
            self._said = text
            self._state.content = f'<div style="padding:2px 12px 6px;font-size:0.85em">{text}</div>'


def simulators(services: Iterable[str]) -> set[str]:
    """Return the absolute names of nodes that can be paused and take parameters, from the graph's services."""
    known = set(services)
    paused = {name.removesuffix(_PAUSE) for name in known if name.endswith(_PAUSE)}
    return {node for node in paused if node + _SET in known}

"""The panel beside the browser view's scene: how each robot is, and what a person can have it do."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import rgb_array
from rlstack.nodes.viewed_robot import ViewedRobot


class Commands(Protocol):
    """What a panel has its node do; from any thread."""

    def ask(self, kind: str, service: str, value: bool | None = None) -> None:
        """Call a service, of type ``Trigger`` or, with a value, ``SetBool``, by its absolute name."""

    def instruct(self, robot: ViewedRobot, sentence: str) -> None:
        """Send an instruction."""

    def later(self, action: Callable[[], None]) -> None:
        """Call a function in the node's thread."""


_COLOURS = {"policy": "#2f9e44", "estop": "#e03131", "disarmed": "#868e96", "takeoff": "#1971c2", "idle": "#1971c2"}
_OTHERWISE = "#e8590c"
_SILENT_S = 1.0
_IMAGE_S = 0.1
"""Least time between images of a camera."""


class RobotPanel:
    """A robot's part of the panel.

    Args:
        gui: viser's ``GuiApi``.
        robot: The robot.
        commands: Does what the panel is asked for.
        guarded: Whether it has a guard.
        resettable: Whether it is simulated, and can be put back to its start.
    """

    def __init__(self, gui: Any, robot: ViewedRobot, commands: Commands, guarded: bool, resettable: bool) -> None:
        self._gui, self._robot, self._commands = gui, robot, commands
        self._said = ""
        self._cameras: list[str] = []
        self._instructs = False
        ask = commands.ask
        space = robot.space.rstrip("/")
        with gui.add_folder(robot.name) as self._folder:
            self._state = gui.add_html("")
            if guarded:
                stop = gui.add_button("Emergency stop", color="red", hint="Switches the motors off, also in the air")
                stop.on_click(lambda _: ask("Trigger", f"{space}/{topics.ESTOP}"))
                group = gui.add_button_group("Guard", ("Arm", "Disarm", "Clear stop"))

                def clicked(event: Any) -> None:
                    if event.target.value == "Clear stop":
                        ask("Trigger", f"{space}/{topics.CLEAR_ESTOP}")
                    else:
                        ask("SetBool", f"{space}/{topics.ARM}", event.target.value == "Arm")

                group.on_click(clicked)
            if resettable:
                reset = gui.add_button("Reset", hint="Puts the simulated robot back to its start")
                reset.on_click(lambda _: ask("Trigger", f"{space}/{topics.RESET}"))

    def draw(self) -> None:
        """Show how the robot is, if that has changed."""
        for camera in self._robot.cameras[len(self._cameras) :]:
            self._cameras.append(camera)
            with self._folder:
                self._add_camera(camera)
        if self._robot.instructed and not self._instructs:
            self._instructs = True
            with self._folder:
                self._add_instruction()
        said = state_html(self._robot, time.monotonic())
        if said != self._said:
            self._said = self._state.content = said

    def _add_camera(self, camera: str) -> None:
        box = self._gui.add_checkbox(f"Camera {camera}", False)
        shown: dict[str, Any] = {}

        def show(message: Any) -> None:
            now = time.monotonic()
            if now - shown.get("at", 0.0) < _IMAGE_S:
                return
            shown["at"] = now
            image = rgb_array(message)
            if "image" in shown:
                shown["image"].image = image
            else:
                with self._folder:
                    shown["image"] = self._gui.add_image(image, format="jpeg")

        def switch(on: bool) -> None:
            if on and "end" not in shown:
                shown["end"] = self._robot.watch(camera, show)
            elif not on and "end" in shown:
                shown.pop("end")()
                if "image" in shown:
                    shown.pop("image").remove()

        box.on_update(lambda event: self._commands.later(partial(switch, event.target.value)))

    def add_gripper(self, move: Callable[[float], None]) -> None:
        """Add buttons that call ``move`` with 1 to open the gripper and -1 to close it."""
        with self._folder:
            group = self._gui.add_button_group("Gripper", ("Open", "Close"))
        group.on_click(lambda event: move(1.0 if event.target.value == "Open" else -1.0))

    def _add_instruction(self) -> None:
        words = self._gui.add_text("Instruction", "")
        send = self._gui.add_button("Send")
        send.on_click(lambda _: self._commands.instruct(self._robot, words.value))


def state_html(robot: ViewedRobot, now: float) -> str:
    """Return how a robot is, as HTML."""
    rows = []
    mode = robot.mode or "no guard"
    colour = _COLOURS.get(mode, _OTHERWISE if robot.mode else "#868e96")
    silent = now - robot.seen_at > _SILENT_S
    badge = (
        f'<span style="background:{colour};color:white;border-radius:4px;padding:1px 8px">{html.escape(mode)}</span>'
    )
    rows.append(badge + (" <b>silent</b>" if silent else ""))
    if robot.reason:
        rows.append(f'<span style="color:#868e96">{html.escape(robot.reason)}</span>')
    if not math.isnan(robot.distance_m):
        there = " &#10003; reached" if robot.reached else ""
        rows.append(f"{robot.distance_m:.3f} m from the goal{there}")
    if robot.command:
        rows.append(_bars(robot.command))
    rows += [f'<span style="color:#e8590c">{html.escape(one)}</span>' for one in robot.missing[:2]]
    return '<div style="padding:2px 12px 6px;font-size:0.85em;line-height:1.6">' + "<br>".join(rows) + "</div>"


def _bars(values: dict[str, float]) -> str:
    """Return a bar for each value, of their largest."""
    most = max(1e-9, *(abs(value) for value in values.values()))
    drawn = []
    for name, value in values.items():
        share = round(100.0 * abs(value) / most)
        bar = f'<div style="background:#4e79a7;width:{share}%;height:6px"></div>'
        label = f'<div style="width:40%;overflow:hidden">{html.escape(name)}</div>'
        drawn.append(f'<div style="display:flex;align-items:center">{label}<div style="width:60%">{bar}</div></div>')
    return "".join(drawn)

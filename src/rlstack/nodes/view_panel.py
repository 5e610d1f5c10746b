"""The panel beside the browser view's scene: how each robot is, and what a person can have it do."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import rgb_array
from rlstack.nodes.viewed_robot import ViewedRobot
from rlstack.robots.spec import STANDARD_GRAVITY


class Commands(Protocol):
    """What a panel has its node do; from any thread."""

    def ask(self, kind: str, service: str, value: bool | None = None) -> None:
        """Call a service, of type ``Trigger`` or, with a value, ``SetBool``, by its absolute name."""

    def instruct(self, robot: ViewedRobot, sentence: str) -> None:
        """Send an instruction."""

    def push(self, robot: ViewedRobot, force: tuple[float, float, float], for_s: float) -> None:
        """Push a simulated robot with a force, N in ``odom``, for a time, s."""


_COLOURS = {"policy": "#2f9e44", "estop": "#e03131", "disarmed": "#868e96", "takeoff": "#1971c2", "idle": "#1971c2"}
_OTHERWISE = "#e8590c"
_SILENT_S = 1.0
_NEAR_LIMIT = 0.03
"""Share of a joint's range from which on it is near a limit."""
_WAYS = {
    "x": (1.0, 0.0, 0.0),
    "-x": (-1.0, 0.0, 0.0),
    "y": (0.0, 1.0, 0.0),
    "-y": (0.0, -1.0, 0.0),
    "up": (0.0, 0.0, 1.0),
    "down": (0.0, 0.0, -1.0),
}
_PUSH_S = {"Push": topics.DISTURBED_S, "Gust": 2.0}
"""How long each pushes, s."""
_IMAGE_S = 0.1
"""Least time between images of a camera."""


class RobotPanel:
    """A robot's part of the panel.

    Args:
        gui: viser's ``GuiApi``.
        robot: The robot.
        commands: Does what the panel is asked for.
    """

    def __init__(self, gui: Any, robot: ViewedRobot, commands: Commands) -> None:
        self._gui, self._robot, self._commands = gui, robot, commands
        self._said = ""
        self._cameras: list[_CameraImages] = []
        self._instructs = self._guarded = self._resettable = self._pushable = False
        self._space = robot.space.rstrip("/")
        with gui.add_folder(robot.name) as self._folder:
            self._state = gui.add_html("", order=0.0)

    def offer(self, services: set[str]) -> None:
        """Add buttons for a guard, and for a simulator's reset, once their services are among the graph's."""
        if not self._guarded and f"{self._space}/{topics.ESTOP}" in services:
            self._guarded = True
            with self._folder:
                self._add_guard()
        if not self._resettable and f"{self._space}/{topics.RESET}" in services:
            self._resettable = True
            with self._folder:
                reset = self._gui.add_button("Reset", hint="Puts the simulated robot back to its start", order=0.3)
            reset.on_click(lambda _: self._commands.ask("Trigger", f"{self._space}/{topics.RESET}"))

    def _add_guard(self) -> None:
        ask, space = self._commands.ask, self._space
        hint = "Switches the motors off, also in the air"
        stop = self._gui.add_button("Emergency stop", color="red", hint=hint, order=0.1)
        stop.on_click(lambda _: ask("Trigger", f"{space}/{topics.ESTOP}"))
        group = self._gui.add_button_group("Guard", ("Arm", "Disarm", "Clear stop"), order=0.2)

        async def clicked(event: Any) -> None:  # async: two quick clicks stay two, in their order
            if event.target.value == "Clear stop":
                ask("Trigger", f"{space}/{topics.CLEAR_ESTOP}")
            else:
                ask("SetBool", f"{space}/{topics.ARM}", event.target.value == "Arm")

        group.on_click(clicked)

    def rest(self) -> None:
        """Have no images sent: nobody looks."""
        for camera in self._cameras:
            camera.follow(False)

    def draw(self) -> None:
        """Show how the robot is, if that has changed."""
        for camera in self._robot.cameras[len(self._cameras) :]:
            self._cameras.append(_CameraImages(self._gui, self._folder, self._robot, camera))
        for images in self._cameras:
            images.follow(True)
        if self._robot.instructed and not self._instructs:
            self._instructs = True
            with self._folder:
                self._add_instruction()
        if self._robot.pushable and self._robot.mass_kg > 0.0 and not self._pushable:
            self._pushable = True
            with self._folder:
                self._add_pushes()
        said = state_html(self._robot, time.monotonic())
        if said != self._said:
            self._said = self._state.content = said

    def add_gripper(self, move: Callable[[float], None]) -> None:
        """Add buttons that call ``move`` with 1 to open the gripper and -1 to close it."""
        with self._folder:
            group = self._gui.add_button_group("Gripper", ("Open", "Close"))
        group.on_click(lambda event: move(1.0 if event.target.value == "Open" else -1.0))

    def _add_pushes(self) -> None:
        """Add what pushes a simulated robot, by a share of its weight."""
        weight = self._robot.mass_kg * STANDARD_GRAVITY
        with self._gui.add_folder("Push", expand_by_default=False):
            share = self._gui.add_slider("Share of weight", 0.05, 2.0, 0.05, 0.3)
            way = self._gui.add_dropdown("Towards", tuple(_WAYS))
            group = self._gui.add_button_group("Pushes", ("Push", "Gust"))

        def push(event: Any) -> None:
            force = [part * share.value * weight for part in _WAYS[way.value]]
            self._commands.push(self._robot, (force[0], force[1], force[2]), _PUSH_S[event.target.value])

        group.on_click(push)

    def _add_instruction(self) -> None:
        words = self._gui.add_text("Instruction", "")
        send = self._gui.add_button("Send")
        send.on_click(lambda _: self._commands.instruct(self._robot, words.value))


class _CameraImages:
    """A camera's images, while its box is ticked."""

    def __init__(self, gui: Any, folder: Any, robot: ViewedRobot, camera: str) -> None:
        self._gui, self._folder, self._robot, self._camera = gui, folder, robot, camera
        with folder:
            self._box = gui.add_checkbox(f"Camera {camera}".rstrip(), False)
        self._end: Callable[[], None] | None = None
        self._image: Any = None
        self._shown_at = 0.0

    def follow(self, watched: bool) -> None:
        """Have images sent, or not any more, as its box says; none if no browser looks."""
        wanted = watched and self._box.value
        if wanted and self._end is None:
            self._end = self._robot.watch(self._camera, self._show)
        elif not wanted and self._end is not None:
            self._end()
            self._end = None
            if self._image is not None:
                self._image.remove()
                self._image = None

    def _show(self, message: Any) -> None:
        now = time.monotonic()
        if now - self._shown_at < _IMAGE_S:
            return
        self._shown_at = now
        image = rgb_array(message)
        if self._image is not None:
            self._image.image = image
            return
        with self._folder:
            self._image = self._gui.add_image(image, format="jpeg")


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
    if delays := [f"{html.escape(name)} {ms:.1f} ms" for name, ms in robot.delays.items() if math.isfinite(ms)]:
        rows.append(f"age: {', '.join(delays)}")
    if robot.command:
        rows.append(_bars(robot.command))
    if ranges := robot.joint_ranges():
        rows.append("".join(_place_bar(*one) for one in ranges))
    rows += [f'<span style="color:#e8590c">{html.escape(one)}</span>' for one in robot.missing[:2]]
    return '<div style="padding:2px 12px 6px;font-size:0.85em;line-height:1.6">' + "<br>".join(rows) + "</div>"


def _place_bar(name: str, position: float, lower: float, upper: float) -> str:
    """Return where a joint is between its limits, as a mark on a bar that is red near them."""
    share = min(max((position - lower) / max(upper - lower, 1e-9), 0.0), 1.0)
    colour = "#e03131" if min(share, 1.0 - share) < _NEAR_LIMIT else "#4e79a7"
    mark = f"left:calc({100.0 * share:.0f}% - 2px);width:4px;height:8px;top:-1px;background:{colour}"
    mark = f'<div style="position:absolute;{mark}"></div>'
    bar = f'<div style="position:relative;background:#dee2e6;height:6px">{mark}</div>'
    label = f'<div style="width:40%;overflow:hidden">{html.escape(name)}</div>'
    value = f'<div style="width:18%;text-align:right">{position:.2f}</div>'
    return f'<div style="display:flex;align-items:center">{label}<div style="width:42%">{bar}</div>{value}</div>'


def _bars(values: dict[str, float]) -> str:
    """Return a bar for each finite value, of their largest."""
    values = {name: value for name, value in values.items() if math.isfinite(value)}
    most = max([1e-9, *map(abs, values.values())])
    drawn = []
    for name, value in values.items():
        share = round(100.0 * abs(value) / most)
        bar = f'<div style="background:#4e79a7;width:{share}%;height:6px"></div>'
        label = f'<div style="width:40%;overflow:hidden">{html.escape(name)}</div>'
        drawn.append(f'<div style="display:flex;align-items:center">{label}<div style="width:60%">{bar}</div></div>')
    return "".join(drawn)

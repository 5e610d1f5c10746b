"""The view node: shows robots in a browser, by their topics, and passes on what a person does there."""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.polled_topics import PolledTopics, listener_of
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.service_call import ServiceCall
from rlstack.nodes.view_goal import GoalHandle
from rlstack.nodes.view_hand import ToolHandle, tool_link
from rlstack.nodes.view_panel import RobotPanel
from rlstack.nodes.view_places import Places
from rlstack.nodes.view_pushes import Force, Pushes
from rlstack.nodes.view_simulation import SimulationPanel, simulators
from rlstack.nodes.view_world import ViewedWorld
from rlstack.nodes.viewed_robot import ViewedRobot
from rlstack.processes import give_way
from rlstack.view.server import ViewServer

PARAMETERS = (
    Parameter("host", "127.0.0.1", "Address that browsers reach; 0.0.0.0: other machines', too, with the token."),
    Parameter("port", 8080, "Port; the next free one if it is in use.", minimum=1, maximum=65435),
    Parameter("token", "", "What a browser must know; empty: nothing on this machine, otherwise a random one."),
    Parameter("rate_hz", 30.0, "Rate at which robots move in the browser, Hz.", minimum=1.0, maximum=60.0),
    Parameter("robots", (), "Absolute namespaces of the robots to show; empty: all in the ROS domain.", each=str),
)

_LOOK_S, _LATER_S, _NEW_S = 0.5, 2.0, 20.0
"""Period at which the graph is asked for new robots and topics, which takes milliseconds: at first, and later."""
_REST_S = 5.0
"""How long after its last browser it leaves the topics that come often."""
_PANEL_S = 0.2
_GRID_M = 20.0
_DELAYS = {"observation age, ms": "observations", "command latency, ms": "commands"}
"""What is shown of the figures that nodes report, and how it is called."""
_EYE = np.array([0.65, -0.5, 0.6])
"""Direction of the camera from what it looks at."""
_NEAREST_M, _AWAY = 0.8, 2.0
"""Its distance from that, m, for a small robot, and what the robot's reach adds."""


class ViewNode(ManagedNode):
    """Shows every robot whose ``robot_description`` it finds. Nothing is received while no browser looks."""

    NAME: ClassVar[str] = "view"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Start the server.

        Raises:
            UserError: viser is not installed, or the address cannot be listened on.
        """
        self._server = ViewServer(self.parameters["host"], self.parameters["port"], self.parameters["token"])
        scene = self._server.viser.scene
        scene.add_grid("/floor", _GRID_M, _GRID_M, cell_size=0.5, section_size=1.0, plane_opacity=0.0)
        self._listener = listener_of(self)
        self._polled = PolledTopics(self._listener, lambda topic, error: self.refuse(topic, str(error)))
        self._world = ViewedWorld(scene, self._polled)
        self._places, self._pushes = Places(self._polled), Pushes(self)
        self._simulations: dict[str, SimulationPanel] = {}
        self._robots: dict[str, ViewedRobot] = {}
        self._hands: dict[str, ToolHandle] = {}
        self._panels: dict[str, RobotPanel] = {}
        self._goals: dict[str, GoalHandle] = {}
        self._instructions: dict[str, Any] = {}
        self._callers: dict[str, Any] = {}
        self._calls: list[tuple[str, ServiceCall, float]] = []
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._looked_at = self._drawn_at = self._watched_at = -math.inf
        self._began_at = time.monotonic()
        self._framed = False
        print(f"Open {self._server.url} in a browser to see the robot.", flush=True)

    def activate(self) -> None:
        """Begin to draw."""
        self.every(1.0 / self.parameters["rate_hz"], self._tick)

    def deactivate(self) -> None:
        """Hand arms back that a person leads."""
        for hand in self._hands.values():
            hand.close()

    def cleanup(self) -> None:
        """Close the server, and leave all topics."""
        server = getattr(self, "_server", None)
        if server is None:
            return
        self._polled.close()
        self._listener.destroy_node()
        server.close()
        del self._server

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report who is shown, and where."""
        shown = ", ".join(self._robots) or "none yet"
        missing = [sentence for robot in self._robots.values() for sentence in robot.missing]
        browsers = len(self._server.viser.get_clients())
        return " ".join(missing), {"address": self._server.url, "browsers": browsers, "robots": shown}

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._looked_at >= (_LOOK_S if now - self._began_at < _NEW_S or not self._robots else _LATER_S):
            self._looked_at = now
            self._look()
        self._serve_asked()
        self._pushes.go_on(now)
        browsers = self._server.browsers()
        if browsers:
            self._watched_at = now
        self._polled.rest(now - self._watched_at > _REST_S)
        if not browsers:
            for hand in self._hands.values():
                hand.draw(now, set())  # who was holding a tool is gone
            for panel in self._panels.values():
                panel.rest()
            return
        with self._server.viser.atomic():
            self._polled.poll()
            for robot in self._robots.values():
                robot.draw()
            for space, goal in self._goals.items():
                if self._robots[space].root:  # its size is known
                    goal.draw(browsers)
            for hand in self._hands.values():
                hand.draw(now, browsers)
            if now - self._drawn_at >= _PANEL_S:
                self._drawn_at = now
                for panel in self._panels.values():
                    panel.draw()
                for simulation in self._simulations.values():
                    simulation.draw(self._robots.values())
                self._frame()
        for robot in self._robots.values():
            try:
                robot.build()
            except UserError as error:
                self.refuse(f"{robot.space}/{topics.ROBOT_DESCRIPTION}", str(error))

    def _look(self) -> None:
        """Find robots and their topics."""
        there = {name: list(kinds) for name, kinds in self.get_topic_names_and_types()}
        services = {name for name, _ in self.get_service_names_and_types()}
        self._world.discover(there)
        suffix = f"/{topics.ROBOT_DESCRIPTION}"
        wanted = self.parameters["robots"]
        for topic in there:
            space = topic.removesuffix(suffix) or "/"
            if not topic.endswith(suffix) or space in self._robots or (wanted and space not in wanted):
                continue
            self._add(space)
        for panel in self._panels.values():
            panel.offer(services)
        self._look_at_simulators(there, services)
        self._places.look(self._robots.values())
        for space, robot in self._robots.items():
            robot.discover(there)
            if robot.instructed and space not in self._instructions:
                kind, topic = topics.type_of(topics.INSTRUCTION), f"{space.rstrip('/')}/{topics.INSTRUCTION}"
                self._instructions[space] = self.publisher(kind, topic, "command")  # as goals: not for nodes to come
            if robot.teleoperated and space not in self._hands and robot.position is not None:
                self._add_hand(space, robot)

    def _look_at_simulators(self, there: Mapping[str, list[str]], services: set[str]) -> None:
        self._polled.discover(
            {
                topics.REAL_TIME_FACTOR: (self._on_pace, "latched"),
                topics.DIAGNOSTICS: (self._on_diagnostics, "event"),
            },
            there,
        )
        wanted = self.parameters["robots"]
        for node in simulators(services) - self._simulations.keys():
            space = node.rpartition("/")[0]
            if not wanted or any(one == space or one.startswith(f"{space}/") for one in wanted):
                self._simulations[node] = SimulationPanel(self._server.viser.gui, node, self)

    def _on_pace(self, message: Any) -> None:
        for simulation in self._simulations.values():
            simulation.hear(message.data)

    def _on_diagnostics(self, message: Any) -> None:
        for status in message.status:
            for value in status.values:
                before, _, key = f"/{status.hardware_id}/{value.key}".replace("//", "/").rpartition("/")
                robot = self._robots.get(before or "/")
                if key in _DELAYS and robot is not None:
                    with contextlib.suppress(ValueError):
                        robot.delays[_DELAYS[key]] = float(value.value)

    def _add(self, space: str) -> None:
        scene, gui = self._server.viser.scene, self._server.viser.gui
        robot = self._robots[space] = ViewedRobot(scene, self._polled, space)
        self._panels[space] = RobotPanel(gui, robot, self)
        self._goals[space] = GoalHandle(scene, self, robot, self.later)

    def _add_hand(self, space: str, robot: ViewedRobot) -> None:
        link = tool_link(robot.model_name)
        if link:
            hand = self._hands[space] = ToolHandle(self._server.viser.scene, self, robot, link, self.later)
            grip = hand.move_gripper
            self._panels[space].add_gripper(lambda way: self.later(lambda: grip(way, time.monotonic())))

    def _frame(self) -> None:
        """Point new browsers' cameras at the robots, once one is seen."""
        seen = [robot for robot in self._robots.values() if robot.position is not None and robot.root]
        if self._framed or not seen:
            return
        self._framed = True
        places: Array = np.array([robot.position for robot in seen])
        middle, spread = places.mean(axis=0), float(np.ptp(places, axis=0).max())
        reach = max(robot.reach_m for robot in seen)
        middle[2] += 0.3 * reach
        eye = middle + _EYE * (_NEAREST_M + _AWAY * reach + 1.5 * spread)
        server = self._server.viser
        for camera in (server.initial_camera, *(client.camera for client in server.get_clients().values())):
            camera.position, camera.look_at = tuple(eye), tuple(middle)

    # What a person does --------------------------------------------------------------------------------------

    def later(self, action: Callable[[], None]) -> None:
        """Call a function in this node's thread."""
        self._asked.put(action)

    def ask(self, kind: str, service: str, value: bool | None = None) -> None:
        """Call a service; see :class:`rlstack.nodes.view_panel.Commands`."""
        self.later(partial(self._call, kind, service, value))

    def instruct(self, robot: ViewedRobot, sentence: str) -> None:
        """Send an instruction."""
        self.later(partial(self._instruct, robot.space, sentence))

    def push(self, robot: ViewedRobot, force: Force, for_s: float) -> None:
        """Push a simulated robot."""
        self.later(lambda: self._pushes.begin(robot.space, force, for_s, time.monotonic()))

    def set_number(self, service: str, name: str, value: float) -> None:
        """Set a node's parameter."""
        self.later(partial(self._set_number, service, name, value))

    def _set_number(self, service: str, name: str, value: float) -> None:
        from rcl_interfaces.msg import Parameter as Named
        from rcl_interfaces.msg import ParameterType, ParameterValue
        from rcl_interfaces.srv import SetParameters

        number = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
        self._request(SetParameters, service, SetParameters.Request(parameters=[Named(name=name, value=number)]))

    def _instruct(self, space: str, sentence: str) -> None:
        self._instructions[space].publish(topics.type_of(topics.INSTRUCTION)(data=sentence))

    def _call(self, kind: str, service: str, value: bool | None) -> None:
        import std_srvs.srv

        made = getattr(std_srvs.srv, kind)
        request = made.Request() if value is None else made.Request(data=value)
        self._request(made, service, request)

    def _request(self, made: Any, service: str, request: Any) -> None:
        if service not in self._callers:
            self._callers[service] = self.client(made, service)
        self._calls.append((service, ServiceCall(self._callers[service], request), time.monotonic()))

    def _serve_asked(self) -> None:
        """Do what browsers asked for since, in this thread."""
        while not self._asked.empty():
            self._asked.get()()
        waiting = []
        for service, call, since in self._calls:
            if call.poll():
                self._notify(service, *_outcome(call.response))
            elif time.monotonic() - since > 3.0:
                self._notify(service, False, "no answer")
            else:
                waiting.append((service, call, since))
        self._calls = waiting
        for robot in self._robots.values():
            while robot.refused:
                self._notify(f"{robot.name}: goal", False, robot.refused.pop())

    def _notify(self, what: str, success: bool, message: str) -> None:
        for client in self._server.viser.get_clients().values():
            client.add_notification(
                what.lstrip("/"),
                message or ("done" if success else "refused"),
                color="green" if success else "red",
                auto_close_seconds=4.0 if success else 10.0,
            )


def _outcome(response: Any) -> tuple[bool, str]:
    """Return whether a request was granted, and what was said to it."""
    if hasattr(response, "results"):
        return all(one.successful for one in response.results), " ".join(one.reason for one in response.results)
    return response.success, response.message


def main() -> int:
    """Run the node, after everything that commands a robot."""
    give_way()
    return ViewNode.main()


if __name__ == "__main__":
    raise SystemExit(main())

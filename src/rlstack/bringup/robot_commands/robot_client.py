"""A ROS node for one command: finds the robots of the domain by their guards' services, and calls those.

It imports rclpy and little else, because the emergency stop waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.runtime import prepare_environment, require_ros
from rlstack.nodes.service_call import ServiceCall

FOUND_WITHIN_S = 3.0
"""How long the graph may take to show a robot."""
SETTLED_S = 0.4
"""Once nothing more has appeared for this long, all robots are found."""
MISSED_S = 1.5
"""The same while a robot that was named is not among them."""
ANSWERED_WITHIN_S = 3.0
"""Time limit for a service's answer."""
_TRIGGER = "std_srvs/srv/Trigger"
_POLL_S = 0.01
_POLICY = topics.POLICY_PREFIX.rstrip("/")
"""Below a robot's namespace, its policy has a reset, too."""


class RobotClient:
    """A node of its own ROS context; use it in a ``with`` statement.

    Raises:
        UserError: ROS is not installed, or refuses the environment's settings.
    """

    def __init__(self) -> None:
        require_ros()
        prepare_environment()
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        self._context: Any = rclpy.Context()
        try:
            # Python's own handler stays, so that Ctrl-C ends the command
            rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
            self.node: Any = rclpy.create_node(
                f"rlstack_operator_{os.getpid()}",
                context=self._context,
                enable_rosout=False,
                start_parameter_services=False,
            )
        except Exception as error:  # rclpy raises several private types
            raise UserError(f"ROS cannot start: {str(error).splitlines()[0]}") from error
        self._executor: Any = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def __enter__(self) -> RobotClient:
        return self

    def __exit__(self, *_: object) -> None:
        from rlstack.nodes.shutdown import shut_down

        self._executor.shutdown()
        shut_down(self.node)

    def spin(self, seconds: float) -> None:
        """Receive messages for a time."""
        self.until(lambda: False, seconds)

    def until(self, condition: Callable[[], Any], timeout_s: float) -> bool:
        """Receive messages until a condition holds; return whether it does."""
        end = time.monotonic() + timeout_s
        while not condition():
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            self._executor.spin_once(timeout_sec=min(_POLL_S, left))
        return True

    # Robots --------------------------------------------------------------------------------------------------

    def guarded(self) -> list[str]:
        """Return the namespaces of the robots whose guards are there now; ``/`` is one too."""
        return self._offering(topics.ESTOP)

    def unguarded(self) -> list[str]:
        """Return the namespaces of simulated robots without a guard."""
        resettable = [name for name in self._offering(topics.RESET) if not name.endswith(f"/{_POLICY}")]
        return sorted(set(resettable) - set(self.guarded()))

    def find(self, wanted: Sequence[str] = ()) -> list[str]:
        """Return the namespaces of all robots with a guard, once no more appear or all that are wanted are there.

        Raises:
            UserError: There is none; the sentence says what was looked for, and what to do.
        """
        found: list[str] = []
        begun = changed = time.monotonic()
        settled_s = MISSED_S if wanted else SETTLED_S
        while time.monotonic() - (changed if found else begun) < (settled_s if found else FOUND_WITHIN_S):
            if wanted and all(matching(name, found) for name in wanted):
                break
            self.spin(_POLL_S)
            now = self.guarded()
            if now != found:
                found, changed = now, time.monotonic()
        if not found:
            raise UserError(self.nobody())
        return found

    def choose(self, wanted: Sequence[str], one: bool = True) -> list[str]:
        """Return the namespaces of the robots that are meant.

        Args:
            wanted: Names: the last part of a namespace, or all of it; empty: the only robot that is there.
            one: Whether no names must mean one robot; otherwise they mean all.

        Raises:
            UserError: No robot, none of that name, or several without a name.
        """
        there = self.find(wanted)
        if wanted:
            return [chosen(name, there) for name in wanted]
        if one and len(there) > 1:
            raise UserError(f"{len(there)} robots are there: {', '.join(there)}. Name the one that you mean.")
        return there

    def nobody(self) -> str:
        """Return a sentence on which robots were looked for where, and what to do."""
        domain = os.environ.get("ROS_DOMAIN_ID") or "0"
        reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
        where = "on this machine only" if reach == "LOCALHOST" else "in this machine's subnet"
        sentence = (
            f"No robot's guard was found within {FOUND_WITHIN_S:g} s in ROS domain {domain}, {where}"
            f" (ROS_AUTOMATIC_DISCOVERY_RANGE={reach})."
        )
        if there := self.unguarded():
            sentence += f" Without a guard, and out of reach of this command: {', '.join(there)}."
        return sentence + (
            " Start one with `rlstack up deploy`. If it runs already, use its ROS_DOMAIN_ID; on another machine, set"
            " ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET on both."
        )

    def _offering(self, service: str) -> list[str]:
        end = f"/{service}"
        offered = self.node.get_service_names_and_types()
        return sorted(
            name.removesuffix(end) or "/" for name, kinds in offered if name.endswith(end) and _TRIGGER in kinds
        )

    # Services ------------------------------------------------------------------------------------------------

    def call(self, kind: Any, robot: str, service: str, **fields: Any) -> Any:
        """Call a service of a robot and return its response; None if it does not answer in time."""
        call = service_call(self.node, kind, robot, service, **fields)
        self.until(call.poll, ANSWERED_WITHIN_S)
        return call.response


def service_call(node: Any, kind: Any, robot: str, service: str, **fields: Any) -> ServiceCall:
    """Return a call of a robot's service.

    Args:
        node: The node that calls.
        kind: The service's class.
        robot: The robot's namespace.
        service: The service's name in it.
        fields: Fields of the request.
    """
    return ServiceCall(node.create_client(kind, within(robot, service)), kind.Request(**fields))


def within(robot: str, name: str) -> str:
    """Return a topic or service of a robot with an absolute namespace."""
    return f"{robot.rstrip('/')}/{name}"


def matching(name: str, there: Sequence[str]) -> list[str]:
    """Return the namespaces that a name means: the one it is, or those that end in it."""
    absolute = "/" + name.strip("/")
    return [absolute] if absolute in there else [space for space in there if space.endswith(absolute)]


def chosen(name: str, there: Sequence[str]) -> str:
    """Return the namespace that a name means.

    Raises:
        UserError: There is none, or several.
    """
    found = matching(name, there)
    if len(found) != 1:
        what = f"'{name}' may be {' or '.join(found)}" if found else f"No robot '{name}' is there"
        raise UserError(f"{what}. Robots: {', '.join(there)}.")
    return found[0]


def shown(robot: str) -> str:
    """Return a robot's name for messages: its namespace without the first slash."""
    return robot.strip("/") or robot

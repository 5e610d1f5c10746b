"""A single-threaded executor with a persistent wait set, which is faster than rclpy's own executors."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor, TimeoutException
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy

from rlstack.errors import MalformedMessage

_GENERAL_PERIOD_S = 1.0
_LONGEST_WAIT_NS = 50_000_000
_MAX_GENERAL = 50


def serve(subscription: Any, refuse: Callable[[Any, Exception], None]) -> bool:
    """Call a subscription's callback with its next message, if there is one; return whether there was.

    One with a function ``take_identified`` (:class:`rlstack.nodes.publisher_identity.IdentifiedTake`) is called with
    what that returns.

    Args:
        subscription: The subscription.
        refuse: Called with it and the error if the message could not be read.
    """
    identified = getattr(subscription, "take_identified", None)
    try:
        if identified is None:
            taken = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            if taken is None:
                return False
            subscription.callback(taken[0])
            return True
        taken = identified()
        if taken is None:
            return False
        subscription.callback(*taken)
    except (_rclpy.RMWError, MalformedMessage) as error:
        refuse(subscription, error)
    return True


class ControlExecutor(SingleThreadedExecutor):
    """Serves subscriptions and timers from a persistent wait set; rclpy's own loop serves the rest when it is due.

    rclpy's loop collects every entity, builds a wait set and makes a task for each callback, and then does it all
    again because that task woke it. Guard conditions, by which a driver's thread tells of a measurement, are served as
    they are. With the dozen services of a lifecycle node this doubles the time per message
    (`benchmarks/control_path.py` prints both). Services also wake this loop at once; QoS events are polled once a
    second. The order is rclpy's: timers first, then subscriptions in the order of their creation.
    Callbacks must be plain functions.

    Malformed messages and requests end no node: they are dropped, and the node is told (its method ``refuse``).
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.general_period_s = _GENERAL_PERIOD_S
        """Polling period for entities that are not in the wait set: QoS events and actions."""
        self._general_at = 0.0
        self._watched: list[Any] | None = None
        self._held = ExitStack()
        self._hot: Any = None
        self._additions: list[tuple[Callable[[Any], None], Any]] = []

    def spin_while(self, go_on: Callable[[], bool]) -> None:
        """Serve callbacks until ``go_on()`` is false; it is called at least every 50 ms.

        Exceptions of callbacks propagate. Returns quietly when the context is shut down.
        """
        self._general_at = 0.0
        try:
            while go_on() and self._context.ok():
                now = time.monotonic()
                if now >= self._general_at:
                    self._general_at = now + self.general_period_s
                    self._serve_general()
                self._serve_hot()
        except (ExternalShutdownException, ShutdownException, InvalidHandle):
            if self._context.ok() and not self._is_shutdown:
                raise
        finally:
            self._release()

    def spin_until(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Serve callbacks until ``condition()`` holds, and return whether it did within the time.

        It is not asked again once it has held: a moment later it may not.
        """
        end, held = time.monotonic() + timeout_s, False

        def go_on() -> bool:
            nonlocal held
            held = held or bool(condition())
            return not held and time.monotonic() < end

        self.spin_while(go_on)
        return held

    def _serve_general(self) -> None:
        """Let rclpy's own loop serve everything that is ready, then watch the entities that exist now."""
        try:
            for _ in range(_MAX_GENERAL):
                handler, entity, _node = self.wait_for_ready_callbacks(timeout_sec=0.0)
                handler()
                error = handler.exception()
                if isinstance(error, MalformedMessage):
                    self._refuse(entity, error)
                elif error is not None:
                    raise error
        except TimeoutException:
            pass
        self._watch()

    def _watch(self) -> None:
        nodes = self.get_nodes()
        subscriptions = [s for node in nodes for s in node.subscriptions]
        timers = [t for node in nodes for t in node.timers]
        services = [s for node in nodes for s in node.services]
        clients = [c for node in nodes for c in node.clients]
        guards = [self._guard, *(g for node in nodes for g in node.guards)]
        entities = [*subscriptions, *timers, *services, *clients, *guards]
        if self._watched == entities:
            return
        self._release()
        for entity in [*entities, self._context]:
            self._held.enter_context(entity.handle)  # keeps it from being destroyed while it is waited for
        counts = (len(subscriptions), len(guards), len(timers), len(clients), len(services), 0)
        self._hot = wait_set = _rclpy.WaitSet(*counts, self._context.handle)
        self._watched = entities
        self._additions = [
            (add, entity.handle)
            for add, watched in (
                (wait_set.add_subscription, subscriptions),
                (wait_set.add_timer, timers),
                (wait_set.add_service, services),
                (wait_set.add_client, clients),
                (wait_set.add_guard_condition, guards),
            )
            for entity in watched
        ]
        self._subscriptions = {s.handle.pointer: s for s in subscriptions}
        self._conditions = {g.handle.pointer: g for g in guards}
        self._timers = {t.handle.pointer: t for t in timers}

    def _serve_hot(self) -> None:
        wait_set = self._hot
        wait_set.clear_entities()
        for add, handle in self._additions:
            add(handle)
        wait_set.wait(_LONGEST_WAIT_NS)
        for pointer in wait_set.get_ready_entities("timer"):
            timer = self._timers[pointer]
            if timer.handle.is_timer_ready():  # a timer may have been cancelled meanwhile
                timer.handle.call_timer()
                timer.callback()
        for pointer in wait_set.get_ready_entities("subscription"):
            subscription = self._subscriptions[pointer]
            serve(subscription, self._refuse)
        for pointer in wait_set.get_ready_entities("guard_condition"):
            guard = self._conditions[pointer]
            if guard is self._guard or guard.callback is None:
                self._general_at = 0.0
            else:
                guard.callback()
        for kind in ("service", "client"):
            if wait_set.get_ready_entities(kind):
                self._general_at = 0.0

    # rclpy leaves an entity that raises while it is taken blocked for ever, and its callback group with it

    def _take_subscription(self, sub: Any) -> Any:
        identified = getattr(sub, "take_identified", None)
        if identified is None:
            return self._take(super()._take_subscription, sub)
        taken = identified()
        if taken is None:
            return None

        async def execute() -> None:
            sub.callback(*taken)

        return execute

    def _take_service(self, srv: Any) -> Any:
        return self._take(super()._take_service, srv)

    def _take_client(self, client: Any) -> Any:
        return self._take(super()._take_client, client)

    def _take_waitable(self, waitable: Any) -> Any:
        return self._take(super()._take_waitable, waitable)

    def _take(self, take: Callable[[Any], Any], entity: Any) -> Any:
        try:
            return take(entity)
        except _rclpy.RMWError as error:
            self._refuse(entity, error)
            return None

    def _refuse(self, entity: Any, error: Exception) -> None:
        """Tell the node that has ``entity`` that a message could not be read."""
        where = str(getattr(entity, "topic_name", "") or getattr(entity, "srv_name", "") or type(entity).__name__)
        why = str(error) if isinstance(error, MalformedMessage) else "its bytes are no message of this type"
        for node in self.get_nodes():
            if entity in (*node.subscriptions, *node.services, *node.clients, *node.waitables):
                refuse = getattr(node, "refuse", None)
                if refuse is not None:
                    refuse(where, why)
                else:
                    node.get_logger().warning(f"A message on {where} was refused: {why}.")

    def _release(self) -> None:
        self._hot, self._watched, self._additions = None, None, []
        self._held.close()

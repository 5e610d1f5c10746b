"""Common runtime of all nodes: environment, lifecycle with autostart, diagnostics, and a main function."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

from rlstack.errors import Diverged, UserError
from rlstack.interfaces import topics
from rlstack.nodes.diagnostics import diagnostics_of
from rlstack.nodes.end_signals import Received, quietly, spin
from rlstack.nodes.fatal_errors import first_line, log_fatal, made_securely
from rlstack.nodes.node_help import help_text
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.publisher_identity import IdentifiedTake, why_unknown
from rlstack.nodes.real_time import use_nodes_priority
from rlstack.nodes.shutdown import remove_left_behind, shut_down
from rlstack.nodes.topic_watch import Problem, TopicWatch
from rlstack.processes import die_with_starter
from rlstack.resources import find_resource

try:
    from rclpy.clock import Clock, ClockType
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
    from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

    _MISSING_ROS: ImportError | None = None
except ImportError as error:  # require_ros reports it, so that importing a node's module never ends in a traceback
    LifecycleNode, LifecycleState, TransitionCallbackReturn = object, Any, Any
    _MISSING_ROS = error

USER_ERROR_STATUS = 2

_AUTOSTART = Parameter("autostart", True, "Configure and activate without waiting for a lifecycle manager.")


def require_ros() -> None:
    """Raise ``UserError`` if rclpy cannot be imported."""
    if _MISSING_ROS is None:
        return
    if isinstance(_MISSING_ROS, ModuleNotFoundError):
        raise UserError("ROS 2 for Python (rclpy) is not installed: pip install 'rlstack[ros]'.") from _MISSING_ROS
    raise UserError(
        f"rclpy is installed but cannot be loaded ({_MISSING_ROS}): start Python from the environment that"
        " pip install 'rlstack[ros]' went into, or source your ROS 2 setup file."
    ) from _MISSING_ROS


def prepare_environment() -> None:
    """Set rlstack's ROS defaults for this process and its children; existing settings stay.

    Discovery stays on this machine, Fast DDS uses ``config/fastdds.xml``, and the log directory is writable. Call it
    before rclpy is initialised.
    """
    environment = os.environ
    environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    profile = find_resource("config/fastdds.xml")
    own_profile = {"FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"} & set(environment)
    if profile is not None and not own_profile:
        environment["FASTRTPS_DEFAULT_PROFILES_FILE"] = str(profile)
    environment.setdefault("HOME", tempfile.gettempdir())  # rclpy ends the process without a writable one
    if "ROS_LOG_DIR" not in environment:
        logs = Path(environment.get("ROS_HOME") or Path(environment["HOME"]) / ".ros") / "log"
        try:
            logs.mkdir(parents=True, exist_ok=True)
            writable = os.access(logs, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            environment["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="rlstack-log-")
    if not environment.get("LD_LIBRARY_PATH"):
        # The ROS wheels mark a process whose library path they have set; a child with the mark but without the path
        # could not load rclpy.
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)


class ManagedNode(LifecycleNode):  # type: ignore[misc]
    """A lifecycle node with declared parameters, diagnostics once a second and errors that reach the user.

    Subclasses implement :meth:`configure`, :meth:`activate`, :meth:`deactivate`, :meth:`cleanup` and :meth:`status`.

    Args:
        overrides: Parameter values from Python; the command line's take precedence.
        options: For ``rclpy.node.Node``, such as ``namespace`` or ``context``.
    """

    NAME: ClassVar[str]
    """Default node name; remapping changes it."""
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(self.NAME, **options)
        self.failure: Exception | None = None
        self._failed = False
        self.active = False
        try:
            self.parameters = ParameterSet(self, [*self.PARAMETERS, _AUTOSTART], overrides)
        except UserError as error:
            log_fatal(self, error)
            raise
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._warned_at: dict[str, float] = {}
        self._malformed: Counter[str] = Counter()
        self.watch = TopicWatch(self, self._say)
        """Who else is on the node's topics."""
        self._why_unknown: str | None = None
        self._lifecycle_entities: list[tuple[Callable[[Any], Any], Any]] = []
        self._activity_timers: list[Any] = []
        self._diagnostics = self.create_publisher(
            topics.type_of(topics.DIAGNOSTICS), topics.DIAGNOSTICS, topics.quality("event")
        )
        self.create_timer(1.0, self._publish_diagnostics, clock=self.steady)

    @classmethod
    def main(cls, arguments: Sequence[str] | None = None) -> int:
        """Run one such node in this process; see :func:`run_nodes`."""
        return run_nodes(cls, arguments)

    def destroy_node(self) -> None:
        """Destroy the node, and the lifecycle's state machine, which holds it.

        rclpy leaves the state machine to the garbage collector. The participant and its threads then live until the
        process exits, where they can deadlock with Fast DDS's own destructors and hang the process.
        """
        super().destroy_node()
        state_machine: Any = getattr(self, "_state_machine", None)
        self._state_machine = None
        if state_machine is not None:
            state_machine.destroy_when_not_in_use()

    # Implemented by subclasses -------------------------------------------------------------------------------

    def configure(self) -> None:
        """Read parameters and create topics; raise ``UserError`` for anything the user must change."""

    def activate(self) -> None:
        """Start working."""

    def deactivate(self) -> None:
        """Stop working and leave everything safe."""

    def cleanup(self) -> None:
        """Release what :meth:`configure` created, other than topics, services and timers."""

    def status(self) -> tuple[str, dict[str, Any]]:
        """Return a warning (empty when all is well) and the values for diagnostics."""
        return "", {}

    def begin_end(self, signal_name: str) -> None:
        """Begin what the node has to do before it ends, because its process was asked to, by a signal of that name."""

    def may_end(self) -> bool:
        """Return whether that is done."""
        return True

    # Used by subclasses --------------------------------------------------------------------------------------

    def publisher(self, kind: Any, topic: str, use: topics.Quality) -> Any:
        """Create a publisher that lasts until cleanup."""
        quality = topics.quality(use)
        # `watch` says which node does not fit, and how; rclpy's own warning does not name it
        quiet = PublisherEventCallbacks(use_default_callbacks=False)
        made = self.create_publisher(kind, topic, quality, event_callbacks=quiet)
        self.watch.writes(topic, kind, quality)
        self._lifecycle_entities.append((self.destroy_publisher, made))
        return made

    def subscriber(
        self,
        kind: Any,
        topic: str,
        callback: Callable[..., None],
        use: topics.Quality,
        raw: bool = False,
        identified: bool = False,
        depth: int | None = None,
    ) -> Any:
        """Create a subscription that lasts until cleanup.

        Args:
            kind: The message class.
            topic: Its topic.
            callback: Called with each message.
            use: Its quality of service.
            raw: Pass the serialized message.
            identified: With ``raw``, pass its publisher's GID as a second argument, too, where :meth:`why_unknown` is
                empty.
            depth: How many messages may wait; None: as many as the quality of service says.
        """
        quality = topics.quality(use)
        quality.depth = quality.depth if depth is None else depth
        quiet = SubscriptionEventCallbacks(use_default_callbacks=False)
        made: Any = self.create_subscription(kind, topic, callback, quality, raw=raw, event_callbacks=quiet)
        self._lifecycle_entities.append((self.destroy_subscription, made))
        self.watch.reads(topic, kind, quality)
        if identified and not self.why_unknown:
            made.take_identified = IdentifiedTake(made)
        return made

    def unsubscribe(self, subscription: Any) -> None:
        """Destroy a subscription before cleanup, and stop watching its topic."""
        self.watch.leave(subscription.topic_name)
        self._lifecycle_entities.remove((self.destroy_subscription, subscription))
        self.destroy_subscription(subscription)

    @property
    def why_unknown(self) -> str:
        """Why messages do not tell their publishers apart here; empty if they do."""
        if self._why_unknown is None:
            self._why_unknown = why_unknown(self)
            if self._why_unknown:
                self.get_logger().warning(f"Publishers cannot be told apart by their messages: {self._why_unknown}.")
        return self._why_unknown

    def server(self, kind: Any, name: str, callback: Callable[[Any, Any], Any]) -> None:
        """Create a service that lasts until cleanup."""
        made = self.create_service(kind, name, callback)
        self._lifecycle_entities.append((self.destroy_service, made))

    def client(self, kind: Any, name: str) -> Any:
        """Create a client of a service that lasts until cleanup; call it with ``call_async``."""
        made = self.create_client(kind, name)
        self._lifecycle_entities.append((self.destroy_client, made))
        return made

    def every(self, period_s: float, callback: Callable[[], None]) -> Any:
        """Call ``callback`` periodically, in real time, while the node is active; use it in :meth:`activate`."""
        timer = self.create_timer(period_s, callback, clock=self.steady)
        self._activity_timers.append(timer)
        return timer

    def warn(self, sentence: str, key: str = "") -> None:
        """Log a warning, at most once every 5 s per ``key``."""
        now = time.monotonic()
        if now - self._warned_at.get(key or sentence, -1e9) >= 5.0:
            self._warned_at[key or sentence] = now
            self.get_logger().warning(sentence)

    def refuse(self, where: str, why: str) -> None:
        """Count a message that could not be read, and warn of it.

        Args:
            where: Its topic, or the service.
            why: What is wrong with it.
        """
        self._malformed[where] += 1
        self.warn(f"A message on {where} was refused: {why}.", f"malformed {where}")

    # Lifecycle -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Configure and activate, if ``autostart`` is set; raise any error."""
        if not self.parameters["autostart"]:
            return
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                raise self.failure or RuntimeError(f"The node '{self.get_name()}' did not start.")

    def stop(self) -> None:
        """Deactivate and clean up from any state; a second call does nothing."""
        if self.active:
            self.on_deactivate(None)
        self._release()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lifecycle: configure."""
        return self._attempt(self.configure, self._release)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lifecycle: activate."""
        result = self._attempt(self.activate, self._undo_activation)
        self.active = result == TransitionCallbackReturn.SUCCESS
        return result

    def on_deactivate(self, state: LifecycleState | None) -> TransitionCallbackReturn:
        """Lifecycle: deactivate; after a failure, which :meth:`fail` has noted, with an error."""
        self.active = False
        self._stop_timers()
        done = self._attempt(self.deactivate) == TransitionCallbackReturn.SUCCESS
        return TransitionCallbackReturn.SUCCESS if done and not self._failed else TransitionCallbackReturn.ERROR

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lifecycle: clean up."""
        done = self._attempt(self._release) == TransitionCallbackReturn.SUCCESS
        return TransitionCallbackReturn.SUCCESS if done else TransitionCallbackReturn.ERROR

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lifecycle: shut down."""
        done = self._attempt(self.stop) == TransitionCallbackReturn.SUCCESS
        return TransitionCallbackReturn.SUCCESS if done else TransitionCallbackReturn.ERROR

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Lifecycle: after an error, release everything: the node can then be configured again.

        What cannot be released, such as a driver that does not close, finalizes the node.
        """
        self.active, self._failed = False, False
        sentence = first_line(self.failure) if self.failure is not None else "a transition failed"
        if self._attempt(self._release) == TransitionCallbackReturn.SUCCESS:
            self.get_logger().error(f"{sentence}: everything is stopped and released, the node is unconfigured.")
            return TransitionCallbackReturn.SUCCESS
        self.get_logger().fatal(f"{sentence}: not everything could be released, the node is finalized.")
        return TransitionCallbackReturn.FAILURE

    def fail(self, error: Exception) -> bool:
        """Process an error of a callback: stop safely, as when deactivated, and release everything.

        Returns:
            Whether the node can go on: a lifecycle manager (``autostart`` is false) may configure it again. Otherwise
            its process is to end, so that whoever supervises it notices.
        """
        self.failure, self._failed = error, True
        if self.active:
            self.trigger_deactivate()
        return not self.parameters["autostart"]

    def _attempt(self, action: Callable[[], None], undo: Callable[[], None] | None = None) -> TransitionCallbackReturn:
        try:
            action()
        except Exception as error:
            self.failure = error
            if not self.parameters["autostart"]:
                self.get_logger().error(str(error))
            if undo is not None:
                undo()
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def _undo_activation(self) -> None:
        self._stop_timers()
        with contextlib.suppress(Exception):  # what was not activated need not be able to stop
            self.deactivate()

    def _stop_timers(self) -> None:
        for timer in self._activity_timers:
            self.destroy_timer(timer)
        self._activity_timers.clear()

    def _release(self) -> None:
        self._stop_timers()
        try:
            self.cleanup()
        finally:
            for destroy, entity in self._lifecycle_entities:
                destroy(entity)
            self._lifecycle_entities.clear()
        self.watch.forget()

    def _say(self, problem: Problem) -> None:
        if problem.is_error:  # rclpy's logger raises if one line of code logs with two severities
            self.get_logger().error(problem.sentence)
        else:
            self.get_logger().warning(problem.sentence)

    def _publish_diagnostics(self) -> None:
        self.watch.check()
        warning, figures = self.status() if self.active else ("not active", {})
        problems = self.watch.problems
        warning = " ".join(filter(None, [warning, *(problem.sentence for problem in problems)]))
        bad = any(problem.is_error for problem in problems)
        figures = {**figures, **{f"malformed on {topic}": count for topic, count in self._malformed.items()}}
        message = diagnostics_of(self, warning, figures, is_error=bad)
        self._diagnostics.publish(message)


def run_nodes(make: Callable[[], ManagedNode | Sequence[ManagedNode]], arguments: Sequence[str] | None = None) -> int:
    """Run nodes in this process until SIGINT or SIGTERM, and return the exit status.

    A ``UserError`` from any of them is printed as one sentence; the status is then 2. A stop by signal has status 0,
    even if the signal comes twice. The first signal lets the nodes bring their robots to rest; another one, from
    :data:`rlstack.processes.AGAIN_S` on, and SIGQUIT end them at once.

    Args:
        make: Creates the nodes, once ROS is initialised.
        arguments: The command line without the program; None takes ``sys.argv``.
    """
    received = Received()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, received.take)
    die_with_starter()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(make, type) and {"-h", "--help"} & set(takewhile(lambda word: word != "--ros-args", given)):
        print(help_text(make), end="")
        return 0
    try:
        require_ros()
        prepare_environment()
        remove_left_behind()
        return _run(make, arguments, received)
    except (UserError, Diverged) as error:
        if not getattr(error, "is_logged", False):
            print(error, file=sys.stderr, flush=True)
        return USER_ERROR_STATUS


def _run(
    make: Callable[[], ManagedNode | Sequence[ManagedNode]], arguments: Sequence[str] | None, received: Received
) -> int:
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    from rlstack.nodes.executor import ControlExecutor

    given = sys.argv if arguments is None else [sys.argv[0], *arguments]
    try:
        # Python's own handlers, above, keep the context alive for an orderly end; the executor wakes often enough.
        rclpy.init(args=given, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:  # rclpy raises several private types for invalid user input
        raise UserError(f"ROS did not accept the command line: {first_line(error)}") from error
    nodes: list[ManagedNode] = []
    executor = ControlExecutor()
    try:
        unknown = rclpy.utilities.remove_ros_args(given)[1:]
        if unknown:
            raise UserError(f"Unknown argument '{unknown[0]}': parameters are given as --ros-args -p name:=value.")
        made = made_securely(make)
        nodes = list(made) if isinstance(made, Sequence) else [made]
        for node in nodes:
            executor.add_node(node)
            node.start()
        use_nodes_priority(nodes)
        # Objects that exist now live as long as the process: freezing them keeps collections short on the control path.
        gc.collect()
        gc.freeze()
        spin(executor, nodes, lambda: bool(received))
        for node in nodes:
            node.begin_end(received.name)
        spin(executor, nodes, lambda: received.at_once or all([node.may_end() for node in nodes]))
        return 0
    except Exception as error:
        for node in nodes[:1]:
            quietly(partial(log_fatal, node, error))
        raise
    finally:
        for node in nodes:
            quietly(node.stop)
        quietly(executor.shutdown)
        quietly(lambda: shut_down(*nodes))
        quietly(rclpy.try_shutdown)

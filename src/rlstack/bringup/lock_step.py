"""Run a robot node in this process, in lock step with the nodes of a deployment in processes of their own."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from rlstack.bringup.process import System
from rlstack.bringup.supervisor import Supervisor
from rlstack.errors import UserError
from rlstack.interfaces.backend import Reading, Signals
from rlstack.nodes.shutdown import shut_down

StepHook = Callable[[Reading, Signals], None]

START_S = 60.0
"""How long the nodes may take from their start to the first command that the guard lets through: a node takes 2 s of a
processor to start, which a busy machine may not have. A node that ends is noticed at once."""

STUCK_S = 20.0
"""How long a command may take to come in the middle of a trial."""

_LOOK_S = 0.05


class Recorder(Protocol):
    """Keeps the record, and says how far it is."""

    steps: int
    """Commands answered so far, in all: shows that time goes on."""

    @property
    def done(self) -> bool:
        """Whether every episode is over."""

    @property
    def running(self) -> bool:
        """Whether the first episode has begun."""

    def on_step(self, reading: Reading, sent: Signals) -> None:
        """Take in one control period."""

    def begin(self, node: Any) -> None:
        """Take the robot node, before it starts."""


@dataclass
class Watch:
    """The executor's question whether to go on; raises when that has become pointless."""

    recorder: Recorder
    supervisor: Supervisor
    lines: deque[str]
    interrupted: list[int]

    def __post_init__(self) -> None:
        self._looked = self._moved = time.monotonic()
        self._steps = 0

    def __call__(self) -> bool:
        """Return whether to go on."""
        if self.interrupted:
            raise KeyboardInterrupt
        if self.recorder.done:
            return False
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return True
        self._looked = now
        self.supervisor.poll()
        alive = self.supervisor.alive()
        for process in self.supervisor.system.processes:
            if process.name not in alive:
                raise UserError(f"The {process.name} node ended during the trials{self._said()}")
        running, steps = self.recorder.running, self.recorder.steps
        if steps != self._steps and running:
            self._moved = now
        self._steps = steps
        allowed = STUCK_S if running else START_S
        if now - self._moved > allowed:
            what = "command came" if running else "command of the policy was let through by the guard"
            raise UserError(f"No {what} within {allowed:g} s over topics{self._said()}")
        return True

    def _said(self) -> str:
        last = " | ".join(line for line in self.lines if line.strip())
        return f"; it last said: {last}" if last else "."


@contextmanager
def asked_to_end() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list, for an exception in the middle of ROS's own code would leave a mess.

    An event would not do: the lock of one, taken by one signal's handler, would stop the next one's for ever.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {n: signal.signal(n, lambda number, frame: asked.append(number)) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def host(on_step: StepHook, backend: Any, namespace: str, stack: ExitStack) -> tuple[Any, Any]:
    """Make the robot node and its executor in a ROS context of their own."""
    import rclpy
    from rclpy.context import Context
    from rclpy.signals import SignalHandlerOptions

    from rlstack.nodes.executor import ControlExecutor
    from rlstack.nodes.robot import RobotNode

    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    stack.callback(context.try_shutdown)
    node = RobotNode(
        backend,
        on_step,
        overrides={"lock_step": True, "lock_step_timeout_s": 600.0},
        namespace=namespace,
        context=context,
        cli_args=["--ros-args", "-r", "/clock:=clock"],  # the clock of this is nobody else's
    )
    stack.callback(shut_down, node)
    stack.callback(node.stop)
    executor = ControlExecutor(context=context)
    stack.callback(executor.shutdown)
    executor.add_node(node)
    return node, executor


def conduct(system: System, backend: Any, recorder: Recorder, namespace: str) -> float:
    """Run a system around a robot node in this process until all is recorded; return the wall time that it took, s.

    Args:
        system: The other nodes.
        backend: The robot, not yet connected.
        recorder: Of what it does.
        namespace: Of all nodes.

    Raises:
        UserError: A node ended, or a command did not come.
    """
    lines: deque[str] = deque(maxlen=5)
    started = time.monotonic()
    with ExitStack() as stack:
        interrupted = stack.enter_context(asked_to_end())
        backend.connect()
        stack.callback(backend.close)
        node, executor = host(recorder.on_step, backend, namespace, stack)
        supervisor = Supervisor(system, log=lines.append)
        stack.callback(supervisor.close)
        supervisor.start()
        watch = Watch(recorder, supervisor, lines, interrupted)
        recorder.begin(node)
        node.start()
        executor.spin_while(watch)
    return time.monotonic() - started

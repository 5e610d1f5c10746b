"""Real nodes in real processes, and a listener for what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import rclpy
from rclpy.qos import QoSProfile

from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.nodes.executor import ControlExecutor
from rlstack.nodes.runtime import prepare_environment
from rlstack.nodes.shutdown import shut_down

PATIENCE_S = 90.0
"""Longest wait for something that takes a second on a quiet machine."""


class NodeProcess:
    """One node as ``python -m rlstack.nodes.<kind>``, or another ``module``; what it prints goes to a file."""

    def __init__(self, kind: str, *remaps: str, module: str = "", **parameters: Any) -> None:
        self.kind = kind
        arguments = [word for remap in remaps for word in ("-r", remap)]
        for name, value in parameters.items():
            arguments += ["-p", f"{name}:={str(value).lower() if isinstance(value, bool) else value}"]
        self._output = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (lives as long as this)
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", module or f"rlstack.nodes.{kind}", "--ros-args", *arguments],
            stdout=self._output,
            stderr=self._output,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )

    @property
    def output(self) -> str:
        """What it has printed."""
        self._output.seek(0)
        return self._output.read()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Return its exit status."""
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"The {self.kind} node did not end within {timeout_s} s: {self.output}") from None

    def say_where(self) -> None:
        """End it if it still runs, with a line for every function that its threads are in among its output."""
        if self.process.poll() is None:
            self.signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5.0)

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self._output.close()


@contextmanager
def nodes(*processes: NodeProcess) -> Iterator[dict[str, NodeProcess]]:
    """Hold processes for the length of a test."""
    try:
        yield {process.kind: process for process in processes}
    except BaseException:
        for process in processes:
            status = process.process.poll()
            process.say_where()
            print(f"--- {process.kind}, status {status}:\n{process.output}")
        raise
    finally:
        for process in processes:
            process.close()


class Listener:
    """Hears and says things on topics; messages are kept in order."""

    def __init__(self) -> None:
        prepare_environment()
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("listener", context=self.context, enable_rosout=False)
        self.executor = ControlExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.heard: dict[str, list[Any]] = {}

    def hear(
        self, topic: str, use: topics.Quality = "sensor_in_reliable", depth: int = 0, robot: str = ""
    ) -> list[Any]:
        """Subscribe, to the topic of a ``robot`` if it has a namespace, and return the list that fills."""
        quality: QoSProfile = topics.quality(use)
        quality.depth = depth or quality.depth
        name = f"{robot}/{topic}" if robot else topic
        kept = self.heard.setdefault(name, [])
        self.node.create_subscription(topics.type_of(topic), name, kept.append, quality)
        return kept

    def spin(self, seconds: float) -> None:
        """Listen for a time."""
        end = time.monotonic() + seconds
        self.executor.spin_while(lambda: time.monotonic() < end)

    def until(self, condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Listen until a condition holds; fail the test if it never does."""
        assert self.executor.spin_until(condition, timeout_s), f"{what} did not happen within {timeout_s} s"

    def call(self, kind: Any, name: str, request: Any) -> Any:
        """Call a service and return its response."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"the service {name}")
        future = client.call_async(request)
        self.until(future.done, f"an answer from {name}")
        self.node.destroy_client(client)
        return future.result()

    def close(self) -> None:
        """Leave ROS."""
        self.executor.shutdown()
        shut_down(self.node)


def trajectory(odometry: list[Any]) -> dict[int, tuple[float, ...]]:
    """Return stamps in ns and everything that was measured."""
    found = {}
    for message in odometry:
        p, q = message.pose.pose.position, message.pose.pose.orientation
        v, w = message.twist.twist.linear, message.twist.twist.angular
        values = (p.x, p.y, p.z, q.x, q.y, q.z, q.w, v.x, v.y, v.z, w.x, w.y, w.z)
        found[stamp_to_ns(message.header.stamp)] = values
    return found


def heights(odometry: list[Any]) -> list[float]:
    """Return the heights, m."""
    return [message.pose.pose.position.z for message in odometry]

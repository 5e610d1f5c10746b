"""What a node knows of ``/tf``: it listens from the first question on, since most robots need no transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.tf_messages import read_tf
from rlstack.interfaces.tf_type import tf_type
from rlstack.interfaces.transform_buffer import NoTransform, Placed, TransformBuffer
from rlstack.nodes.parameters import Parameter

TRANSFORM_TIMEOUT = Parameter(
    "transform_timeout_s",
    2.0,
    "Age from which a transform between moving frames is too old, and how long a message waits for one, s.",
    minimum=0.05,
    maximum=60.0,
)
_OTHER_CLOCK_S = 60.0


class TransformListener:
    """Subscribes to ``/tf`` and ``/tf_static`` at the first :meth:`lookup`.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`), with the parameter ``transform_timeout_s``.
        now_ns: The time on the clock of the robot's stamps, ns; None: not known yet.
    """

    def __init__(self, node: Any, now_ns: Callable[[], int | None]) -> None:
        self._node, self._now_ns = node, now_ns
        self._listens = False
        self.buffer = TransformBuffer()
        self.on_change: list[Callable[[], None]] = []
        """Called after each message."""

    @property
    def timeout_s(self) -> float:
        """The node's ``transform_timeout_s``."""
        return float(self._node.parameters["transform_timeout_s"])

    def start(self) -> None:
        """Subscribe, once.

        Raises:
            UserError: This ROS has no type for ``/tf``.
        """
        if self._listens:
            return
        kind = tf_type()
        self._node.subscriber(kind, topics.TF_STATIC, lambda data: self._hear(data, True), "tf_static", raw=True)
        self._node.subscriber(kind, topics.TF, lambda data: self._hear(data, False), "tf", raw=True)
        self._listens = True

    def lookup(self, target: str, source: str, stamp_ns: int | None = None) -> Placed:
        """Return the pose of ``source`` in ``target`` at a time; None: the newest, which must not be old.

        Raises:
            NoTransform: There is none, or it is older than ``transform_timeout_s``.
            UserError: This ROS has no type for ``/tf``.
        """
        self.start()
        found = self.buffer.lookup(target, source, stamp_ns)
        now = self._now_ns()
        if stamp_ns is None and found.stamp_ns is not None and now is not None:
            old_s = (now - found.stamp_ns) / NANOSECONDS
            if old_s > self.timeout_s:
                raise NoTransform(f"the transform from {target} to {source} is {old_s:.1f} s old", later=True)
            if old_s < -_OTHER_CLOCK_S:
                raise NoTransform(
                    f"the transform from {target} to {source} is stamped {-old_s:.0f} s ahead of the robot's clock: is"
                    " use_sim_time right in the node that publishes it?",
                    later=True,
                )
        return found

    def _hear(self, data: bytes, static: bool) -> None:
        self.buffer.add(read_tf(data), static=static)
        for call in self.on_change:
            call()

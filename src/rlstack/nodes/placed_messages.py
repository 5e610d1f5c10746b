"""Sensor messages in another frame than expected: where it is, and those that wait for its transform."""

from __future__ import annotations

import time
from collections.abc import Callable

from rlstack.interfaces.transform_buffer import NoTransform, Placed
from rlstack.nodes.frames import Frames
from rlstack.nodes.transform_listener import TransformListener


class PlacedMessages:
    """Looks up the frames of messages, and keeps each topic's newest until its transform comes.

    Args:
        listener: What is known of ``/tf``.
        frames: The robot's.
    """

    def __init__(self, listener: TransformListener, frames: Frames) -> None:
        self._listener, self._frames = listener, frames
        self._waiting: dict[str, tuple[float, bytes]] = {}
        self.receivers: dict[str, Callable[[bytes], None]] = {}
        """Receives a topic's message, also again when transforms came."""
        listener.on_change.append(self._again)

    def place(self, frame: str, stamp_ns: int) -> Placed | None:
        """Return the pose of a message's frame at its stamp; None: it is that of the robot's positions."""
        if self._frames.is_world(frame):
            return None
        try:
            return self._listener.lookup(self._frames.world, frame, stamp_ns)
        except NoTransform as error:
            sentence = f"it is in the frame '{frame}', and {error}: publish the transform, or give it in"
            raise NoTransform(f"{sentence} {self._frames.world}", later=error.later) from error

    def on_robot(self, frame: str, stamp_ns: int) -> Placed:
        """Return the pose of a sensor's frame in ``base_link`` at a message's stamp."""
        return self._listener.lookup(self._frames.base, frame.lstrip("/"), stamp_ns)

    def waits(self, topic: str, data: bytes, error: ValueError) -> bool:
        """Return whether a message that could not be read is kept, since its transform may still come."""
        if not isinstance(error, NoTransform) or not error.later:
            return False
        since, _ = self._waiting.get(topic, (time.monotonic(), b""))
        waits = time.monotonic() - since < self._listener.timeout_s
        self._waiting[topic] = since, data if waits else b""
        return waits

    def came(self, topic: str) -> None:
        """Forget what waits on a topic: a message could be read."""
        self._waiting.pop(topic, None)

    def _again(self) -> None:
        for topic, (_, data) in list(self._waiting.items()):
            if data:
                self.receivers[topic](data)

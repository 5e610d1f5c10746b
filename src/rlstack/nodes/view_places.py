"""Where robots without odometry stand, for the browser view: by ``/tf``, to which it listens until it knows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.tf_messages import read_tf
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.polled_topics import PolledTopics
from rlstack.nodes.viewed_robot import ViewedRobot

_TRIED_S = 5.0
"""How long ``/tf`` is listened to: who publishes a base's place does so many times a second, or as a latched one."""


class Places:
    """Moves robots on fixed bases to their places in ``odom``; where nobody tells, that is the origin.

    Args:
        polled: The view's subscriptions.
    """

    def __init__(self, polled: PolledTopics) -> None:
        self._polled = polled
        self._wanted: dict[str, ViewedRobot] = {}
        self._subscriptions: list[Any] = []
        self._until = 0.0

    def look(self, robots: Iterable[ViewedRobot]) -> None:
        """Listen as long as a robot's place is asked for; call it twice a second."""
        self._wanted = {robot.root: robot for robot in robots if robot.unplaced and robot.root}
        new = any(not robot.place_asked for robot in self._wanted.values())
        for robot in self._wanted.values():
            robot.place_asked = True
        if new:
            self._until = time.monotonic() + _TRIED_S
            if not self._subscriptions:
                self._listen()
        elif self._subscriptions and (not self._wanted or time.monotonic() > self._until):
            for subscription in self._subscriptions:
                self._polled.unsubscribe(subscription)
            self._subscriptions = []

    def _listen(self) -> None:
        try:
            kind = tf_type()
        except UserError:  # this ROS has no type for it: nobody publishes it either
            return
        for topic, use in ((topics.TF, "tf"), (topics.TF_STATIC, "tf_static")):
            self._subscriptions.append(self._polled.subscribe(kind, topic, self._hear, use, raw=True))  # type: ignore[arg-type]

    def _hear(self, data: bytes) -> None:
        for transform in read_tf(data):
            robot = self._wanted.get(transform.child)
            if robot is not None and topics.in_world(transform.parent):
                robot.put(np.array(transform.pose[:3]), np.array(transform.pose[3:]))

"""What nodes beside a simulator know of its pace, so that they wait while it is paused, and do not act on silence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from rlstack.interfaces import topics


def follow_pace(node: Any, tell: Callable[[float, int], None]) -> None:
    """Have a node told of each change of its simulator's pace; without ``use_sim_time``, as on a real robot, of none.

    Args:
        node: The node (:class:`rlstack.nodes.runtime.ManagedNode`), while it is configured.
        tell: Called with simulated seconds per second, 0 while it is paused, and the monotonic time, ns.
    """
    if not node.get_parameter("use_sim_time").value:
        return

    def hear(message: Any) -> None:
        if math.isfinite(message.data) and message.data >= 0.0:
            tell(message.data, time.monotonic_ns())

    node.subscriber(topics.type_of(topics.REAL_TIME_FACTOR), topics.REAL_TIME_FACTOR, hear, "latched")

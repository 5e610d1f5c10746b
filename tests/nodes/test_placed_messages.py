from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces.tf_messages import Transform
from rlstack.interfaces.transform_buffer import NoTransform, TransformBuffer
from rlstack.nodes.frames import Frames
from rlstack.nodes.placed_messages import PlacedMessages


def test_a_message_waits_for_its_transform_and_comes_again_but_not_for_ever() -> None:
    buffer = TransformBuffer()
    listener: Any = SimpleNamespace(timeout_s=60.0, on_change=[], lookup=buffer.lookup)
    placed, again = PlacedMessages(listener, Frames()), list[bytes]()
    placed.receivers["object"] = again.append
    assert placed.place("odom", 5) is None
    with pytest.raises(NoTransform) as missing:
        placed.place("camera", 5)
    assert placed.waits("object", b"1", missing.value) and not placed.waits("object", b"1", ValueError())
    buffer.add([Transform("odom", "camera", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))], static=True)
    listener.on_change[0]()
    assert again == [b"1"]
    found = placed.place("camera", 5)
    assert found is not None and np.array_equal(found.position, [1.0, 0.0, 0.0])
    listener.timeout_s = 0.0
    assert not placed.waits("object", b"2", missing.value)
    placed.came("object")
    listener.on_change[0]()
    assert again == [b"1"]

"""What a robot among landmarks remembers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlstack.interfaces.instruction import encoded
from rlstack.robots import frames
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.landmarks.observations import TurnedSinceSentence


def test_the_heading_counts_from_where_a_sentence_came() -> None:
    pipeline = Pipeline([TurnedSinceSentence()], "twist", [-1.0], [1.0])
    memory = pipeline.initial_memory(1)

    def seen(yaw: float, sentence: str) -> list[float]:
        nonlocal memory
        said = encoded(sentence) if sentence else np.zeros(128)
        inputs = {"orientation": frames.from_yaw(np.array([yaw])), "instruction": said[None]}
        prepared = pipeline.prepare({n: torch.from_numpy(v.astype(np.float32)) for n, v in inputs.items()}, memory)
        columns = pipeline.observe(prepared, memory)
        memory = pipeline.remember(prepared, memory, torch.zeros(1, 1))
        return [pytest.approx(value, abs=1e-6) for value in columns[0].tolist()]  # type: ignore[misc]

    assert [np.cos(0.0), np.sin(0.0)] == seen(2.0, "")  # no sentence yet: it begins with the robot
    assert [np.cos(0.5), np.sin(0.5)] == seen(2.5, "")
    assert seen(2.5, "go to the left door") == [1.0, 0.0]
    assert [np.cos(1.5), np.sin(1.5)] == seen(4.0, "go to the left door")
    assert [np.cos(2.5), -np.sin(2.5)] == seen(0.0, "go to the left door")
    assert seen(0.0, "go to the right door") == [1.0, 0.0]

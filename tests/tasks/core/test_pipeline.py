"""The pipeline: its names and columns, its rotations against numpy's, and that a turned world changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.tasks.catalog.quadrotor_tracking import TrackingTask
from rlstack.tasks.core.observations import ActionHistory, UpDirection
from rlstack.tasks.core.pipeline import Pipeline, rotation_matrix, to_body, to_world
from rlstack.tasks.quadrotor.observations import velocities
from tests.support.learning import small_task

ROBOT = load_quadrotor("crazyflie")


def made() -> Pipeline:
    return small_task().pipeline(ROBOT)


def numbers(*shape: int, limit: float = 3.0) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=st.floats(-limit, limit, width=32))


def quaternions(count: int) -> st.SearchStrategy[np.ndarray]:
    parts = numbers(count, 4, limit=1.0).filter(lambda q: (np.linalg.norm(q, axis=1) > 0.1).all())
    return parts.map(frames.normalise)


def tensors(arrays_: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays_.items()}


@settings(deadline=None)
@given(quaternions(3), numbers(3, 3))
def test_rotations_are_those_of_the_frames_module(q: np.ndarray, v: np.ndarray) -> None:
    rotation = rotation_matrix(torch.tensor(q))
    np.testing.assert_allclose(rotation.numpy(), frames.to_matrix(q), atol=1e-14)
    np.testing.assert_allclose(to_world(rotation, torch.tensor(v)).numpy(), frames.rotate(q, v), atol=1e-13)
    np.testing.assert_allclose(to_body(rotation, torch.tensor(v)).numpy(), frames.rotate_inverse(q, v), atol=1e-13)


BODY = {
    "position": numbers(2, 3),
    "orientation": quaternions(2),
    "linear_velocity": numbers(2, 3),
    "angular_velocity": numbers(2, 3),
}
INPUTS = {
    "hover": st.fixed_dictionaries(
        {**BODY, "goal_position": numbers(2, 3), "goal_orientation": numbers(2).map(frames.from_yaw)}
    ),
    "tracking": st.fixed_dictionaries(
        {
            **BODY,
            "path_time": arrays(np.float64, (2, 5), elements=st.floats(0.015625, 0.5, width=32)).map(
                lambda gaps: np.cumsum(gaps, axis=1) - 0.3
            ),
            "path_position": numbers(2, 5, 3),
            "path_orientation": numbers(2, 5, limit=1.0).map(frames.from_yaw),
        }
    ),
}
PLACES, ATTITUDES = (
    ("position", "goal_position", "path_position"),
    ("orientation", "goal_orientation", "path_orientation"),
)


@pytest.mark.parametrize("kind", list(INPUTS))
@settings(deadline=None, max_examples=40)
@given(st.data(), st.integers(1, 3), st.floats(-np.pi, np.pi), numbers(3, limit=5.0))
def test_the_observation_does_not_see_a_turn_or_a_shift_of_the_world(
    kind: str, data: st.DataObject, length: int, yaw: float, offset: np.ndarray
) -> None:
    """Over a sequence, because some terms remember; memory in the world frame may turn along, the columns may not."""
    pipeline = made() if kind == "hover" else TrackingTask().pipeline(ROBOT)
    turn = frames.from_yaw(yaw)
    memories = [pipeline.initial_memory(2), pipeline.initial_memory(2)]
    for _ in range(length):
        inputs, action = data.draw(INPUTS[kind]), data.draw(numbers(2, 4, limit=1.0))
        moved = {
            **inputs,
            **{name: frames.rotate(turn, inputs[name]) + offset for name in PLACES if name in inputs},
            **{name: frames.multiply(turn, inputs[name]) for name in ATTITUDES if name in inputs},
        }
        seen = []
        for k, world in enumerate((inputs, moved)):
            prepared = pipeline.prepare(tensors(world), memories[k])
            seen.append(pipeline.observe(prepared, memories[k]).numpy())
            memories[k] = pipeline.remember(prepared, memories[k], torch.tensor(action, dtype=torch.float32))
        # the velocity's rounding of 1e-6 m/s is divided by the period in an observer of acceleration
        np.testing.assert_allclose(seen[0], seen[1], atol=3e-4)


def test_the_table_names_every_column_once() -> None:
    pipeline = made()
    table = pipeline.table()
    assert len({term.name for term in table}) == len(table)
    assert [term.start for term in table] == list(np.cumsum([0, *(term.size for term in table)])[:-1])
    assert all(term.size > 0 and term.unit and term.meaning for term in table)
    assert pipeline.size == table[-1].start + table[-1].size
    inputs = {port: torch.zeros(5, 3) for port in small_task().inputs}
    inputs["orientation"] = inputs["goal_orientation"] = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).repeat(5, 1)
    memory = pipeline.initial_memory(5)
    assert pipeline.observe(pipeline.prepare(inputs, memory), memory).shape == (5, pipeline.size)


def test_two_terms_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unique names, got \['up', 'up'\]"):
        Pipeline([UpDirection(), UpDirection()], "rotor_speed", [0.0], [1.0])


def test_columns_lie_in_the_order_of_the_terms() -> None:
    pipeline = Pipeline(velocities()[::-1], "rotor_speed", [0.0], [1.0])
    inputs = {"linear_velocity": torch.full((1, 3), 2.0), "angular_velocity": torch.full((1, 3), 7.0)}
    assert pipeline.observe(inputs, {}).tolist() == [[7.0, 7.0, 7.0, 2.0, 2.0, 2.0]]


def test_actions_are_clipped_and_span_the_commands_range() -> None:
    pipeline = Pipeline([UpDirection()], "rotor_speed", [10.0, -4.0], [30.0, 4.0])
    action = pipeline.clip(torch.tensor([[-3.0, -1.0], [0.0, 0.5], [1.0, 9.0]]))
    assert pipeline.command(action, {}).tolist() == [[10.0, -4.0], [20.0, 2.0], [30.0, 4.0]]
    assert pipeline.action_size == 2


def test_memory_starts_at_zero_and_keeps_its_names_and_shapes() -> None:
    pipeline = made()
    memory = pipeline.initial_memory(3)
    assert memory and all((array == 0.0).all() for array in memory.values())
    inputs = {port: torch.ones(3, 3) for port in small_task().inputs}
    inputs["orientation"] = inputs["goal_orientation"] = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).repeat(3, 1)
    after = pipeline.remember(pipeline.prepare(inputs, memory), memory, torch.ones(3, 4))
    assert {n: a.shape for n, a in after.items()} == {n: a.shape for n, a in memory.items()}
    assert all((array == 0.0).all() for array in memory.values())  # what was given is left as it was


def test_robots_in_a_batch_do_not_see_each_other() -> None:
    pipeline = Pipeline([velocities()[0], ActionHistory(4, 2)], "rotor_speed", [0.0] * 4, [1.0] * 4)
    memory = {"action_history": torch.arange(24.0).reshape(3, 8)}
    inputs = {"linear_velocity": torch.arange(9.0).reshape(3, 3)}
    whole = pipeline.observe(inputs, memory)
    for i in range(3):
        alone = pipeline.observe(
            {n: a[i : i + 1] for n, a in inputs.items()}, {n: a[i : i + 1] for n, a in memory.items()}
        )
        torch.testing.assert_close(alone[0], whole[i])

"""Terms of arms that others are built on."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.tasks.manipulator.observations import CloseUp, GoalOffset, ObjectVelocity, SinceSentence


@settings(deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3), st.floats(0.01, 1.0))
def test_a_close_up_is_the_term_and_the_same_within_its_bounds(goal: list[float], near: float) -> None:
    term = CloseUp(GoalOffset("tool_position"), near)
    inputs = {"goal_position": torch.tensor([goal]), "tool_position": torch.zeros(1, 3)}
    seen = term.observe(inputs, {})
    assert seen.shape == (1, term.size) and term.name == "goal_offset"
    wanted = [10.0 * x for x in goal]
    torch.testing.assert_close(seen[0, :3], torch.tensor(wanted))
    torch.testing.assert_close(seen[0, 3:], torch.tensor([math.tanh(x / near) for x in wanted]), atol=1e-5, rtol=1e-4)


def test_a_close_up_keeps_its_terms_memory() -> None:
    term = CloseUp(ObjectVelocity(20.0), 0.05)
    inputs = {"object_position": torch.ones(1, 3), "started": torch.ones(1, 1)}
    memory = {"object_before": torch.zeros(1, 3)}
    assert term.memory == {"object_before": (3,)}
    assert torch.equal(term.remember(inputs, memory, torch.zeros(1, 1))["object_before"], torch.ones(1, 3))
    assert torch.equal(term.observe(inputs, memory)[0, :3], torch.full((3,), 20.0))


def test_the_way_since_a_sentence_begins_with_the_first_descent_and_ends_with_the_sentence() -> None:
    term, memory = SinceSentence(0.06), {"first_down": torch.zeros(1, 3), "sentence": torch.zeros(1, 128)}

    def seen(place: list[float], sentence: float) -> list[float]:
        nonlocal memory
        inputs = {"tool_position": torch.tensor([place]), "instruction": torch.full((1, 128), sentence)}
        inputs |= term.prepare(inputs, memory)
        observed = term.observe(inputs, memory)[0]
        memory = term.remember(inputs, memory, torch.zeros(1, 1))
        return [round(value, 5) for value in observed.tolist()]

    assert seen([0.5, 0.1, 0.2], 97.0) == [0.0, 0.0, 0.0]
    assert seen([0.5, 0.1, 0.03], 97.0) == [0.0, 0.0, 1.0]
    assert seen([0.6, 0.1, 0.03], 97.0) == [1.0, 0.0, 1.0]
    assert seen([0.6, 0.2, 0.15], 97.0) == [1.0, 1.0, 1.0]
    assert seen([0.4, 0.1, 0.03], 97.0) == [-1.0, 0.0, 1.0], "not the second descent"
    assert seen([0.4, 0.1, 0.03], 98.0) == [0.0, 0.0, 1.0], "another sentence"
    assert seen([0.4, 0.2, 0.2], 99.0) == [0.0, 0.0, 0.0]

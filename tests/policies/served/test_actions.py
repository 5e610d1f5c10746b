"""Actions as a policy server sends them, and what else could be in their place."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.policies.served.actions import NoActions, read_actions
from tests.support.policy_server import dumped

CHUNK = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
SENT = dumped(CHUNK, 7, 1234.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_tensors_are_read_without_torch_s_help(dtype: torch.dtype) -> None:
    found = read_actions(dumped(CHUNK, 7, 1234.5, dtype), 6, 50)
    expected = torch.tensor(CHUNK).to(dtype).numpy().astype(float)
    np.testing.assert_array_equal(np.stack([one.action for one in found]), expected)
    assert [one.timestep for one in found] == list(range(7, 27)) and found[0].timestamp == 1234.5


class Runs:
    """Does something when it is read."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(6))
def test_no_code_of_the_sender_runs(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    evil = [Runs(os.mkdir, str(made)), Runs(eval, f"__import__('os').mkdir({str(made)!r})")]
    for one in evil:
        with pytest.raises(NoActions):
            read_actions(pickle.dumps([one], protocol=protocol), 6, 50)
    inner = torch.storage._load_from_bytes  # what is in a storage is a pickle, too
    with pytest.raises(NoActions, match=r"opcode|names|numbers"):
        read_actions(pickle.dumps([Runs(inner, pickle.dumps(evil[0], protocol=protocol))]), 6, 50)
    assert not made.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (dumped(CHUNK[:, :5], 7, 1.0), r"shape \[5\], and the robot takes \[6\]"),
        (dumped(np.where(CHUNK[3, 2] == CHUNK, np.nan, CHUNK), 7, 1.0), "its action 3 is not finite"),
        (dumped(np.where(CHUNK[3, 2] == CHUNK, np.inf, CHUNK), 7, 1.0), "its action 3 is not finite"),
        (dumped(CHUNK, 7, 1.0, torch.bfloat16), "numbers of the type torch.BFloat16Storage"),
        (dumped(CHUNK, 7, float("nan")), "its action 0 has no time"),
        (dumped(np.tile(CHUNK, (3, 1)), 7, 1.0), "not a list of 1 to 50 actions"),
        (pickle.dumps([]), "not a list of 1 to 50 actions"),
        (pickle.dumps([1.0]), "element 0 is no timed action"),
        (pickle.dumps({"a": 1}), "not a list"),
        (SENT[:-40], "cannot be read"),
        (b"", "cannot be read"),
        (b"\x80\x04r\xff\xff\xff\x7f.", "its memo is not in order"),
    ],
)
def test_what_is_no_list_of_actions_for_the_robot_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(NoActions, match=says):
        read_actions(data, 6, 50)


def test_actions_whose_steps_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(NoActions, match="steps do not follow"):
        read_actions(dumped(CHUNK, 7, 1.0, every=2), 6, 50)


def test_damaged_pickles_are_refused_or_read_as_finite_actions() -> None:
    draw = random.Random(1)
    for _ in range(100):
        damaged = bytearray(SENT)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            found = read_actions(bytes(damaged), 6, 50)
        except NoActions:
            continue
        assert all(one.action.shape == (6,) and np.isfinite(one.action).all() for one in found)

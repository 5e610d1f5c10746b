"""Processes with Meta-World: an environment without it, and a short run where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.foreign.workers import Workers
from rlstack.training.metaworld.suite import METAWORLD, MUJOCO
from rlstack.training.metaworld.worker import SIZE
from rlstack.training.metaworld.workers import PACKAGE

MADE = PACKAGE.folder


@pytest.mark.skipif(sys.prefix == str(MADE), reason="Meta-World is installed here")
def test_an_environment_without_metaworld_is_refused_with_what_to_install() -> None:
    said = rf"cannot be run by .*pip install metaworld=={METAWORLD} mujoco=={MUJOCO} packaging imageio"
    with pytest.raises(UserError, match=said):
        Workers(PACKAGE, Path(sys.executable))


@pytest.mark.skipif(not (MADE / "made").is_file(), reason="Meta-World's environment is not in the user's cache")
def test_an_expert_succeeds_and_its_rows_fit_together() -> None:
    with Workers(PACKAGE, MADE / "bin" / "python") as workers:
        rows = workers.ask(0, "record", "reach", 2, np.zeros((9, 50, 8, 4)), np.ones((9, 50, 8)), 0)
        states, labels, pictures = workers.ask(0, "begin", [("reach", 1)])
        _, _, _, success, steps = workers.ask(0, "act", ["reach"], np.zeros((1, 8, 4), np.float32), 501)
        for _ in range(63):
            _, _, _, _, late = workers.ask(0, "act", ["reach"], np.zeros((1, 8, 4), np.float32), 501)
        with pytest.raises(UserError, match="KeyError"):
            workers.ask(0, "begin", [("fly", 0)])
    assert rows["found"] == 2 and set(rows["episode"]) == {0, 1}
    count = len(rows["episode"])
    assert rows["state"].shape == (count, 4) and rows["action"].shape == (count, 8, 4)
    assert rows["picture"].shape == (count, SIZE, SIZE, 3) and rows["picture"].std() > 10.0
    assert rows["places"].shape == (count, 3, 2) and rows["inside"].all()
    assert (np.abs(rows["places"][:, 2]) < 1.0).all() and (rows["places"][:, 1] == 2.0).all()  # goal; no second object
    assert states.shape == (1, 4) and labels.shape == (1, 9) and pictures.shape == (1, SIZE, SIZE, 3)
    assert not success[0] and steps[0] == 8
    assert late[0] == 501  # beyond Meta-World's own limit

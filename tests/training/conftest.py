"""Two small runs, trained once, whichever of several processes needs them first: one feed-forward, one recurrent."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlstack.tasks.quadrotor import environment
from rlstack.training import run
from tests.support.learning import small_recipe


@dataclass(frozen=True)
class Trained:
    """A finished run and what it told on the way."""

    folder: Path
    result: run.Result
    progress: list[run.Progress]


@pytest.fixture(scope="session", autouse=True)
def _small_pool() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "POOL_SIZE", 512)
        patch.setattr(environment, "PATH_POOL_SIZE", 32)
        yield


def _train(network: str, factory: pytest.TempPathFactory) -> Trained:
    """Train, or take what another process of these tests has trained."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with open(shared / f"{network}.trained", "ab+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        if data := kept.read():
            found: Trained = pickle.loads(data)
            return found
        folder = shared / "trained" / network
        progress: list[run.Progress] = []
        result = run.start(small_recipe(algorithm_settings={"network": network}), folder, progress.append)
        trained = Trained(folder, result, progress)
        pickle.dump(trained, kept)
        return trained


@pytest.fixture(scope="session")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return _train("mlp", tmp_path_factory)


@pytest.fixture(scope="session")
def gru(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return _train("gru", tmp_path_factory)


@pytest.fixture(params=["mlp", "gru"])
def trained(request: pytest.FixtureRequest) -> Trained:
    """Return each of the two in turn."""
    found: Trained = request.getfixturevalue(request.param)
    return found

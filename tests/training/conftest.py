"""Two small runs, trained once: one feed-forward and one recurrent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlstack.tasks import environment
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
    folder = factory.mktemp("runs") / network
    progress: list[run.Progress] = []
    result = run.start(small_recipe(algorithm_settings={"network": network}), folder, progress.append)
    return Trained(folder, result, progress)


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

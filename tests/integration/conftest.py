from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.policies import write_hover_policy
from tests.support.ros import Listener


@pytest.fixture(scope="session")
def hover_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear hover controller for the Crazyflie, as a policy file."""
    return write_hover_policy(tmp_path_factory.mktemp("policies") / "hover.onnx", load_quadrotor("crazyflie"))


@pytest.fixture
def listener(_ros_environment: None) -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstack.interfaces import nav2_messages
from rlstack.interfaces.interface_packages import generate, site_packages
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.checkout import ROOT
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


@pytest.fixture(scope="session")
def with_nav2_msgs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH with which Python finds nav2_msgs, which is compiled if this environment lacks it."""
    places = [str(ROOT)]
    if importlib.util.find_spec("nav2_msgs") is None:
        if shutil.which("c++") is None or not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
            pytest.skip("needs a C++ compiler and Python's headers")
        prefix = tmp_path_factory.mktemp("nav2_msgs")
        generate(nav2_messages.PACKAGE, prefix)
        places.append(str(site_packages(prefix)))
    return os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from rlstack.interfaces import nav2_messages, training_messages
from rlstack.interfaces.interface_packages import Package, generate, site_packages
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.checkout import ROOT
from tests.support.policies import write_hover_policy


@pytest.fixture(scope="session")
def hover_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear hover controller for the Crazyflie, as a policy file."""
    return write_hover_policy(tmp_path_factory.mktemp("policies") / "hover.onnx", load_quadrotor("crazyflie"))


def _with(package: Package, factory: pytest.TempPathFactory) -> str:
    """Return the PYTHONPATH with which Python finds a package, which is compiled if this environment lacks it."""
    places = [str(ROOT)]
    if not package.is_installed():
        if shutil.which("c++") is None or not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
            pytest.skip("needs a C++ compiler and Python's headers")
        prefix = factory.mktemp(package.name)
        generate(package, prefix)
        places.append(str(site_packages(prefix)))
    return os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


@pytest.fixture(scope="session")
def with_nav2_msgs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH with which Python finds nav2_msgs."""
    return _with(nav2_messages.PACKAGE, tmp_path_factory)


@pytest.fixture(scope="session")
def with_rlstack_msgs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH with which Python finds rlstack_msgs."""
    return _with(training_messages.PACKAGE, tmp_path_factory)

"""What has to be exported before Isaac Sim starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.backends.isaac import IsaacBackend
from rlstack.sim.backends.isaac.installation import PROBE, require_environment
from tests.support.isaacsim_standin import Kit

ACCEPTED = {"OMNI_KIT_ACCEPT_EULA": "YES"}


def sentence(environ: dict[str, str], **options: object) -> str:
    with pytest.raises(UserError) as refused:
        require_environment(environ, **options)
    return str(refused.value)


def test_the_licence_must_be_accepted_where_nobody_can_answer():
    assert sentence({}).endswith("export OMNI_KIT_ACCEPT_EULA=YES")
    assert "licence" in sentence({"OMNI_KIT_ACCEPT_EULA": "NO"})
    require_environment({}, interactive=True)


@pytest.mark.parametrize("answer", ["YES", "yes", "Y", "1"])
def test_an_accepted_licence_is_enough_without_the_bridge(answer: str):
    require_environment({"OMNI_KIT_ACCEPT_EULA": answer})


def test_the_bridge_needs_three_variables_which_are_named_at_once(tmp_path: Path):
    said = sentence(ACCEPTED, ros_bridge=True, libraries=tmp_path)
    assert said.endswith(
        f"export ROS_DISTRO=jazzy RMW_IMPLEMENTATION=rmw_fastrtps_cpp"
        f" LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{tmp_path}/jazzy/lib"
    )


def test_the_bridges_own_libraries_are_those_of_the_distribution_that_is_set(tmp_path: Path):
    environ = {**ACCEPTED, "ROS_DISTRO": "humble", "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}
    said = sentence(environ, ros_bridge=True, libraries=tmp_path)
    assert said.endswith(f"export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{tmp_path}/humble/lib")


def test_a_distribution_that_the_bridge_does_not_know_is_replaced(tmp_path: Path):
    assert "ROS_DISTRO=jazzy" in sentence({**ACCEPTED, "ROS_DISTRO": "rolling"}, ros_bridge=True, libraries=tmp_path)


def test_a_complete_environment_is_taken_with_the_bridges_libraries_or_a_sourced_ros(tmp_path: Path):
    (tmp_path / PROBE).touch()
    paths = f"/nowhere:{tmp_path}"
    require_environment(
        {**ACCEPTED, "ROS_DISTRO": "jazzy", "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp", "LD_LIBRARY_PATH": paths},
        ros_bridge=True,
    )


def test_nothing_is_started_without_the_environment(kit: Kit, monkeypatch: pytest.MonkeyPatch):
    backend = IsaacBackend(load_quadrotor("crazyflie"), ros_bridge=True)
    for name in ("ROS_DISTRO", "RMW_IMPLEMENTATION", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=f"{kit.application}|isaacsim.ros2.bridge/jazzy/lib"):
        backend.connect()
    assert kit.application is None
    monkeypatch.delenv("OMNI_KIT_ACCEPT_EULA")
    with pytest.raises(UserError, match="OMNI_KIT_ACCEPT_EULA"):
        IsaacBackend(load_quadrotor("crazyflie"))

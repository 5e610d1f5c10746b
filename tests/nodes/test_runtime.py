from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlstack.nodes import runtime

NAMES = ("ROS_AUTOMATIC_DISCOVERY_RANGE", "FASTRTPS_DEFAULT_PROFILES_FILE", "ROS_LOG_DIR")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_environment_stays_on_this_machine_by_default(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("HOME", str(tmp_path))
    runtime.prepare_environment()
    assert os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert Path(os.environ["FASTRTPS_DEFAULT_PROFILES_FILE"]).name == "fastdds.xml"
    assert "ROS_LOG_DIR" not in os.environ and (tmp_path / ".ros" / "log").is_dir()


def test_what_the_user_has_set_stays(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        bare.setenv(name, str(tmp_path))
    runtime.prepare_environment()
    assert all(os.environ[name] == str(tmp_path) for name in NAMES)


def test_logs_go_elsewhere_where_home_cannot_be_written(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bare.setenv("HOME", str(tmp_path / "file"))  # not even root can make a folder in a file
    runtime.prepare_environment()
    assert os.access(os.environ["ROS_LOG_DIR"], os.W_OK)


def test_the_wheels_mark_goes_without_their_library_path(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "1")
    bare.setenv("LD_LIBRARY_PATH", "/somewhere")
    runtime.prepare_environment()
    assert os.environ["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] == "1"
    bare.delenv("LD_LIBRARY_PATH")
    runtime.prepare_environment()
    assert "_ROS_WHEELS_BOOTSTRAP_COMPLETE" not in os.environ


@pytest.mark.integration
@pytest.mark.parametrize("name", ["robot", "policy", "guard"])
def test_without_ros_a_node_says_what_to_install(name: str, tmp_path: Path) -> None:
    (tmp_path / "rclpy").mkdir()
    (tmp_path / "rclpy" / "__init__.py").write_text("raise ModuleNotFoundError('No module named rclpy')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(
        [sys.executable, "-m", f"rlstack.nodes.{name}"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert ended.stderr == "ROS 2 for Python (rclpy) is not installed: pip install 'rlstack[ros]'.\n"


@pytest.mark.integration
def test_a_node_that_is_still_loading_is_ended_by_ctrl_c_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "rclpy").mkdir()
    (tmp_path / "rclpy" / "__init__.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60.0)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "rlstack.nodes.guard"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as loading:
        assert loading.stdout is not None
        assert loading.stdout.readline() == "loading\n"
        loading.send_signal(signal.SIGINT)
        assert loading.communicate(timeout=10) == ("", None) and loading.returncode == -signal.SIGINT


@pytest.mark.integration
@pytest.mark.parametrize("name", ["robot", "guard", "policy"])
def test_help_says_what_a_node_does_without_ros(name: str, tmp_path: Path) -> None:
    (tmp_path / "rclpy").mkdir()
    (tmp_path / "rclpy" / "__init__.py").write_text("raise ModuleNotFoundError('No module named rclpy')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", f"rlstack.nodes.{name}", "--help"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and ended.stderr == ""
    node = importlib.import_module(f"rlstack.nodes.{name}")
    for parameter in node.PARAMETERS:
        assert f"\n  {parameter.name} (default " in ended.stdout
    assert f"rlstack_{name} --ros-args" in ended.stdout and "topics and services:\n  subscribes " in ended.stdout


@pytest.mark.integration
def test_security_without_a_build_for_it_is_refused_in_a_sentence(tmp_path: Path) -> None:
    enclave = tmp_path / "enclaves" / "rlstack" / "guard"
    enclave.mkdir(parents=True)
    secure = {"ENABLE": "true", "STRATEGY": "Enforce", "KEYSTORE": str(tmp_path)}
    environment = {**os.environ, **{f"ROS_SECURITY_{name}": value for name, value in secure.items()}}
    command = [sys.executable, "-m", "rlstack.nodes.guard", "--ros-args", "--enclave", "/rlstack/guard"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert "ROS security is on (ROS_SECURITY_ENABLE=true), and the node could not be made with it: " in ended.stderr


def test_nodes_import_no_torch_and_those_without_a_policy_nothing_that_runs_one() -> None:
    code = (
        "import sys, rlstack.nodes.robot, rlstack.nodes.guard, rlstack.nodes.planner, rlstack.sim.backends.mujoco\n"
        "from rlstack.kinds import find_kind, kind_names\n"
        "for name in kind_names(): find_kind(name).load('guard'), find_kind(name).load('topics')\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime'} & set(sys.modules)))\n"
        "import rlstack.nodes.policy, rlstack.policies.policy_file\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "False"], done.stderr


def test_a_node_reports_warnings_and_errors_of_its_topics_in_any_order() -> None:
    """rclpy's logger raises if one line of code logs with two severities, which would end the node in flight."""
    logging = pytest.importorskip("rclpy.logging")
    from types import SimpleNamespace

    from rlstack.nodes.topic_watch import Problem

    node = SimpleNamespace(get_logger=lambda: logging.get_logger("reporting"))
    for is_error in (False, True, False):
        runtime.ManagedNode._say(node, Problem("two publishers", is_error))

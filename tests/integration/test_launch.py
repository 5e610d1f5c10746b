"""Systems run by ROS 2's own launch: the same parameters as from the supervisor, the same consequences of an end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.supervisor import Supervisor, child_environment

pytest.importorskip("launch", reason="ROS 2's launch is not installed (it is not on PyPI)")
pytest.importorskip("launch_ros", reason="launch_ros is not installed (it is not on PyPI)")
pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[2] / "launch"

MODULES = {
    "prints": """
        import json, rclpy
        rclpy.init()
        node = rclpy.create_node("x", automatically_declare_parameters_from_overrides=True)
        values = {n: p.value for n, p in node.get_parameters_by_prefix("").items() if not n.endswith("service")}
        plain = {n: list(v) if hasattr(v, "__len__") and not isinstance(v, str) else v for n, v in values.items()}
        print("GOT", node.get_fully_qualified_name(), json.dumps(plain, sort_keys=True), flush=True)
    """,
    "waits": """
        import sys, time, signal
        signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
        print("READY", flush=True)
        while True: time.sleep(0.05)
    """,
    "fails": "import sys; print('FAILING', flush=True); sys.exit(3)",
    "succeeds": "print('DONE', flush=True)",
}

LAUNCH = """
import json, sys
from launch import LaunchDescription, LaunchService
from rlstack.bringup.launch_file import launch_actions
from rlstack.bringup.node_process import Process, System

def read(data):
    if data is None:
        return None
    def process(p):
        parameters = {n: tuple(v) if isinstance(v, list) else v for n, v in p["parameters"].items()}
        return Process(**{**p, "parameters": parameters})
    return System(name=data["name"], processes=tuple(map(process, data["processes"])), then=read(data["then"]))

service = LaunchService(argv=[], noninteractive=True)
service.include_launch_description(LaunchDescription(launch_actions(read(json.load(open(sys.argv[1]))))))
sys.exit(service.run())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**child_environment(os.environ), "PYTHONPATH": os.pathsep.join(paths)}


def launch(system: System, environment: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a system under launch to its end."""
    process = start(system, environment, tmp_path)
    output, _ = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def start(system: System, environment: dict[str, str], tmp_path: Path) -> subprocess.Popen[str]:
    description = tmp_path / "system.json"
    description.write_text(json.dumps(plain(system)))
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(description)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def plain(system: System | None) -> dict | None:
    if system is None:
        return None
    return {
        "name": system.name,
        "processes": [{**vars(p), "parameters": dict(p.parameters)} for p in system.processes],
        "then": plain(system.then),
    }


def test_a_node_gets_the_same_from_launch_and_from_the_supervisor(environment, tmp_path):
    parameters = {
        "yes": True,
        "whole": 3,
        "real": 3.0,
        "tiny": 1e-7,
        "goal": (0.0, -1.5, 1.0),
        "empty": "",
        "looks_like_a_number": "1",
        "path": "/a b/p.onnx",
    }
    system = System(
        name="s", processes=(Process(name="n", module="prints", namespace="/cf1", parameters=parameters, why="test"),)
    )
    launched = launch(system, environment, tmp_path).stdout
    lines: list[str] = []
    Supervisor(system, environment=environment, log=lines.append).run()
    (by_launch,) = [line.partition("GOT ")[2] for line in launched.splitlines() if "GOT " in line]
    (by_supervisor,) = [line.partition("GOT ")[2] for line in lines if "GOT " in line]
    assert by_launch == by_supervisor
    name, _, values = by_launch.partition(" ")
    assert name == "/cf1/n"
    wanted = {n: list(v) if isinstance(v, tuple) else v for n, v in parameters.items()}
    assert {n: json.loads(values)[n] for n in wanted} == wanted


def test_the_end_of_a_needed_process_stops_the_rest(environment, tmp_path):
    processes = (Process(name="a", module="waits"), Process(name="b", module="fails", why="it was needed"))
    output = launch(System(name="s", processes=processes), environment, tmp_path).stdout
    assert "b ended with status 3, so everything was stopped: it was needed" in output


def test_the_end_of_another_does_not(environment, tmp_path):
    processes = (
        Process(name="a", module="waits"),
        Process(name="b", module="fails", when_it_ends="let the rest go on", why="there is a fallback"),
    )
    process = start(System(name="s", processes=processes), environment, tmp_path)
    assert process.stdout is not None
    seen = ""
    while "the rest goes on (there is a fallback)" not in seen or "READY" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert "process has finished cleanly" in process.communicate(timeout=30)[0]


def test_the_next_stage_follows_success_only(environment, tmp_path):
    after = System(name="after", processes=(Process(name="later", module="succeeds", why="it was done"),))
    for module, follows in (("succeeds", True), ("fails", False)):
        first = Process(name="first", module=module, when_it_ends="start the next stage", why="no stage follows")
        output = launch(System(name="s", processes=(first,), then=after), environment, tmp_path).stdout
        assert ("DONE" in output.partition("starting after")[2]) is follows
        assert ("first ended with status 3" in output) is not follows


OURS = """
from rlstack.bringup.launch_file import Argument, LaunchFile
from rlstack.bringup.node_process import Process, System

def build(namespace):
    first = Process(name="first", module="succeeds", namespace=namespace, when_it_ends="start the next stage")
    n = Process(name="n", module="prints", namespace=namespace, parameters={"own": 1}, why="test")
    return System(name="s", processes=(first,), then=System(name="later", processes=(n,)))

generate_launch_description = LaunchFile(build, (Argument("namespace", "", "cf1"),)).description
"""

THEIRS = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import PushRosNamespace, SetParameter

included = IncludeLaunchDescription(PythonLaunchDescriptionSource(sys.argv[1]), launch_arguments=[*map(tuple, SPACE)])
group = GroupAction([PushRosNamespace("/lab"), SetParameter("shared", 2), included])
service = LaunchService(argv=[], noninteractive=True)
service.include_launch_description(LaunchDescription([group]))
sys.exit(service.run())
"""


@pytest.mark.parametrize("space, name", [([], "/lab/cf1/n"), ([("namespace", "/cf1")], "/cf1/n")])
def test_a_group_that_includes_a_launch_file_sets_its_namespace_and_parameters(space, name, environment, tmp_path):
    (tmp_path / "ours.launch.py").write_text(OURS)
    done = subprocess.run(
        [sys.executable, "-c", THEIRS.replace("SPACE", repr(space)), str(tmp_path / "ours.launch.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (got,) = [line.partition("GOT ")[2] for line in done.stdout.splitlines() if "GOT " in line] or [done.stderr]
    assert got.startswith(f"{name} ")
    assert {"own": 1, "shared": 2}.items() <= json.loads(got.partition(" ")[2]).items()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nodes_end_in_order_when_launch_is_ended(number, environment, tmp_path, listener):
    robot = Process(name="robot", module="rlstack.nodes.robot", parameters={"lock_step": True}, why="test")
    process = start(System(name="s", processes=(robot,)), environment, tmp_path)
    listener.until(lambda: listener.node.count_publishers("/odom"), "the robot node's start")
    process.send_signal(number)
    process.wait(timeout=30)
    # an orderly end removes the publisher at once; after SIGKILL it would stay until its lease of 20 s is over
    listener.until(lambda: not listener.node.count_publishers("/odom"), "the robot node's end", timeout_s=15.0)


ROS2 = [sys.executable, "-c", "import sys; from ros2cli.cli import main; sys.exit(main())"]


@pytest.mark.parametrize("name", ["deploy", "train_quadrotor"])
def test_ros2_launch_knows_the_arguments(name, environment):
    pytest.importorskip("ros2launch", reason="ros2 launch is not installed (it is not on PyPI)")
    done = subprocess.run(
        [*ROS2, "launch", str(FOLDER / f"{name}.launch.py"), "--show-args"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Arguments" in done.stdout and "'backend'" in done.stdout, done.stderr

"""The launch files and `rlstack up` start the same systems; the arguments are read strictly. Needs no launch."""

from __future__ import annotations

import dataclasses
import json
import runpy
from pathlib import Path

import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.launch_file import LaunchFile, boolean, integer, number, numbers, optional
from rlstack.bringup.system import deploy_system, simulate_system
from rlstack.bringup.train import train_system
from rlstack.bringup.up_commands import Deploy, Simulate, UpTrain
from rlstack.bringup.verification_check import file_sha256
from rlstack.errors import UserError
from rlstack.hardware import drivers
from rlstack.policies import find_policy
from rlstack.resources import list_resources
from tests.support.records import write_record

FOLDER = Path(__file__).parents[2] / "launch"


def launch_file(name: str) -> LaunchFile:
    return runpy.run_path(str(FOLDER / f"{name}.launch.py"))["LAUNCH_FILE"]


@pytest.fixture(scope="module")
def deploy() -> LaunchFile:
    """The launch file without the check of the policy file and of who works with it, which need a policy."""
    beyond = (
        "force",
        "teleop",
        "adapt",
        "agent",
        "places",
        "model_url",
        "model",
        "params_file",
        "use_sim_time",
        "view",
        "rviz",
        "record",
    )

    def build(**options):
        return deploy_system(**{name: value for name, value in options.items() if name not in beyond})

    return dataclasses.replace(launch_file("deploy"), build=build)


def test_the_launch_files_are_found_as_resources():
    assert {"deploy", "simulate", "train_quadrotor"} <= set(list_resources("launch", ".launch.py"))


def test_deploy_starts_what_rlstack_up_starts(deploy):
    given = {
        "policy": "p.onnx",
        "namespace": "cf1",
        "goal": "1 2 3",
        "real_time_factor": "2",
        "lock_step": "true",
        "auto_arm": "false",
        "noise_seed": "7",
        "goal_yaw_rad": "0.5",
        "world": "corridor:3",
        "count": "2",
    }
    assert deploy.system(given) == deploy_system(
        "p.onnx",
        namespace="cf1",
        goal=(1, 2, 3),
        real_time_factor=2.0,
        lock_step=True,
        auto_arm=False,
        noise_seed=7,
        goal_yaw_rad=0.5,
        world="corridor:3",
        count=2,
    )


def test_simulate_starts_what_rlstack_up_simulates():
    simulate, up = launch_file("simulate"), Simulate()
    options = dataclasses.asdict(up)
    assert not options.pop("no_view")
    assert simulate.system({}) == simulate_system() == simulate_system(**options)
    given = {"robot": "x500", "world": "room:2", "count": "3", "start_height_m": "1.5", "lock_step": "true"}
    assert simulate.system(given) == simulate_system(
        "x500", world="room:2", count=3, start_height_m=1.5, lock_step=True
    )


def test_deploy_has_the_defaults_of_rlstack_up(deploy):
    assert deploy.system({"policy": "p.onnx"}) == deploy_system("p.onnx")
    up = Deploy(policy=Path("p.onnx"))
    assert deploy.system({"policy": "p.onnx"}) == deploy_system(
        up.policy,
        up.robot,
        up.backend,
        world=up.world,
        count=up.count,
        namespace=up.namespace,
        goal=up.goal,
        goal_yaw_rad=up.goal_yaw,
        real_time_factor=up.real_time_factor,
        lock_step=up.lock_step,
        noise_seed=up.noise_seed,
    )


def test_train_starts_what_rlstack_up_train_starts(tmp_path):
    train = launch_file("train_quadrotor")
    out = str(tmp_path / "run")
    given = {"out": out, "seed": "4", "overrides": "envs=16 steps=1000", "goal": "0,0,2", "namespace": "cf2"}
    assert train.system(given) == train_system(
        "quadrotor_hover", out=out, seed=4, overrides=("envs=16", "steps=1000"), goal=(0, 0, 2), namespace="cf2"
    )
    up = UpTrain(out=out)
    assert train.system({"out": out}) == train_system(
        up.recipe,
        out=up.out,
        seed=up.seed,
        overrides=up.set,
        fly=not up.no_fly,
        robot=up.robot,
        backend=up.backend,
        namespace=up.namespace,
        goal=up.goal,
    )


def test_a_base_is_trained_by_the_recipe_of_its_task(tmp_path):
    train, out = launch_file("train_base"), str(tmp_path / "run")
    given = {"out": out, "world": "clutter:1000000", "goal": "1 2"}
    assert train.system(given) == train_system("base_navigation", out=out, world="clutter:1000000", goal=(1, 2))


def test_a_base_is_driven_by_a_policy_or_a_planner_for_one_argument(deploy):
    given = {"robot": "turtlebot3", "remap": "cmd_vel:=/cmd_vel scan:=/scan", "backend": "topics"}
    policy, planner = deploy.system({**given, "policy": "p.onnx"}), deploy.system({**given, "driver": "dwa"})
    assert [p.name for p in policy.processes] == ["guard", "policy"]
    assert [p.name for p in planner.processes] == ["guard", "planner"]
    assert planner.processes[0] == policy.processes[0]
    assert {p.remappings for p in planner.processes} == {(("cmd_vel", "/cmd_vel"), ("scan", "/scan"))}
    assert {p.namespace for p in planner.processes} == {"/"}


def test_deploy_refuses_what_rlstack_up_refuses(tmp_path):
    deploy = launch_file("deploy")
    with pytest.raises(UserError, match="does not exist"):
        deploy.system({"policy": str(tmp_path / "none.onnx")})
    broken = tmp_path / "policy.onnx"
    broken.write_bytes(b"not a policy")
    write_record(broken, {"sha256": file_sha256(broken), "robot": "crazyflie", "passed": True})
    with pytest.raises(UserError, match=r"not an ONNX file|damaged"):
        deploy.system({"policy": str(broken), "force": "true"})


def test_launch_files_start_the_bytes_that_were_checked(tmp_path):
    deploy, policy = launch_file("deploy"), tmp_path / "policy.onnx"
    policy.write_bytes(find_policy("quadrotor_hover").read_bytes())
    (tmp_path / "verify.json").write_bytes(find_policy("quadrotor_hover").with_name("verify.json").read_bytes())
    (node,) = [p for p in deploy.system({"policy": str(policy)}).processes if p.name == "policy"]
    assert node.parameters["policy_sha256"] == file_sha256(policy)
    (tmp_path / "verify.json").write_text(json.dumps(json.loads((tmp_path / "verify.json").read_text())))
    with pytest.raises(
        UserError, match=r"verify.json is unsigned, so nobody vouches for it: run `rlstack verify .*--force"
    ):
        deploy.system({"policy": str(policy)})


def test_a_parameters_file_reaches_the_nodes(tmp_path):
    file = tmp_path / "tight.yaml"
    file.write_text("/**/guard: {ros__parameters: {linear_velocity_m_s: 0.1}}")
    given = {"robot": "turtlebot3_burger", "driver": "dwa", "params_file": str(file)}
    launched = launch_file("deploy").system(given)
    assert {process.params_file for process in launched.processes} == {str(file)}
    assert launched == checked_deployment(robot="turtlebot3_burger", driver="dwa", params_file=file)
    assert launch_file("simulate").system({"params_file": ""}) == simulate_system()
    with pytest.raises(UserError, match=r"tight\.yaml has nothing for any of the nodes"):
        launch_file("simulate").system({"params_file": str(file)})


def test_nodes_follow_the_clock_of_a_simulator_and_no_other(tmp_path):
    deploy, base = launch_file("deploy"), {"robot": "turtlebot3_burger", "driver": "dwa"}

    def told(system):
        return {process.name: process.parameters.get("use_sim_time") for process in system.processes}

    assert set(told(deploy.system(base)).values()) == {True} == set(told(launch_file("simulate").system({})).values())
    assert set(told(deploy.system({**base, "backend": "topics"})).values()) == {None}
    assert set(told(deploy.system({**base, "backend": "topics", "use_sim_time": "true"})).values()) == {True}
    then = launch_file("train_quadrotor").system({"out": str(tmp_path / "run"), "force": "true"}).then
    assert set(told(then).values()) == {True}


def test_simulated_time_is_refused_for_a_real_robot(tmp_path, monkeypatch):
    (tmp_path / "rover_of_a_launch.py").write_text("class Rover:\n    owns_time = False\n\n\nBACKEND = Rover\n")
    monkeypatch.setattr(drivers, "__path__", [*drivers.__path__, str(tmp_path)])
    with pytest.raises(UserError, match="the backend 'rover_of_a_launch' is a real robot, beside which nothing"):
        checked_deployment(robot="turtlebot3_burger", driver="dwa", backend="rover_of_a_launch", use_sim_time=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Give a policy file or"),
        ({"policy": "p.onnx", "remap": "scan"}, "remap: 'scan' is not allowed: give ours:=theirs"),
        ({"policy": "p.onnx", "lock_step": "maybe"}, "lock_step: 'maybe' is not allowed: must be true or false"),
        (
            {"policy": "p.onnx", "real_time_factor": "fast"},
            "real_time_factor: 'fast' is not allowed: must be a finite number",
        ),
        ({"policy": "p.onnx", "goal": "1 2"}, "three finite numbers"),
        ({"policy": "p.onnx", "polcy": "p"}, "Unknown launch argument 'polcy'. Nearest: policy"),
    ],
)
def test_bad_arguments_are_refused_by_name(deploy, given, said):
    with pytest.raises(UserError, match=said):
        deploy.system(given)


def test_conversions():
    assert (boolean("True"), boolean("false"), optional(boolean)(""), optional(boolean)("true")) == (
        True,
        False,
        None,
        True,
    )
    assert numbers("[1, -2.5, 3e-1]") == numbers("1 -2.5 3e-1") == (1.0, -2.5, 0.3)
    for read, bad in ((number, "inf"), (number, ""), (integer, "1.5"), (numbers, "1 nan")):
        with pytest.raises(ValueError, match="must be"):
            read(bad)

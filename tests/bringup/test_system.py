"""The description of what to start, and that nothing unreasonable can be described."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.robot_group import checked_namespace
from rlstack.bringup.supervisor import child_environment
from rlstack.bringup.system import deploy_system, simulate_system
from rlstack.bringup.train import train_system
from rlstack.bringup.verification_check import file_sha256, record_path
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import find_policy
from rlstack.sim.world import load_world
from tests.kinds.manipulator.guard_loop import panda
from tests.policies.test_people import write_wary_policy
from tests.support.arms import write_posture_policy
from tests.support.bases import turtlebot, write_exploring_policy
from tests.support.policies import write_hover_policy
from tests.support.records import write_record


def by_name(system):
    return {process.name: process for process in system.processes}


def test_deploy_is_robot_guard_and_policy_in_one_namespace(tmp_path):
    system = deploy_system(tmp_path / "policy.onnx", goal=(1, 2, 3), real_time_factor=2.0)
    processes = by_name(system)
    assert list(processes) == ["robot", "guard", "policy"]
    assert {process.namespace for process in system.processes} == {"/crazyflie"}
    assert processes["robot"].parameters["real_time_factor"] == 2.0
    assert processes["policy"].parameters["goal_position"] == (1.0, 2.0, 3.0)
    assert processes["policy"].parameters["policy"] == str(tmp_path / "policy.onnx")


def test_only_the_policy_may_end_without_the_rest():
    processes = by_name(deploy_system("policy.onnx"))
    assert {name: p.when_it_ends for name, p in processes.items()} == {
        "robot": "stop the rest",
        "guard": "stop the rest",
        "policy": "let the rest go on",
    }


def test_odometry_is_estimated_from_the_simulators_other_sensors():
    made = by_name(deploy_system("policy.onnx", odometry="flow"))
    assert list(made) == ["robot", "guard", "policy", "odometry"]
    assert made["odometry"].parameters == {"source": "flow", "rate_hz": 100.0, "imu_hz": 500.0}
    assert made["robot"].parameters["simulated_tracking"] == "flow"
    assert ("odom", "odom_true") in made["robot"].remappings and not made["guard"].remappings
    real = by_name(deploy_system("policy.onnx", odometry="pose", backend="topics"))
    assert "robot" not in real and real["odometry"].parameters["source"] == "pose"
    for options, said in (
        ({"odometry": "flow", "lock_step": True}, "late measurements need time that goes on"),
        ({"odometry": "pose", "count": 2}, "several simulated robots publish their own"),
        ({"odometry": "gps"}, "Unknown source of odometry 'gps'"),
    ):
        with pytest.raises(UserError, match=said):
            deploy_system("policy.onnx", **options)


def test_lock_step_is_the_same_for_all():
    for chosen in (True, False):
        system = deploy_system("policy.onnx", lock_step=chosen)
        assert {process.parameters["lock_step"] for process in system.processes} == {chosen}


def test_simulators_arm_themselves_unless_told_not_to():
    assert by_name(deploy_system("policy.onnx"))["guard"].parameters["auto_arm"] is True
    assert by_name(deploy_system("policy.onnx", auto_arm=False))["guard"].parameters["auto_arm"] is False


def test_a_dry_run_arms_by_itself_and_only_the_robot_node_knows():
    nodes = by_name(deploy_system("policy.onnx", "x500_rates", "mavlink", uri="udp://0.0.0.0:14550", dry_run=True))
    assert nodes["robot"].parameters["dry_run"] is True
    assert nodes["guard"].parameters["auto_arm"] is True
    assert nodes["robot"].rest_s == nodes["guard"].rest_s == 0.0


def test_a_tether_is_the_guards_parameter_and_bounds_goals():
    nodes = by_name(deploy_system("policy.onnx", tether=0.3))
    assert nodes["guard"].parameters["tether"] == 0.3
    assert nodes["policy"].parameters["geofence_max_m"] == pytest.approx((0.9, 0.9, 1.5))
    with pytest.raises(UserError, match=r"outside the geofence .* to \[0.9, 0.9, 1.5\]"):
        deploy_system("policy.onnx", tether=0.3, goal=(2.0, 0.0, 1.0))
    assert "tether" not in by_name(deploy_system("policy.onnx"))["guard"].parameters


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"robot": "crazyfly"}, "Unknown robot 'crazyfly'. Nearest: crazyflie"),
        ({"backend": "mujocco"}, "Unknown backend 'mujocco'. Nearest: mujoco.*, topics"),
        ({"real_time_factor": 0.0}, "real-time factor 0.0 is not allowed"),
        ({"real_time_factor": float("nan")}, "real-time factor nan is not allowed"),
        ({"goal": (0.0, 1.0)}, "three finite numbers"),
        ({"goal": (0.0, 1.0, float("inf"))}, "three finite numbers"),
        (
            {"robot": "panda", "goal": (0.4, 0.0, -0.2)},
            r"outside the workspace .* to \[0.9, 0.9, 1.3\]",
        ),
        ({"robot": "panda", "goal": (0.4, 0.0)}, "three finite numbers"),
        ({"namespace": "1cf"}, "The namespace '1cf' is not allowed"),
        ({"world": "warehous"}, "Unknown world 'warehous'. Nearest: warehouse"),
        ({"count": 0}, "0 robots are not allowed"),
        ({"tether": 0.0}, "The tether 0 is not allowed"),
        ({"tether": 1.5}, "The tether 1.5 is not allowed"),
        ({"dry_run": True, "backend": "topics"}, "A dry run needs a driver of rlstack"),
        ({"count": 1000, "world": "room"}, "start places for 1000 robots"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        deploy_system("policy.onnx", **options)


def test_several_robots_are_one_robot_node_and_a_guard_and_a_policy_for_each():
    system = deploy_system("policy.onnx", count=3, goal=(0.0, 0.0, 1.5), namespace="fleet")
    robot, *others = system.processes
    assert robot.namespace == "/fleet" and robot.parameters["count"] == 3
    assert [(p.node_name, p.namespace) for p in others] == [
        (kind, f"/fleet/crazyflie{k}") for k in (1, 2, 3) for kind in ("guard", "policy")
    ]
    goals = [p.parameters["goal_position"] for p in others if p.node_name == "policy"]
    assert {z for _, _, z in goals} == {1.5} and len(set(goals)) == 3  # each above its own start
    assert [name for name in robot.command() if name.startswith("__node")] == ["__node:=robot"]


def test_a_world_goes_to_the_robot_node_and_its_bounds_to_the_guards(tmp_path, monkeypatch):
    processes = by_name(deploy_system("policy.onnx", world="warehouse:7"))
    assert processes["robot"].parameters["world"] == "warehouse:7"
    guard = processes["guard"].parameters
    assert guard["allow_wider"] is True and guard["geofence_max_m"][0] > 3.0  # the Crazyflie's own fence
    assert "geofence_max_m" not in by_name(deploy_system("policy.onnx"))["guard"].parameters
    (tmp_path / "mine.yaml").write_text("generator: empty\n")
    monkeypatch.chdir(tmp_path)
    robot, *_ = deploy_system("policy.onnx", world="mine.yaml:3").processes
    assert robot.parameters["world"] == f"{tmp_path}/mine.yaml:3"  # the nodes may run elsewhere


BASE = {"robot": "turtlebot3_burger"}


def test_a_base_drives_to_a_goal_on_the_floor_or_to_the_worlds_or_stays_where_it_is():
    def goal(**options):
        return by_name(deploy_system("policy.onnx", **BASE, **options))["policy"].parameters["goal_position"]

    assert goal()[:2] == (0.0, 0.0) and goal(goal=(1, 2))[:2] == (1.0, 2.0) == goal(goal=(1, 2, 9))[:2]
    assert goal()[2] == pytest.approx(0.010)  # where its base_link is, so that distances are those on the floor
    place = load_world("clutter:1000000").floor_map.goal
    assert goal(world="clutter:1000000")[:2] == pytest.approx(place[:2])
    with pytest.raises(UserError, match="two finite numbers x y"):
        goal(goal=(1,))


def test_a_base_has_a_map_and_a_fallback_where_that_is_asked_for():
    options = {"fallback": "dwa", "with_map": True, "cmd_vel_type": "Twist", "scan_frame": "base_scan"}
    processes = by_name(deploy_system(driver="astar_dwa", world="warehouse:7", **BASE, **options))
    assert list(processes) == ["robot", "guard", "planner", "map"]
    assert processes["robot"].parameters["cmd_vel_type"] == "Twist"
    guard = processes["guard"].parameters
    assert (guard["fallback"], guard["cmd_vel_type"], guard["scan_frame"]) == ("dwa", "Twist", "base_scan")
    assert len(guard["geofence_max_m"]) == 2
    assert processes["planner"].parameters["planner"] == "astar_dwa"
    assert processes["map"].when_it_ends == "let the rest go on"


def test_an_instruction_goes_to_a_policy_that_follows_it(tmp_path):
    rest = np.array([drive.rest for drive in panda().drives])
    deaf, told = tmp_path / "deaf.onnx", tmp_path / "told.onnx"
    write_posture_policy(deaf, panda(), rest)
    write_posture_policy(told, panda(), rest, inputs=("joint_position", "instruction"), words=("push", "red"))
    made = by_name(deploy_system(told, "panda", instruction="push the red one"))
    assert made["policy"].parameters["instruction"] == "push the red one"
    assert "instruction" not in by_name(deploy_system(told, "panda"))["policy"].parameters
    for path, instruction, said in (
        (told, "x" * 129, "instruction: an instruction of 129 bytes is not allowed"),
        (told, "!", "without words"),
        (deaf, "push", "follows no instructions: leave the instruction out"),
        ("", "push", "A planner follows no instructions"),
        (tmp_path / "none.onnx", "push", "none.onnx does not exist"),
        (tmp_path, "push", "it is a folder"),
    ):
        with pytest.raises(UserError, match=said):
            deploy_system(path, "panda", instruction=instruction)


def test_an_arm_brings_its_tool_to_a_goal_or_leaves_it_where_it_rests(tmp_path):
    def processes(path="policy.onnx", **options):
        return by_name(deploy_system(path, "panda", **options))

    at_rest = processes()["policy"].parameters["goal_position"]
    assert at_rest == pytest.approx((0.307, 0.0, 0.485), abs=1e-3)
    made = processes(goal=(0.5, 0.2, 0.3), world="empty", cmd_joints_type="Float64MultiArray")
    assert made["policy"].parameters["goal_position"] == (0.5, 0.2, 0.3)
    assert {made[name].parameters["cmd_joints_type"] for name in ("robot", "guard")} == {"Float64MultiArray"}
    assert not {"geofence_min_m", "allow_wider", "staleness_s"} & set(made["guard"].parameters)
    assert "parks it" in made["policy"].why and "move without the guard" in made["guard"].why
    goals = [one.parameters["goal_position"] for one in deploy_system("p.onnx", "panda", count=2).processes[2::2]]
    assert goals == [at_rest, at_rest]  # each seen from its own base
    for options, said in (
        ({"goal": (1, 2)}, "three finite numbers x y z"),
        ({"driver": "dwa"}, "for wheeled bases"),
        ({"cmd_vel_type": "Twist"}, "cmd_vel_type is for wheeled bases"),
        ({"people": "topic"}, "people is for wheeled bases"),
        ({"odometry": "pose"}, "odometry is for quadrotors, and panda is a manipulator"),
        ({"goal_yaw_rad": 1.0}, "goal_yaw is for robots that head somewhere"),
        ({"backend": "topics", "noise_seed": 4}, "A noise seed needs a simulator"),
        ({"backend": "topics", "real_time_factor": 3.0}, "A real-time factor needs a simulator"),
    ):
        with pytest.raises(UserError, match=said):
            processes(**options)
    slow = write_posture_policy(tmp_path / "slow.onnx", panda(), np.zeros(9) - 0.07, rate_hz=10.0)
    made = processes(slow)  # those who wait for a policy wait for one as slow as this one
    guard, waits = made["guard"].parameters, made["robot"].parameters
    assert (guard["staleness_s"], guard["window_s"]) == pytest.approx((0.25, 0.12))
    assert waits["cmd_joints_timeout_s"] == pytest.approx(0.5)  # the guard is the first to act
    assert "cmd_joints_timeout_s" not in processes()["robot"].parameters


def test_another_robots_policy_is_refused_before_anything_starts(tmp_path):
    policy = write_posture_policy(tmp_path / "policy.onnx", panda(), np.zeros(9) - 0.07)
    for robot in ("crazyflie", "turtlebot3_burger", "ur5e"):
        with pytest.raises(UserError, match=f"policy for the robot 'panda', not for '{robot}'"):
            deploy_system(policy, robot)
    assert deploy_system(policy, "panda").contract.robot == "panda"


def test_a_policy_that_handles_an_object_is_not_started_where_there_is_none(tmp_path):
    inputs = ("joint_position", "object_position")
    policy = write_posture_policy(tmp_path / "policy.onnx", panda(), np.zeros(9) - 0.07, inputs=inputs)
    table = tmp_path / "table.yaml"
    thing = {"name": "object", "shape": "box", "size_m": [0.04] * 3, "position_m": [0.5, 0.1, 0.02]}

    starts = {"starts": {"count": 1, "clearance_m": 0.3}}

    def write(**more):
        table.write_text(yaml.safe_dump({"generator": "empty", "obstacles": [{**thing, **more}], **starts}))

    with pytest.raises(UserError, match=r"policy\.onnx handles an object, and a bare floor has none: give a --world"):
        deploy_system(policy, "panda")
    write()
    with pytest.raises(UserError, match=r"table\.yaml has none"):
        deploy_system(policy, "panda", world=str(table))
    write(mass_kg=0.1)
    assert list(by_name(deploy_system(policy, "panda", world=str(table)))) == ["robot", "guard", "policy"]
    assert deploy_system(policy, "panda", own_simulator=True).processes  # verification simulates the object itself
    assert list(by_name(deploy_system(policy, "panda", "topics"))) == ["guard", "policy"]  # a tracker sends it
    pytest.importorskip("torch")
    with pytest.raises(UserError, match="The policy of the recipe arm_push handles an object, and a bare floor has"):
        train_system("arm_push", out=tmp_path / "run")
    assert train_system("arm_push", out=tmp_path / "run", fly=False).then is None
    assert train_system("arm_push", out=tmp_path / "run", world=str(table)).then is not None
    assert train_system("arm_reach", out=tmp_path / "run").then is not None


def test_whoever_senses_people_is_told_of_them(tmp_path):
    def nodes(**options):
        return list(by_name(deploy_system(**{**BASE, **options})))

    policy = write_wary_policy(tmp_path / "policy.onnx")
    assert nodes(policy=policy) == ["robot", "guard", "policy", "people"]
    assert nodes(policy=policy, people="topic") == ["robot", "guard", "policy"]
    assert nodes(driver="orca", with_map=True) == ["robot", "guard", "planner", "people", "map"]
    assert nodes(driver="dwa") == ["robot", "guard", "planner"]
    assert nodes(driver="dwa", fallback="orca") == ["robot", "guard", "planner", "people"]
    two = deploy_system(driver="orca", count=2, lock_step=True, scan_frame="laser", **BASE).processes
    told = [process for process in two if process.node_name == "people"]
    assert [process.namespace.rpartition("/")[2] for process in told] == ["turtlebot3_burger1", "turtlebot3_burger2"]
    assert told[0].parameters["lock_step"] is True and told[0].parameters["scan_frame"] == "laser"
    with pytest.raises(UserError, match="Unknown source of people 'scam'"):
        nodes(driver="orca", people="scam")
    with pytest.raises(UserError, match=r"no lidar called 'scan' in which people could be tracked.*--people topic"):
        nodes(driver="orca", robot="crowdnav_robot", backend="topics")


def test_a_robot_with_a_driver_of_its_own_gets_no_robot_node_and_is_not_armed():
    processes = by_name(deploy_system("policy.onnx", backend="topics", remap=["scan:=lidar"], **BASE))
    assert list(processes) == ["guard", "policy"]
    assert processes["guard"].parameters["auto_arm"] is False
    assert "scan:=lidar" in processes["guard"].command() and processes["guard"].namespace == "/"
    with pytest.raises(UserError, match="A world needs a simulator"):
        deploy_system("policy.onnx", backend="topics", world="room", **BASE)


def test_the_topics_of_a_real_robot_are_checked_before_arming(tmp_path):
    policy = write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"))
    facts = {"sha256": file_sha256(policy), "reality": {"axes": {"observation_delay_s": {"margin": 0.02}}}}
    write_json(record_path(policy), facts)
    unsigned = by_name(deploy_system(policy, backend="topics"))
    assert "observation_delay_s" not in unsigned["guard"].parameters, "nobody vouches for it"
    write_record(policy, {**facts, "sha256": "0" * 64})
    assert "observation_delay_s" not in by_name(deploy_system(policy, backend="topics"))["guard"].parameters
    write_record(policy, facts)
    real = by_name(deploy_system(policy, backend="topics"))
    assert real["policy"].parameters["record_sha256"] == file_sha256(record_path(policy))
    assert real["policy"].parameters["live_check"] is True and real["guard"].parameters["require_live_check"] is True
    assert real["guard"].parameters["observation_delay_s"] == 0.02
    forced = by_name(deploy_system(policy, backend="topics", require_live_check=False))
    assert forced["policy"].parameters["live_check"] is True  # it is told all the same
    assert "require_live_check" not in forced["guard"].parameters
    simulated = by_name(deploy_system(policy))
    assert "live_check" not in simulated["policy"].parameters
    assert "require_live_check" not in simulated["guard"].parameters


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"driver": "dwa"}, "driver is for wheeled bases, and crazyflie is a quadrotor"),
        ({"policy": "", "driver": "astar", **BASE}, "Unknown driver 'astar'. Nearest: astar_dwa"),
        ({"policy": "", "driver": "nav2", "lock_step": True, **BASE}, "lock step is not possible"),
        ({"fallback": "dwa"}, "fallback is for wheeled bases"),
        ({"cmd_joints_type": "Float64MultiArray"}, "cmd_joints_type is for arms, and crazyflie is a quadrotor"),
        ({"driver": "dwa", **BASE}, "one of the two"),
        ({"remap": ["a:=b:=c"], **BASE}, "remap: 'a:=b:=c' is not allowed"),
    ],
)
def test_what_is_not_for_this_robot_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        deploy_system(**{"policy": "policy.onnx", **options})


def test_nav2_drives_by_its_adapter_behind_the_same_guard():
    processes = by_name(deploy_system(driver="nav2", goal=(1, 2), **BASE))
    assert list(processes) == ["robot", "guard", "nav2"]
    assert set(processes["nav2"].parameters) == {"goal_position", "goal_yaw"}


def test_simulate_is_the_robot_node_alone():
    (robot,) = simulate_system("x500", count=2, start_height_m=1.0).processes
    assert robot.namespace == "/" and robot.parameters["start_height_m"] == 1.0
    assert simulate_system().processes[0].namespace == "/crazyflie"


def test_training_is_followed_by_a_flight_of_its_policy(tmp_path):
    system = train_system("quadrotor_hover", out=tmp_path / "run", seed=3, overrides=["envs=16"])
    (train,) = system.processes
    assert train.when_it_ends == "start the next stage"
    assert train.parameters["seed"] == 3
    assert yaml.safe_load(train.parameters["overrides"]) == ["envs=16"]
    assert system.then is not None
    (verify,) = system.then.processes
    assert verify.when_it_ends == "start the next stage"
    assert verify.command()[-3:] == [str(tmp_path / "run" / "policy.onnx"), "crazyflie", "mujoco"]
    assert system.then.then is not None
    assert by_name(system.then.then)["policy"].parameters["policy"] == str(tmp_path / "run" / "policy.onnx")
    assert train_system("quadrotor_hover", out=tmp_path / "run", force=True).then == system.then.then
    assert train_system("quadrotor_hover", out=tmp_path / "run", fly=False).then is None


def test_what_was_trained_for_flies_afterwards(tmp_path):
    def flown(*overrides, **options):
        system = train_system(out=tmp_path / "run", overrides=overrides, force=True, **options)
        return by_name(system.then)["robot"].parameters["robot"]

    assert flown() == "crazyflie"
    assert flown("robot=x500") == flown("robot=x500", robot="x500") == "x500"
    assert flown(recipe="quadrotor_foundation", robot="racer") == "racer"


@pytest.mark.parametrize(
    ("recipe", "robot", "said"),
    [
        (
            "quadrotor_hover",
            "turtlebot3_burger",
            r"trains for crazyflie, .* cannot drive turtlebot3_burger: .*a task for quadrotors",
        ),
        (
            "base_navigation",
            "crazyflie",
            "cannot drive crazyflie: .*for wheeled bases; crazyflie is a quadrotor",
        ),
        ("quadrotor_foundation", "panda", "cannot drive panda: .*panda is a manipulator"),
        ("quadrotor_hover", "x500", "for no other robot: leave the robot x500 out, or train for it.* robot=x500"),
    ],
)
def test_a_robot_that_the_new_policy_will_not_fit_is_refused_before_training(recipe, robot, said, tmp_path):
    with pytest.raises(UserError, match=said):
        train_system(recipe, out=tmp_path / "run", robot=robot)
    assert not (tmp_path / "run").exists()


def test_nodes_wait_for_a_policy_that_is_yet_to_be_trained_as_for_one_that_is_there(tmp_path):
    def told(system):
        made = by_name(system)
        guard, waits = made["guard"].parameters, made["robot"].parameters
        return guard.get("staleness_s"), guard.get("window_s"), waits.get("cmd_joints_timeout_s")

    def trained(*overrides):
        return told(train_system("arm_reach", out=tmp_path / "run", overrides=overrides, force=True).then)

    slow = write_posture_policy(tmp_path / "slow.onnx", panda(), np.zeros(9) - 0.07, rate_hz=2.0)
    assert trained("task_settings.rate_hz=2") == told(deploy_system(slow, "panda")) == pytest.approx((1.25, 0.6, 2.5))
    assert trained() == (None, None, None)  # the defaults are for 20 Hz


def test_a_run_folder_that_exists_is_refused(tmp_path):
    with pytest.raises(UserError, match="exists and is never overwritten"):
        train_system("quadrotor_hover", out=tmp_path)


def test_process_names_must_differ():
    twice = Process(name="a", module="b")
    with pytest.raises(ValueError, match="must differ"):
        System(name="s", processes=(twice, twice))


PRINTS_ITS_PARAMETERS = """
import json, rclpy
IMPLICIT = ("use_sim_time", "start_type_description_service")
rclpy.init()
node = rclpy.create_node("x", automatically_declare_parameters_from_overrides=True)
values = {n: p.value for n, p in node.get_parameters_by_prefix("").items() if n not in IMPLICIT}
print(json.dumps({n: list(v) if hasattr(v, "__len__") and not isinstance(v, str) else v for n, v in values.items()}))
print(node.get_fully_qualified_name())
"""


@pytest.mark.integration
def test_a_real_node_gets_every_parameter_with_its_type(tmp_path):
    (tmp_path / "prints.py").write_text(PRINTS_ITS_PARAMETERS)
    parameters = {
        "yes": True,
        "no": False,
        "whole": 3,
        "real": 3.0,
        "tiny": 1e-7,
        "huge": 1e22,
        "goal": (0.0, -1.5, 1e-7),
        "empty": "",
        "looks_like_a_number": "1",
        "looks_like_no": "no",
        "odd": "a b: #c 'd' \"e\" \\f é 𐀀 /g",
    }
    process = Process(name="n", module="prints", namespace="/fleet/cf1", parameters=parameters)
    environment = {**child_environment(os.environ), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(process.command(), env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    values, name = done.stdout.splitlines()[-2:]
    assert name == "/fleet/cf1/n"
    got = json.loads(values)
    assert got == {n: list(v) if isinstance(v, tuple) else v for n, v in parameters.items()}
    assert {n: type(v) for n, v in got.items() if n != "goal"} == {
        n: type(v) for n, v in parameters.items() if n != "goal"
    }


@settings(deadline=None)
@given(st.text(max_size=12))
def test_namespaces_are_absolute_names_or_refused(name):
    try:
        checked = checked_namespace(name)
    except UserError:
        return
    assert checked.startswith("/") and all(part.isidentifier() for part in checked.split("/")[1:] if part)


def test_a_planned_way_leads_a_policy():
    processes = by_name(deploy_system(driver="astar_policy", **{**BASE, "policy": "p.onnx"}))
    assert processes["planner"].parameters["planner"] == "astar_policy"
    assert json.loads(processes["planner"].parameters["options"])["policy"].endswith("p.onnx")
    with pytest.raises(UserError, match="give a policy file too"):
        deploy_system(driver="astar_policy", **{**BASE, "policy": ""})


def test_a_policy_that_explores_is_led_over_the_world_s_floor(tmp_path):
    policy = write_exploring_policy(tmp_path / "p.onnx", turtlebot())
    explores = {**BASE, "policy": str(policy)}
    processes = by_name(deploy_system(**explores, world="mazes:3"))
    assert "policy" not in processes and processes["planner"].parameters["planner"] == "explorer_policy"
    options = json.loads(processes["planner"].parameters["options"])
    x, y = load_world("mazes:3").floor_map.size_m
    assert options["policy"] == str(policy)
    assert options["cells"] == {"area_min_m": [-x / 2, -y / 2], "area_max_m": [x / 2, y / 2]}
    options = json.loads(by_name(deploy_system(**explores))["planner"].parameters["options"])
    assert options == {
        "policy": str(policy),
        "policy_sha256": file_sha256(policy),
    }  # a floor without an end: as much as it was trained on
    given = by_name(deploy_system(**explores, world="mazes:3", area=(-1, -2, 3, 4)))["planner"].parameters
    assert json.loads(given["options"])["cells"] == {"area_min_m": [-1, -2], "area_max_m": [3, 4]}
    with pytest.raises(UserError, match=r"\[3, 4, 1, 2\] is not allowed: give the corners"):
        deploy_system(**explores, area=(3, 4, 1, 2))
    with pytest.raises(UserError, match="An area is for policies that explore"):
        deploy_system(driver="dwa", **{**BASE, "policy": "", "area": (0, 0, 1, 1)})
    with pytest.raises(UserError, match="explorer_policy leads a policy: give a policy file too"):
        deploy_system(driver="explorer_policy", **{**BASE, "policy": ""})


def test_what_was_trained_to_explore_is_led_afterwards(tmp_path):
    then = train_system("base_exploration", out=tmp_path / "run", force=True).then
    assert then is not None
    parameters = by_name(then)["planner"].parameters
    assert parameters["planner"] == "explorer_policy"
    assert json.loads(parameters["options"]) == {"policy": str(tmp_path / "run" / "policy.onnx")}


def test_the_nodes_that_command_take_the_robot_that_was_checked_and_no_other():
    system = deploy_system(find_policy("quadrotor_hover"))
    known = load_quadrotor("crazyflie").sha256
    assert system.robot_sha256 == known
    assert [p.parameters["robot_sha256"] for p in system.processes] == [known] * 3  # robot, guard and policy
    planned = by_name(deploy_system(driver="dwa", **BASE))
    assert {"robot", "guard", "planner"} <= {name for name, p in planned.items() if "robot_sha256" in p.parameters}

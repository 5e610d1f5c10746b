"""An arm over real topics: policy and guard as processes, MuJoCo in lock step, trial after trial."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.episode_runner import run_episodes
from rlstack.interfaces import topics
from rlstack.interfaces.messages import JointMessage, pose_message
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.kinds.manipulator.verification import ManipulationRecorder
from rlstack.policies import load_policy
from rlstack.tasks.catalog.arm_pick_place import PickPlaceTask
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.verification.manipulation_trials import held_out, manipulate
from tests.kinds.manipulator.guard_loop import panda
from tests.support.arms import write_posture_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = panda()
NAMES = tuple(f"{camera}_image{age}" for camera in ("wrist", "scene") for age in ("", "_age"))


class _Looking(ReachTask):
    inputs = (*ReachTask.inputs, *NAMES)


TASK = _Looking(episode_s=0.6, tolerance_m=0.3)


def test_trials_over_topics_are_those_in_process_unless_the_guard_holds_the_policy_back(tmp_path: Path) -> None:
    """What is commanded depends on every pixel of two cameras, and on how old their pictures are."""
    rest = np.array([drive.rest for drive in ROBOT.drives])
    names = ("joint_position", "goal_position", *NAMES)
    weights = {"wrist_image": 1e-10, "scene_image": -1e-10, "wrist_image_age": 1e-3, "scene_image_age": 1e-3}
    gentle = write_posture_policy(tmp_path / "gentle.onnx", ROBOT, rest, speed=0.1, inputs=names, weights=weights)
    trials, policy = held_out(TASK, ROBOT, 3, 1), load_policy(gentle, robot=ROBOT)
    told: list[int] = []
    over_topics = run_episodes(
        ManipulationRecorder,
        gentle,
        trials,
        ROBOT,
        task=TASK,
        seed=5,
        on_progress=lambda done, count: told.append(done),
    )
    in_process = manipulate(policy, TASK, ROBOT, trials, "mujoco", seed=5)
    assert over_topics.simulator == "mujoco (topics)" and told == [1, 2, 3]
    np.testing.assert_allclose(over_topics.distance_m, in_process.distance_m, rtol=0.0, atol=1e-9)
    assert np.ptp(in_process.distance_m, axis=0).min() > 0.01  # it moved
    assert over_topics.interventions is not None and over_topics.interventions.tolist() == [0, 0, 0]
    assert over_topics.latency_s is not None and (over_topics.latency_s > 0.0).all()
    at_once = {**ROBOT.cameras, "scene": replace(ROBOT.cameras["scene"], latency_s=0.0)}
    one = trials.take(np.arange(1))
    other = manipulate(policy, TASK, replace(ROBOT, cameras=at_once), one, "mujoco", seed=5)
    assert np.abs(other.distance_m[:, 0] - in_process.distance_m[:, 0]).max() > 1e-6  # it looked

    wild = write_posture_policy(tmp_path / "wild.onnx", ROBOT, rest + 1.0, speed=20.0)
    held = run_episodes(ManipulationRecorder, wild, one, ROBOT, task=TASK, seed=5)
    free = manipulate(load_policy(wild, robot=ROBOT), TASK, ROBOT, one, "mujoco", seed=5)
    gone = [np.abs(one.distance_m[1, 0] - one.distance_m[0, 0]) for one in (held, free)]
    assert gone[0] < 0.7 * gone[1]


def test_trials_with_an_object_run_over_topics(tmp_path: Path) -> None:
    """The object is in the trial's simulator, not in a world of the deployment."""
    task = PickPlaceTask(episode_s=0.4)
    rest = np.array([drive.rest for drive in ROBOT.drives])
    names = ("joint_position", "goal_position", "object_position")
    still = write_posture_policy(
        tmp_path / "still.onnx", ROBOT, rest, speed=0.1, inputs=names, weights={"object_position": 1e-3}
    )
    trials = held_out(task, ROBOT, 2, 1)
    over_topics = run_episodes(ManipulationRecorder, still, trials, ROBOT, task=task, seed=5)
    in_process = manipulate(load_policy(still, robot=ROBOT), task, ROBOT, trials, "mujoco", seed=5)
    np.testing.assert_allclose(over_topics.distance_m, in_process.distance_m, rtol=0.0, atol=1e-9)


class _Told(TablePushTask):
    moved = "tool_position"


def test_each_trial_has_its_own_sentence_over_topics(tmp_path: Path) -> None:
    task = _Told(episode_s=0.4, tolerance_m=0.02)
    rest = np.array([drive.rest for drive in ROBOT.drives])
    told = write_posture_policy(
        tmp_path / "told.onnx",
        ROBOT,
        rest,
        speed=0.1,
        inputs=("joint_position", "instruction"),
        weights={"instruction": 1e-7},
        words=task.text.words,
    )
    trials, policy = held_out(task, ROBOT, 3, 1), load_policy(told, robot=ROBOT)
    over_topics = run_episodes(ManipulationRecorder, told, trials, ROBOT, task=task, seed=5)
    in_process = manipulate(policy, task, ROBOT, trials, "mujoco", seed=5)
    np.testing.assert_allclose(over_topics.distance_m, in_process.distance_m, rtol=0.0, atol=1e-9)
    silent = replace(trials, instruction=np.zeros_like(trials.instruction))
    other = manipulate(policy, task, ROBOT, silent, "mujoco", seed=5)
    assert (np.abs(other.distance_m[-1] - in_process.distance_m[-1]) > 1e-6).all()  # it listened


def test_an_object_in_another_frame_moves_no_arm_and_is_said(tmp_path: Path, listener: Listener) -> None:
    from rlstack.nodes.policy import PolicyNode

    rest = np.array([drive.rest for drive in ROBOT.drives])
    path = write_posture_policy(tmp_path / "policy.onnx", ROBOT, rest, inputs=("joint_position", "object_position"))
    node = PolicyNode(load_policy(path, robot=ROBOT), namespace="/panda", context=listener.context)
    sentences: list[str] = []
    node.warn = lambda sentence, key="": sentences.append(sentence)  # type: ignore[method-assign]
    state = JointMessage(topics.type_of(topics.JOINT_STATES)(), [drive.name for drive in ROBOT.drives])
    states, things = (
        listener.node.create_publisher(topics.type_of(topic), f"/panda/{topic}", topics.quality("sensor_out"))
        for topic in (topics.JOINT_STATES, topics.OBJECT)
    )
    commands = listener.hear(topics.POLICY_PREFIX + topics.JOINT_COMMAND, "command", robot="panda")
    frame, stamps = "scene_optical_frame", iter(range(10_000_000, 10**12, 10_000_000))

    def say() -> None:
        stamp = next(stamps)
        things.publish(pose_message(np.array([0.5, 0.1, 0.02]), stamp_ns=stamp, frame=frame))
        states.publish(state.fill(stamp, rest, np.zeros(9)))

    listener.executor.add_node(node)
    try:
        node.start()
        listener.node.create_timer(0.01, say)
        listener.until(lambda: node.status()[1]["refused"] > 10, "refusals")
        assert not commands and node.status()[0] == "waiting for object"
        assert set(sentences) == {
            "A message on the topic /panda/object was refused: it is in the frame 'scene_optical_frame', and there is"
            " no frame odom on /tf; nothing publishes transforms: publish the transform, or give it in odom."
        }
        frame = "odom"
        listener.until(lambda: commands, "a command")
        frame = "scene_optical_frame"
        listener.until(lambda: node.status()[1]["stale"], "what was said before no longer counts")
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_an_arm_whose_driver_paused_goes_on_and_a_stop_of_numbers_alone_is_silence(listener: Listener) -> None:
    """Stamps are the system's clock, and a forward position controller takes the targets."""
    from rclpy.serialization import serialize_message
    from std_srvs.srv import SetBool, Trigger

    from rlstack.nodes.guard import GuardNode

    names, rest = [drive.name for drive in ROBOT.drives], np.array([drive.rest for drive in ROBOT.drives])
    parameters = {"robot": "panda", "cmd_joints_type": "Float64MultiArray"}
    node = GuardNode(parameters, namespace="/arm", context=listener.context)
    sent: list[int] = []
    listener.node.create_subscription(
        topics.message_type(topics.PLAIN_JOINTS),
        "/arm/cmd/joints",
        lambda message: sent.append(len(message.data)),
        topics.quality("command"),
    )
    modes = listener.hear(topics.GUARD_MODE, "latched", robot="arm")
    states, targets = JointMessage(topics.type_of(topics.JOINT_STATES)(), names), TrajectoryMessage(names)
    pauses = False

    def drive() -> None:
        if not pauses:
            now = time.time_ns()
            node._on_observation(serialize_message(states.fill(now, rest, np.zeros(9))))
            node._on_policy(serialize_message(targets.fill(now, rest)))

    listener.executor.add_node(node)
    node.start()
    try:
        listener.node.create_timer(0.01, drive)
        listener.until(lambda: node.guard.in_a_row > 20, "steady observations")
        assert listener.call(SetBool, "/arm/arm", SetBool.Request(data=True)).success
        listener.until(lambda: sent and modes[-1].data == "policy", "commands that are passed on")
        pauses = True
        listener.until(lambda: modes[-1].data == "hold", "the guard holds the arm")
        listener.spin(0.8)
        pauses = False
        before = len(modes)
        listener.until(lambda: modes[-1].data == "policy", "the policy goes on")
        assert "disarmed" not in [mode.data for mode in modes[before:]], "nobody has to arm it again"
        assert listener.call(Trigger, "/arm/estop", Trigger.Request()).success
        listener.until(lambda: modes[-1].data == "estop", "the stop")
        listener.spin(0.2)
        told = len(sent)
        listener.spin(0.3)
        assert len(sent) == told and set(sent) == {9}, "no message without numbers, by which a controller fails"
    finally:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()

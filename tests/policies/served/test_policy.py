"""A policy on a server, over real gRPC: what is sent, what is done with the answers, and what happens without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.policies import PolicyOutputError
from rlstack.policies.served.policy import ServedPolicy
from rlstack.policies.served.settings import server_settings
from rlstack.robots import load_robot
from tests.support.policy_server import PolicyServer, dumped

SO100, PANDA, BASE = (load_robot(name) for name in ("so100", "panda", "turtlebot3_burger"))
SEEN = {"joint_position": np.array([0.5, 1.0, -1.5, 0.2, -2.0, 1.1])}
NAMES = [f"{joint.name}.pos" for joint in SO100.drives]


def ahead(observed: dict[str, Any]) -> np.ndarray:
    """Return ten steps, each 0.01 further."""
    here = np.array([observed[name] for name in NAMES])
    return here + 0.01 * np.arange(1, 11)[:, None]


@contextmanager
def served(
    policy: Callable[[dict[str, Any]], np.ndarray] = ahead, robot: Any = SO100, options: str = "actions=10"
) -> Iterator[tuple[PolicyServer, ServedPolicy]]:
    server = PolicyServer(policy)
    made = ServedPolicy(server_settings(f"lerobot://127.0.0.1:{server.port}?pretrained=/p&{options}"), robot)
    made.link.start()
    try:
        until(lambda: not made.link.why_not)
        yield server, made
    finally:
        server.stop()
        made.link.close()


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def first_actions(policy: ServedPolicy, seen: dict[str, Any] = SEEN) -> None:
    """Step until there are actions."""
    policy.step(seen)
    until(lambda: policy.link.counts.chunks == 1)


def test_observations_are_what_lerobot_s_server_expects() -> None:
    given = {
        "joint_position": np.linspace(0.0, 0.8, 9),
        "wrist_image": np.full((84, 84, 3), 7, np.uint8),
        "scene_image": np.full((84, 84, 3), 9, np.uint8),
    }
    options = "actions=10&type=smolvla&device=cuda&task=Pick%20it.&cameras=wrist,scene"
    with served(lambda seen: np.zeros((10, 9)), PANDA, options) as (server, policy):
        first_actions(policy, given)
        config, seen = server.configs[0], server.observations[0]
    state = config.lerobot_features["observation.state"]
    assert (config.policy_type, config.pretrained_name_or_path, config.device) == ("smolvla", "/p", "cuda")
    assert config.actions_per_chunk == 10 and state["shape"] == (9,) and state["names"][0] == "panda_joint1.pos"
    assert config.lerobot_features["observation.images.wrist"]["shape"] == (84, 84, 3)
    assert seen.observation["task"] == "Pick it." and seen.observation["panda_finger_joint2.pos"] == 0.8
    assert seen.observation["scene"].dtype == np.uint8 and seen.observation["scene"].mean() == 9.0


def test_large_images_come_in_parts() -> None:
    wide = np.random.default_rng(0).integers(0, 255, (1200, 1600, 3), dtype=np.uint8)
    with served() as (server, policy):
        policy._pictures = {"wrist": "wrist_image"}
        first_actions(policy, {**SEEN, "wrist_image": wide})
        assert np.array_equal(server.observations[0].observation["wrist"], wide)


def test_actions_follow_each_other_and_the_next_are_asked_for_before_they_run_out() -> None:
    with served() as (server, policy):
        first = policy.step(SEEN)["joint_target"]
        assert np.array_equal(first, SEEN["joint_position"]), "it stays as it is until there are actions"
        until(lambda: policy.link.counts.chunks == 1)
        for step in range(1, 6):
            expected = SEEN["joint_position"] + 0.01 * step
            np.testing.assert_allclose(policy.step(SEEN)["joint_target"], expected, atol=1e-6)
        until(lambda: policy.link.counts.chunks == 2)
        assert [one.timestep for one in server.observations] == [0, 5]
        for _ in range(6):  # 5 are left of the first chunk
            policy.step(SEEN)


def test_degrees_are_converted_both_ways() -> None:
    with served(options="actions=10&units=degrees&reverse=elbow_flex") as (server, policy):
        first_actions(policy)
        target = policy.step(SEEN)["joint_target"]
        assert server.observations[0].observation["elbow_flex.pos"] == pytest.approx(np.degrees(1.5 - 0.5 * 3.14158))
        expected = SEEN["joint_position"] + np.radians([0.01, 0.01, -0.01, 0.01, 0.01, np.degrees(0.01 * 2.2 / 100)])
        np.testing.assert_allclose(target, expected, atol=1e-5)


def test_a_reset_forgets_the_actions_and_those_on_their_way() -> None:
    with served() as (server, policy):
        server.delay_s = 0.1
        policy.step(SEEN)
        until(lambda: server.observations)
        policy.reset()
        until(lambda: policy.link.counts.chunks == 1)
        until(lambda: policy.link.is_free)
        still = policy.step(SEEN)["joint_target"]
        assert np.array_equal(still, SEEN["joint_position"]), "the answer was to the episode before"
        until(lambda: policy.link.counts.chunks == 2)
        assert policy.step(SEEN)["joint_target"][0] == pytest.approx(0.51)


def test_without_a_server_there_is_no_command_and_it_serves_again_when_it_is_back() -> None:
    with served() as (server, policy):
        first_actions(policy)
        server.stop()

        def fails() -> bool:
            try:
                policy.step(SEEN)
            except PolicyOutputError as error:
                return "does not serve" in str(error)
            return False

        until(fails)
        again = PolicyServer(ahead, server.port)
        try:
            until(lambda: not policy.link.why_not)
            assert policy.link.counts.lost == 1
            with pytest.raises(PolicyOutputError, match="has sent no action for the step"):
                policy.step(SEEN)  # the guard has the robot, and decides when the policy has it again
            until(lambda: policy.link.counts.chunks == 2)
            policy.step(SEEN)
            assert again.configs[0].pretrained_name_or_path == "/p"
        finally:
            again.stop()


def test_a_late_answer_is_left_out_and_the_next_one_counts() -> None:
    with served(options="actions=10&timeout=0.1") as (server, policy):
        first_actions(policy)
        server.delay_s = 0.25
        while policy._queue:
            policy.step(SEEN)
        until(lambda: policy.link.counts.late)
        with pytest.raises(PolicyOutputError, match="has sent no action"):
            policy.step(SEEN)
        server.delay_s = 0.0

        def moves() -> bool:
            try:
                policy.step(SEEN)
            except PolicyOutputError:
                return False
            return True

        until(moves)
        assert policy.link.counts.lost == 0


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (dumped(np.full((10, 6), np.nan), 0, 1.0), "is not finite"),
        (dumped(np.zeros((10, 7)), 0, 1.0), "the robot takes"),
        (b"no pickle", "cannot be read"),
    ],
)
def test_refused_answers_end_the_actions_at_once(answer: bytes, says: str) -> None:
    with served() as (server, policy):
        first_actions(policy)
        server.answer = answer
        for _ in range(5):
            policy.step(SEEN)
        until(lambda: policy.link.counts.refused)
        assert says in policy.link.counts.last_refusal
        with pytest.raises(PolicyOutputError):
            policy.step(SEEN)


def test_a_base_stands_until_it_has_actions() -> None:
    sensed = {"linear_velocity": np.zeros(3), "angular_velocity": np.zeros(3)}
    with served(lambda seen: np.tile([0.1, 0.5], (10, 1)), BASE) as (_, policy):
        assert policy.step(sensed)["twist"].tolist() == [0.0, 0.0]
        until(lambda: policy.link.counts.chunks == 1)
        assert policy.step(sensed)["twist"] == pytest.approx([0.1, 0.5])


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("lerobot://127.0.0.1?pretrained=/p", "give host and port alone"),
        ("lerobot://127.0.0.1:8080", "does not say which policy"),
        ("lerobot://127.0.0.1:8080?pretrained=/p&rate=0", "rate=0: give a number from 1 to 200"),
        ("lerobot://127.0.0.1:8080?pretrained=/p&speed=1", "speed"),
        ("grpc://127.0.0.1:8080?pretrained=/p", "takes lerobot://127.0.0.1:8080"),
    ],
)
def test_wrong_addresses_are_refused(uri: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        server_settings(uri)


def test_a_camera_that_no_policy_takes_is_refused() -> None:
    with pytest.raises(UserError, match="cameras: 'hand' is not allowed: policies take wrist, scene"):
        ServedPolicy(server_settings("lerobot://127.0.0.1:8080?pretrained=/p&cameras=hand"), PANDA)

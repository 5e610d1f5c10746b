"""The real policy file, onnxruntime and the real batch simulator; only the policies are tiny and hand-written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import Envelope, Policy, contract_for, load_policy, write_policy
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_score import score_flights
from rlstack.verification.flight_trials import _PathAhead, rollout
from tests.policies.graphs import path_contract, path_model
from tests.support.paths import circles
from tests.support.policies import write_tracking_policy

pytest.importorskip("llvmlite")

HOVER = "hover = Constant <value_floats = [{0}, {0}, {0}, {0}]> ()"

ALTITUDE = """
    <ir_version: 8, opset_import: ["" : 17]>
    altitude (float[batch, 3] position, float[batch, 3] linear_velocity, float[batch, 3] goal_position)
        => (float[batch, 4] rotor_speed)
    {{
        error = Sub(goal_position, position)
        pull = Constant <value = float[3, 4] {{0, 0, 0, 0, 0, 0, 0, 0, 600, 600, 600, 600}}> ()
        brake = Constant <value = float[3, 4] {{0, 0, 0, 0, 0, 0, 0, 0, -300, -300, -300, -300}}> ()
        up = MatMul(error, pull)
        down = MatMul(linear_velocity, brake)
        change = Add(up, down)
        {hover}
        speed = Add(change, hover)
        low = Constant <value = float {{0}}> ()
        high = Constant <value = float {{{high}}}> ()
        rotor_speed = Clip(speed, low, high)
    }}
"""
"""A damped spring in z, for a quadrotor that stays level."""

VELOCITY = """
    <ir_version: 8, opset_import: ["" : 17]>
    echo (float[batch, 3] linear_velocity, float[batch, 4] goal_orientation) => (float[batch, 4] rotor_speed)
    {{
        pick = Constant <value = float[3, 4] {{100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0}}> ()
        chosen = MatMul(linear_velocity, pick)
        add = Constant <value = float[4, 4] {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0}}> ()
        heading = MatMul(goal_orientation, add)
        change = Add(chosen, heading)
        {hover}
        rotor_speed = Add(change, hover)
    }}
"""
"""Says what it senses: 100 times the velocity in the first three commands, the goal's z in the fourth."""

COUNTER = """
    <ir_version: 8, opset_import: ["" : 17]>
    counter (float[batch, 3] position, float[batch, 1] state_count)
        => (float[batch, 4] rotor_speed, float[batch, 1] next_state_count)
    {{
        one = Constant <value = float {{1}}> ()
        next_state_count = Add(state_count, one)
        axis = Constant <value = int64[1] {{1}}> ()
        zero = Constant <value = float {{0}}> ()
        nothing = Mul(position, zero)
        sum = ReduceSum(nothing, axis)
        four = Constant <value = float[1, 4] {{1, 1, 1, 1}}> ()
        wide = MatMul(next_state_count, four)
        rotor_speed = Add(wide, sum)
    }}
"""
"""Commands the number of times it was stepped, which a recurrent state counts."""


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    quiet = load_quadrotor("crazyflie")
    return replace(quiet, sensors={})


def policy(text: str, robot: Quadrotor, folder: Path, **arguments) -> Policy:
    text = text.format(hover=HOVER.format(robot.hover_speed_rad_s), high=robot.rotor_model.speed_max_rad_s)
    model = onnx.parser.parse_model(text)
    for value in (*model.graph.input, *model.graph.output):  # the text form has no dots in names
        value.name = value.name.replace("state_", "state.")
    for node in model.graph.node:
        node.input[:] = [name.replace("state_", "state.") for name in node.input]
        node.output[:] = [name.replace("state_", "state.") for name in node.output]
    inputs = [i.name for i in model.graph.input if not i.name.startswith("state.")]
    contract = contract_for(robot, inputs, ["rotor_speed"], name="tiny", task="quadrotor_hover", **arguments)
    write_policy(model, contract, folder / "policy.onnx")
    return load_policy(folder / "policy.onnx", robot=robot)


def at_rest(robot: Quadrotor, position: list[list[float]], **changes) -> Scenario:
    count = len(position)
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    state = {
        "position": np.array(position, dtype=float),
        "orientation": upright,
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, 4), robot.hover_speed_rad_s),
    }
    scenario = Scenario(state, np.zeros((count, 3)), np.zeros(count), Perturbation.none(count), np.array(["a"] * count))
    return replace(scenario, **changes)


def test_a_policy_flies_to_its_goal(robot, tmp_path):
    climb = policy(ALTITUDE, robot, tmp_path)
    goal = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [5.0, 0.0, 1.0]])
    scenario = at_rest(
        robot, [[0, 0, 0], [0, 0, 2.0], [5.0, 0, 1.5]], goal_position=goal, labels=np.array(["up", "stay", "down"])
    )
    calls: list[tuple[int, int]] = []
    episodes = rollout(climb, scenario, robot, 8.0, lambda done, total: calls.append((done, total)))
    assert episodes.position.shape == (801, 3, 3) and episodes.command.shape == (801, 3, 4)
    assert calls == [(k, 800) for k in range(1, 801)]
    np.testing.assert_allclose(episodes.position[0], scenario.state["position"])
    np.testing.assert_allclose(episodes.position[-1, :, 2], goal[:, 2], atol=5e-3)
    np.testing.assert_allclose(episodes.position[:, 1, 2], goal[1, 2], atol=1e-3)
    # Nothing holds the attitude: the rounding of float32 tilts it, which grows with the fourth power of time.
    np.testing.assert_allclose(episodes.position[-1, :, :2], goal[:, :2], atol=0.05)
    np.testing.assert_allclose(episodes.command[-1], robot.hover_speed_rad_s, rtol=1e-2)
    result = score_flights(episodes, SuccessCriteria())
    assert result["success"] == 1.0 and list(result.groups) == ["up", "stay", "down"]
    assert result["latency_p50_ms"] is None and result["interventions"] == 0 and result["wall_s"] > 0


def test_the_policy_senses_velocity_in_base_link_and_the_goals_heading(robot, tmp_path):
    echo = policy(VELOCITY, robot, tmp_path)
    scenario = at_rest(robot, [[0, 0, 0], [0, 0, 0]], goal_yaw=np.array([0.0, np.pi]))
    scenario.state["orientation"][1] = frames.from_yaw(np.pi / 2)
    scenario.state["linear_velocity"][:] = [1.0, 0.0, 0.5]
    said = rollout(echo, scenario, robot, 0.0).command[0] - robot.hover_speed_rad_s
    np.testing.assert_allclose(said[0], [100, 0, 50, 0], atol=1e-3)
    np.testing.assert_allclose(said[1], [0, -100, 50, 100], atol=1e-3)


def test_noise_is_that_of_the_robot_file_and_of_the_seed(robot, tmp_path):
    noisy = load_quadrotor("crazyflie")
    echo = policy(VELOCITY, robot, tmp_path)
    scenario = at_rest(robot, [[0.0, 0.0, 0.0]] * 2000)
    first, again, other = (rollout(echo, scenario, noisy, 0.0, noise_seed=s).command[0, :, :3] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    sigma = noisy.sensors["odom"].linear_velocity_noise_m_s
    np.testing.assert_allclose((first - robot.hover_speed_rad_s).std(axis=0), 100 * sigma, rtol=0.1)
    # The record is of what happened, not of what was sensed.
    assert (rollout(echo, scenario, noisy, 0.0).linear_velocity == 0.0).all()


def test_perturbations_reach_the_simulator(robot, tmp_path):
    climb = policy(ALTITUDE, robot, tmp_path)
    heavy = replace(Perturbation.none(2), mass_scale=np.array([1.0, 1.2]))
    episodes = rollout(climb, at_rest(robot, [[0, 0, 0]] * 2, perturbation=heavy), robot, 3.0)
    assert abs(episodes.position[-1, 0, 2]) < 1e-3
    assert episodes.position[-1, 1, 2] < -0.1  # a spring without an integral sags


def test_recurrent_state_starts_at_zero_and_goes_on(robot, tmp_path):
    counter = policy(COUNTER, robot, tmp_path, state={"count": (1,)})
    for _ in range(2):
        command = rollout(counter, at_rest(robot, [[0, 0, 0]] * 3), robot, 0.05).command
        np.testing.assert_array_equal(command, np.broadcast_to(np.arange(1, 7)[:, None, None], (6, 3, 4)))


def test_one_robot_that_leaves_the_numbers_does_not_end_the_others_flights(robot, tmp_path):
    climb = policy(ALTITUDE, robot, tmp_path)
    scenario = at_rest(robot, [[0, 0, 0]] * 2)
    scenario.state["linear_velocity"][1] = [9.9e3, 0.0, 0.0]
    force = replace(Perturbation.none(2), force_n=np.array([[0, 0, 0], [1e3, 0, 0.0]]))
    episodes = rollout(climb, replace(scenario, perturbation=force), robot, 8.0)
    assert np.isnan(episodes.position[-1, 1]).all() and np.isfinite(episodes.position[:, 0]).all()
    result = score_flights(episodes, SuccessCriteria())
    assert (result["success"], result["lost"]) == (0.5, 0.5)


def test_the_path_is_seen_from_each_moment_and_is_what_the_error_is_measured_against(robot, tmp_path):
    write_policy(path_model(), path_contract(state={"calls": (4,)}), tmp_path / "path.onnx")
    telling = load_policy(tmp_path / "path.onnx", robot=robot)  # 100 rad/s for each metre to where the path is due
    scenario = circles(robot, 3, seconds=1.0, points=11)
    episodes = rollout(telling, scenario, robot, 0.5)
    calls = 10.0 * np.arange(51)[:, None, None]
    apart = (episodes.command - 1000.0 - calls)[..., :3] / 100.0
    np.testing.assert_allclose(apart, episodes.goal_position - episodes.position, atol=1e-4)
    np.testing.assert_allclose(episodes.goal_position[20], scenario.path.at(0.2), atol=1e-12)
    np.testing.assert_allclose(episodes.error_m, np.linalg.norm(apart, axis=-1), atol=1e-4)


def test_a_path_is_followed(robot, tmp_path):
    follows = load_policy(write_tracking_policy(tmp_path / "policy.onnx", robot), robot=robot)
    scenario = circles(robot, 4)
    episodes = rollout(follows, scenario, robot, 8.0)
    result = score_flights(episodes, SuccessCriteria())
    assert result["success"] == 1.0 and result["lost"] == 0.0
    assert 0.01 < result["rmse_m"] < 0.15
    stays = replace(episodes, position=np.zeros_like(episodes.position))
    assert score_flights(stays, SuccessCriteria())["rmse_m"] > 0.5


def test_a_policy_whose_envelope_says_how_far_it_looks_is_shown_that_much_and_flies_the_same(robot, tmp_path):
    flights = circles(robot, 3)
    policy = load_policy(write_tracking_policy(tmp_path / "policy.onnx", robot))
    whole = rollout(policy, flights, robot, 3.0)
    policy.contract = replace(policy.contract, envelope=Envelope(conditions={"path_ahead_s": 0.0}))
    shown, step = [], policy.step

    def watched(inputs):
        shown.append(inputs["path_time"].shape[1])
        return step(inputs)

    policy.step = watched
    flown = rollout(policy, flights, robot, 3.0)
    assert set(shown) <= {2, 3}  # of 81
    np.testing.assert_allclose(flown.position, whole.position, atol=1e-5)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.floats(-1.0, 12.0), st.floats(0.0, 2.0), st.booleans())
def test_what_is_shown_of_a_path_is_the_same_as_far_as_can_be_seen(seed, now, ahead, on_a_pose):
    rng = np.random.default_rng(seed)
    count, poses = 3, int(rng.integers(2, 30))
    time = np.cumsum(rng.uniform(0.05, 1.0, (count, poses)), axis=1)
    path = Paths(time, rng.normal(size=(count, poses, 3)), np.zeros((count, poses)))
    now = float(time[0, poses // 2]) if on_a_pose else now
    seen = _PathAhead(path, ahead).at(now)
    assert seen["path_time"].shape[1] >= 2
    assert len({array.shape[:2] for array in seen.values()}) == 1
    for later in np.linspace(0.0, ahead, 5):
        for i in range(count):
            for axis in range(3):
                shown = np.interp(later, seen["path_time"][i], seen["path_position"][i, :, axis])
                np.testing.assert_allclose(shown, np.interp(now + later, time[i], path.position[i, :, axis]), atol=1e-9)


def test_a_policy_that_follows_a_path_needs_one(robot, tmp_path):
    follows = load_policy(write_tracking_policy(tmp_path / "policy.onnx", robot), robot=robot)
    with pytest.raises(UserError, match="wants path_time, path_position, but this scenario has no path"):
        rollout(follows, at_rest(robot, [[0, 0, 0]]), robot, 1.0)


def test_what_cannot_be_flown_is_refused(robot, tmp_path):
    climb = policy(ALTITUDE, robot, tmp_path)
    with pytest.raises(UserError, match="robot"):
        rollout(climb, at_rest(robot, [[0, 0, 0]]), replace(robot, name="other"), 1.0)
    with pytest.raises(UserError, match="no episodes"):
        rollout(climb, at_rest(robot, [[0, 0, 0]]).take(slice(0, 0)), robot, 1.0)
    with pytest.raises(UserError, match="no device 'abacus'"):
        rollout(climb, at_rest(robot, [[0, 0, 0]]), robot, 1.0, device="abacus")
    accelerometer = policy(ALTITUDE.replace("linear_velocity", "linear_acceleration"), robot, tmp_path)
    with pytest.raises(UserError, match="wants linear_acceleration"):
        rollout(accelerometer, at_rest(robot, [[0, 0, 0]]), robot, 1.0)

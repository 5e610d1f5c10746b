"""Leading an arm by hand: the tool goes where it is led, no limit is ever broken, and what was clipped is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.teleoperation import LEAD_S, ArmTeleoperator
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)
CHAIN = chain_of(PANDA)
LOWER, UPPER, VELOCITY, REST = (
    np.array([getattr(drive, what) for drive in PANDA.drives]) for what in ("lower", "upper", "velocity_max", "rest")
)
LEADER = ArmTeleoperator(PANDA)
STILL = np.zeros(3)


def tool(joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    motion = tool_motion(CHAIN.screws, joints[None, :7])
    return motion.position[0], motion.rotation[0]


def lead(steps: int, linear: object, angular: object = STILL, **more: object) -> tuple[np.ndarray, set[str]]:
    """Return the joints after some steps of 20 ms, and all that was said, with joints that follow at once."""
    LEADER.release()
    joints, said = REST.copy(), set[str]()
    for _ in range(steps):
        led = LEADER.step(joints, 0.02, np.array(linear), np.array(angular), **more)  # type: ignore[arg-type]
        joints, said = led.target, said | set(led.clipped)
    return joints, said


def test_the_tool_goes_where_it_is_led_and_turns_with_it() -> None:
    (before, turned), (joints, said) = tool(REST), lead(50, [0.05, -0.1, 0.02], [0.0, 0.0, 0.3])
    after, turn = tool(joints)
    np.testing.assert_allclose(after - before, [0.05, -0.1, 0.02], atol=2e-3)
    yaw = np.array([[np.cos(0.3), -np.sin(0.3), 0.0], [np.sin(0.3), np.cos(0.3), 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(turn, yaw @ turned, atol=3e-3)
    assert not said and np.array_equal(joints[7:], REST[7:])
    along = tool(lead(10, [0.0, 0.0, 0.2], in_tool=True)[0])[0] - before
    np.testing.assert_allclose(along, 0.04 * turned[:, 2], atol=1e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_arm_of_five_joints_goes_where_it_is_led(axis: int) -> None:
    robot = load_robot("so100")
    assert isinstance(robot, Manipulator)
    chain, leader = chain_of(robot), ArmTeleoperator(robot)
    joints = rest = np.array([drive.rest for drive in robot.drives])
    for _ in range(20):
        joints = leader.step(joints, 0.05, 0.1 * np.eye(3)[axis], STILL).target
    before, after = (tool_motion(chain.screws, q[None, list(chain.index)]).position[0] for q in (rest, joints))
    np.testing.assert_allclose(after - before, 0.1 * np.eye(3)[axis], atol=3e-3)  # with 6 rows alike: 8 cm aside


def test_the_gripper_closes_and_stays_closed() -> None:
    joints, _ = lead(5, STILL, gripper=-1.0)
    np.testing.assert_allclose(joints[7:], REST[7:] - 0.1 * VELOCITY[7:])
    assert lead(100, STILL, gripper=-1.0)[0][7:].tolist() == [0.0, 0.0]


def test_what_is_clipped_is_said() -> None:
    assert "The tool is slowed to 1.7 m/s." in lead(1, [9.0, 0.0, 0.0])[1]
    assert "The tool's turn is slowed to 2 rad/s." in lead(1, STILL, [0.0, 0.0, 4.0])[1]
    joints, said = lead(150, [0.0, 0.0, -0.3])
    assert "The tool is kept in the workspace, z >= 0 m." in said and tool(joints)[0][2] >= -1e-3
    said = lead(300, [0.5, 0.0, 0.0])[1]  # stretched
    assert any("is slowed to" in sentence and "rad/s only" in sentence for sentence in said)
    said = lead(260, STILL, [0.0, 0.0, 1.0])[1]
    assert any(sentence.startswith("panda_joint7 is at its limit, -2.897") for sentence in said)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 20.0), st.floats(1e-4, 3.0))
def test_no_limit_is_broken_whatever_a_hand_does(seed: int, wild: float, period_s: float) -> None:
    rng = np.random.default_rng(seed)
    joints = rng.uniform(LOWER, UPPER)
    joints[0] = joints[2] = joints[4] = 0.0
    LEADER.release()
    last = joints
    for _ in range(8):
        led = LEADER.step(joints, period_s, *(wild * rng.normal(size=(2, 3))), gripper=float(rng.normal()))
        assert np.isfinite(led.target).all()
        assert (led.target >= LOWER).all() and (led.target <= UPPER).all()
        assert (np.abs(led.target - last) <= VELOCITY * min(period_s, 0.1) * (1 + 1e-9) + 1e-12).all()
        last = joints = led.target


@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_an_arm_that_was_stretched_is_pulled_back_without_a_plunge(name: str) -> None:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    chain, leader = chain_of(robot), ArmTeleoperator(robot, speed_m_s=0.2)
    joints = np.array([drive.rest for drive in robot.drives])
    way = []
    for forward in (0.2, -0.2):
        for _ in range(400):
            joints = leader.step(joints, 0.01, np.array([forward, 0.0, 0.0]), STILL).target
            way.append(tool_motion(chain.screws, joints[None, list(chain.index)]).position[0])
    places = np.array(way)
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() <= 0.2 * 0.01 * 1.02
    assert places[399:, 2].min() > places[399, 2] - 0.02, "pulled back it does not sink: 35 cm it did"
    assert places[399, 0] - places[-1, 0] > 0.2, "it does come back"


def test_the_tool_of_an_arm_that_follows_a_leader_arm_is_no_faster_than_it_may_be() -> None:
    robot = load_robot("ur5e")
    assert isinstance(robot, Manipulator)
    chain, leader = chain_of(robot), ArmTeleoperator(robot)
    joints = np.array([drive.rest for drive in robot.drives])
    names = [drive.name for drive in robot.drives]
    leader.follow(joints, 0.01, dict(zip(names, joints)))  # it is there
    said, fastest, wanted = set[str](), 0.0, joints + 0.8 * (np.arange(len(names)) < 6)
    for _ in range(300):
        led = leader.follow(joints, 0.01, dict(zip(names, wanted)))
        before, after = (tool_motion(chain.screws, q[None, :6]).position[0] for q in (joints, led.target))
        fastest, joints, said = max(fastest, np.linalg.norm(after - before) / 0.01), led.target, said | set(led.clipped)
    np.testing.assert_allclose(joints, wanted, atol=1e-6)
    assert 0.95 < fastest <= 1.03 and "The tool is slowed to 1 m/s." in said, fastest


def test_what_another_moved_is_not_moved_back_and_what_is_held_stays_held() -> None:
    lead(20, [0.0, 0.1, 0.0], gripper=-1.0)
    elsewhere = REST + 0.3 * np.eye(9)[1]
    LEADER.give_way(elsewhere)
    target = LEADER.step(elsewhere, 0.02, STILL, STILL).target
    np.testing.assert_allclose(target[:7], elsewhere[:7])
    assert (target[7:] < elsewhere[7:]).all(), "the fingers go on closing"
    LEADER.release()
    LEADER.give_way(elsewhere)
    np.testing.assert_allclose(LEADER.step(REST, 0.02, STILL, STILL).target, REST)


def test_what_is_held_stays_held_by_whoever_takes_up() -> None:
    LEADER.release()
    closing = REST - 0.005 * np.eye(9)[7]  # fingers that press on something
    LEADER.take_up(closing)
    np.testing.assert_allclose(LEADER.step(REST, 0.02, STILL, STILL).target, closing)
    LEADER.take_up()
    np.testing.assert_allclose(LEADER.step(REST, 0.02, STILL, STILL).target, closing)
    LEADER.take_up(REST + 1.0)
    target = LEADER.step(REST, 0.02, STILL, STILL).target
    assert (target - REST <= LEAD_S * VELOCITY + 1e-9).all(), "as far as an arm may be led"
    LEADER.release()
    np.testing.assert_allclose(LEADER.step(REST, 0.02, STILL, STILL).target, REST)


def test_an_arm_that_is_held_up_is_not_run_away_from() -> None:
    LEADER.release()
    for _ in range(100):
        led = LEADER.step(REST, 0.02, np.array([0.0, 0.4, 0.0]), STILL)
    assert (np.abs(led.target - REST) <= (LEAD_S + 0.02) * VELOCITY + 1e-9).all()


def test_a_leader_arm_is_followed_at_the_joints_speed_and_within_their_range() -> None:
    LEADER.release()
    far = {"panda_joint1": 9.0, "panda_finger_joint1": 0.02}
    led = LEADER.follow(REST, 0.02, far)
    np.testing.assert_allclose(led.target - REST, 0.25 * 0.02 * VELOCITY * (np.eye(9)[0] - np.eye(9)[7]))
    assert any("approach the leader arm" in sentence for sentence in led.clipped)
    LEADER.release()
    LEADER.follow(REST, 0.02, {"panda_joint1": REST[0]})  # it is there
    led = LEADER.follow(REST, 0.02, far)
    np.testing.assert_allclose(led.target - REST, 0.02 * VELOCITY * np.eye(9)[0] - 0.02 * VELOCITY * np.eye(9)[7])
    assert "panda_joint1 is kept at its limit, 2.897: 9 was requested." in led.clipped
    assert "The joints follow at their largest speed." in led.clipped
    with pytest.raises(ValueError, match="panda has no joint elbow; it has: panda_joint1"):
        LEADER.follow(REST, 0.02, {"elbow": 0.0})
    with pytest.raises(ValueError, match="panda_joint1 is not finite"):
        LEADER.follow(REST, 0.02, {"panda_joint1": np.nan})
    with pytest.raises(UserError, match=r"speed_m_s: 5 is not allowed: must be above 0 and at most 1\.7"):
        ArmTeleoperator(PANDA, speed_m_s=5.0)
    pair = load_robot("panda_pair")
    assert isinstance(pair, Manipulator)
    with pytest.raises(UserError, match="panda_pair has 2 arms, and teleoperation moves one: use panda"):
        ArmTeleoperator(pair)

"""A human leads an arm over topics: twists become its joints' targets, and a policy goes on while nobody intervenes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlstack.control.teleoperation import LEAD_S
from rlstack.errors import UserError
from rlstack.hardware.devices import TeleopInput
from rlstack.interfaces import topics
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.interfaces.topics import INTERVENE, POLICY_ALONE, TELEOP_GRIPPER, TELEOP_JOINTS, TELEOP_TWIST, TELEOP_TYPES
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.tasks.manipulator.trials import Motion
from tests.support.arms import write_posture_policy
from tests.support.deployed import Up
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)
NAMES = [drive.name for drive in PANDA.drives]
REST = np.array([drive.rest for drive in PANDA.drives])
CHAIN = chain_of(PANDA)

SCRIPT = """\
moves:
  - {steps: 25, intervene: false}
  - {steps: 25, linear: [0, 1, 0], gripper: -1}
  - {steps: 25}
  - {steps: 500, intervene: false}
"""


class Servo:
    """An arm whose joints are at once where they are told to be, 100 times a second."""

    def __init__(self, listener: Listener) -> None:
        self.listener, self.joints, self.moved = listener, REST.copy(), [REST.copy()]
        self.follows = True
        node = listener.node
        self._message = JointMessage(topics.type_of(topics.JOINT_STATES)(), NAMES)
        self._out = node.create_publisher(
            type(self._message.message), "/arm/joint_states", topics.quality("sensor_out")
        )
        topic = "/arm/policy/cmd/joints"
        kind = topics.type_of(topics.JOINT_COMMAND)
        node.create_subscription(kind, topic, self._take, topics.quality("command"))
        self._stamp = 0
        node.create_timer(0.01, self._tick)

    def _tick(self) -> None:
        self._stamp += 10_000_000
        self._out.publish(self._message.fill(self._stamp, self.joints, np.zeros(9)))

    def _take(self, message: Any) -> None:
        if message.joint_names == NAMES and self.follows:
            self.joints = np.array(message.points[0].positions)
            self.moved.append(self.joints)

    @property
    def tool(self) -> np.ndarray:
        return tool_motion(CHAIN.screws, self.joints[None, :7]).position[0]


@pytest.fixture
def started(listener: Listener) -> Iterator[Callable[..., Any]]:
    """Start nodes in this process."""
    made: list[Any] = []

    def start(kind: type, beside: tuple[str, ...] = (), **parameters: Any) -> Any:
        more = {"beside": beside} if beside else {}
        node = kind(parameters, namespace="/arm", context=listener.context, **more)
        made.append(node)
        listener.executor.add_node(node)
        node.start()
        return node

    yield start
    for node in made:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_a_hand_leads_the_tool_and_hands_back_to_the_policy(
    listener: Listener, started: Callable[..., Any], tmp_path: Path
) -> None:
    from rlstack.nodes.teleop import TeleopNode
    from rlstack.nodes.teleop_arm import TeleopArmNode

    script = tmp_path / "moves.yaml"
    script.write_text(SCRIPT)
    arm = Servo(listener)
    began = arm.tool
    node = started(TeleopArmNode, with_policy=True)
    policy = TrajectoryMessage(NAMES)
    alone = listener.node.create_publisher(policy.type, f"/arm/{POLICY_ALONE}", topics.quality("command"))
    elsewhere = REST + 0.3 * np.eye(9)[0]
    listener.node.create_timer(0.05, lambda: alone.publish(policy.fill(7, elsewhere)))
    listener.until(lambda: np.array_equal(arm.joints, elsewhere), "the policy's command is passed on as it is")
    from_there = arm.tool
    assert np.linalg.norm(from_there - began) > 0.08
    started(TeleopNode, device=f"script:{script}")
    listener.until(lambda: node.status()[1]["the human leads"], "the hand takes over")
    before, closed = arm.tool, arm.joints[7]
    listener.until(lambda: not node.status()[1]["the human leads"], "the hand hands back")
    # half a second at 0.2 m/s, less what a busy machine leaves out, and the fingers close meanwhile
    led = [tool_motion(CHAIN.screws, joints[None, :7]).position[0] for joints in arm.moved]
    away = max(float(place[1] - before[1]) for place in led)
    assert 0.02 < away < 0.13, "no further than it was led"
    assert min(joints[7] for joints in arm.moved) < closed - 0.01
    listener.until(lambda: np.array_equal(arm.joints, elsewhere), "the policy goes on")


def test_a_twist_in_a_frame_of_tf_is_turned_and_one_in_an_unknown_frame_is_refused(
    listener: Listener, started: Callable[..., Any]
) -> None:
    from rlstack.nodes.teleop_arm import TeleopArmNode

    arm = Servo(listener)
    node = started(TeleopArmNode)
    kinds = {topic: topics.message_type(TELEOP_TYPES[topic]) for topic in (INTERVENE, TELEOP_TWIST)}
    leads = listener.node.create_publisher(kinds[INTERVENE], f"/arm/{INTERVENE}", topics.quality("latched"))
    twists = listener.node.create_publisher(kinds[TELEOP_TWIST], f"/arm/{TELEOP_TWIST}", topics.quality("command"))
    leads.publish(kinds[INTERVENE](data=True))
    twist = kinds[TELEOP_TWIST]()
    twist.header.frame_id, twist.twist.linear.x = "operator", 0.1
    listener.node.create_timer(0.02, lambda: twists.publish(twist))
    listener.until(lambda: node.status()[0], "the refusal")
    assert "a twist in the frame 'operator' was refused" in node.status()[0] and "on /tf" in node.status()[0]
    assert node.status()[1]["the human leads"] or listener.spin(0.2) is None
    began = arm.tool
    static = listener.node.create_publisher(tf_type(), f"/{topics.TF_STATIC.lstrip('/')}", topics.quality("latched"))
    half = np.sqrt(0.5)
    transform = Transform("base_link", "operator", (1.0, 2.0, 0.0, 0.0, 0.0, half, half))
    static.publish(TfMessage([transform]).data)
    listener.until(lambda: np.linalg.norm(arm.tool - began) > 0.03, "the tool's motion")
    x, y, z = arm.tool - began
    assert y > 0.028 and abs(x) < 0.01 and abs(z) < 0.01
    assert not node.status()[0]


class Keys:
    """A device that a human sits at, who has touched nothing yet."""

    live, keys = True, ""
    hand: TeleopInput | None = TeleopInput()

    def __init__(self, *_: Any) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self) -> TeleopInput:
        if self.hand is None:
            raise UserError("The device is gone.")
        return self.hand


@pytest.mark.parametrize(
    ("beside", "leads"), [(("robot", "guard", "policy"), False), ((), False), (("robot", "guard"), True)]
)
def test_who_touches_no_key_takes_no_policy_over(
    beside: tuple[str, ...],
    leads: bool,
    listener: Listener,
    started: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlstack.nodes.teleop import TeleopNode

    monkeypatch.setattr("rlstack.nodes.teleop.device_called", Keys)
    monkeypatch.setattr(Keys, "hand", TeleopInput())
    told: list[Any] = []
    kind = topics.message_type(TELEOP_TYPES[INTERVENE])
    listener.node.create_subscription(kind, f"/arm/{INTERVENE}", told.append, topics.quality("latched"))
    node = started(TeleopNode, beside)
    listener.until(lambda: told, "who leads is told")
    assert told[-1].data is leads and node.status()[1]["the human leads"] is leads
    monkeypatch.setattr(Keys, "hand", TeleopInput(linear=np.array([0.0, 1.0, 0.0])))
    listener.until(lambda: told[-1].data, "the first motion takes over")
    monkeypatch.setattr(Keys, "hand", TeleopInput())
    listener.spin(0.2)
    assert told[-1].data, "who only pauses has not handed back"
    monkeypatch.setattr(Keys, "hand", TeleopInput(intervene=False))
    listener.until(lambda: not told[-1].data, "`t` hands back")


def test_whose_device_is_gone_has_not_handed_back(
    listener: Listener, started: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlstack.nodes.teleop import TeleopNode

    monkeypatch.setattr("rlstack.nodes.teleop.device_called", Keys)
    monkeypatch.setattr(Keys, "hand", TeleopInput(linear=np.array([0.0, 1.0, 0.0])))
    told: list[Any] = []
    twists: list[Any] = []
    for topic, heard, use in ((INTERVENE, told, "latched"), (TELEOP_TWIST, twists, "command")):
        listener.node.create_subscription(
            topics.message_type(TELEOP_TYPES[topic]), f"/arm/{topic}", heard.append, topics.quality(use)
        )
    node = started(TeleopNode)
    listener.until(lambda: told and told[-1].data and twists, "the human leads")
    monkeypatch.setattr(Keys, "hand", None)
    with pytest.raises(UserError, match=r"gone\. The arm is held: start this again to lead it, or to hand it back"):
        listener.spin(1.0)
    node.stop()
    listener.until(lambda: not twists[-1].twist.linear.y, "it stands still")
    listener.spin(0.2)
    assert told[-1].data, "no policy goes on by itself"


def test_a_policy_is_taken_over_from_with_what_it_holds_and_wrong_joint_states_are_not_believed(
    listener: Listener, started: Callable[..., Any]
) -> None:
    from rlstack.nodes.teleop_arm import TeleopArmNode

    arm = Servo(listener)
    node = started(TeleopArmNode, with_policy=True)
    policy, pressed = TrajectoryMessage(NAMES), REST - 0.005 * np.eye(9)[7]
    alone = listener.node.create_publisher(policy.type, f"/arm/{POLICY_ALONE}", topics.quality("command"))
    flag_type = topics.message_type(TELEOP_TYPES[INTERVENE])
    flag = listener.node.create_publisher(flag_type, f"/arm/{INTERVENE}", topics.quality("latched"))
    sent: list[np.ndarray] = []
    arm.follows = False  # there is something between its fingers

    def take(message: Any) -> None:
        sent.append(np.array(message.points[0].positions))

    command = topics.POLICY_PREFIX + topics.JOINT_COMMAND
    listener.node.create_subscription(policy.type, f"/arm/{command}", take, topics.quality("command"))
    listener.node.create_timer(0.05, lambda: alone.publish(policy.fill(7, pressed)))
    listener.until(lambda: sent and np.array_equal(sent[-1], pressed), "the policy presses")
    flag.publish(flag_type(data=True))
    listener.until(lambda: node.status()[1]["the human leads"], "the human takes over")
    since = len(sent)
    listener.until(lambda: len(sent) > since + 5, "the arm is held")
    np.testing.assert_allclose(sent[-1], pressed, atol=1e-9)
    arm.joints = np.where(np.arange(9) == 6, np.nan, REST)
    listener.spin(0.2)
    since = len(sent)
    listener.spin(0.2)
    assert len(sent) == since, "nothing is said of a joint that is nowhere"
    arm.joints = REST.copy()
    listener.until(lambda: len(sent) > since + 5, "it goes on")
    assert all(np.isfinite(target).all() for target in sent)


def test_a_script_begins_once_it_is_heard_and_the_guard_passes_commands_on(
    listener: Listener, started: Callable[..., Any], tmp_path: Path
) -> None:
    from rlstack.nodes.teleop import TeleopNode
    from rlstack.nodes.teleop_arm import TeleopArmNode

    script = tmp_path / "moves.yaml"
    script.write_text("moves: [{steps: 25, linear: [0, 1, 0]}, {steps: 5000}]")
    kind = topics.type_of(topics.GUARD_MODE)
    modes = listener.node.create_publisher(kind, f"/arm/{topics.GUARD_MODE}", topics.quality("latched"))
    arm, node = Servo(listener), started(TeleopNode, beside=("guard", "teleop_arm"), device=f"script:{script}")

    def waits() -> bool:
        listener.spin(0.2)
        return not node.status()[1]["the human leads"]

    modes.publish(kind(data="policy"))
    assert waits(), "nobody hears it"
    modes.publish(kind(data="disarmed"))
    assert waits()
    started(TeleopArmNode)
    listener.until(lambda: len(arm.moved) > 5, "it is heard")
    assert waits() and np.abs(arm.joints - REST).max() < 1e-9, "the guard is not armed"
    before = arm.tool
    modes.publish(kind(data="policy"))
    listener.until(lambda: arm.tool[1] > before[1] + 0.01, "the script leads from its first step")
    modes.publish(kind(data="hold"))
    assert not waits(), "it goes on"


def test_a_script_is_played_to_a_simulated_arm_as_soon_as_that_is_there(listener: Listener, tmp_path: Path) -> None:
    script = tmp_path / "moves.yaml"
    script.write_text("moves: [{steps: 150, linear: [0, 0.3, 0]}]")
    states = listener.hear(topics.JOINT_STATES, robot="panda")
    with Up("--robot", "panda", "--device", f"script:{script}", "--backend", "mujoco", verb="teleop") as led:
        listener.until(lambda: led.popen.poll() is not None, "the end of the script")
        listener.spin(0.2)  # what the robot node sent last
        assert led.end() == 0 and "Traceback" not in led.seen, led.seen
    assert led.seen.index("disarmed -> policy") < led.seen.index("the human leads"), led.seen
    joints = dict(zip(states[-1].name, states[-1].position))
    moved, began = (
        tool_motion(CHAIN.screws, np.array([at])).position[0, 1] for at in ([joints[n] for n in NAMES[:7]], REST[:7])
    )
    # 3 s at 0.06 m/s; on a busy machine the simulation falls behind, and the script, in real time, does not wait
    assert 0.03 < moved - began < 0.22, f"{moved - began:.3f} m in {len(states)} joint states\n{led.seen}"


def test_a_leader_arm_is_followed_and_what_makes_no_sense_is_not(
    listener: Listener, started: Callable[..., Any]
) -> None:
    from rlstack.nodes.teleop_arm import TeleopArmNode
    from rlstack.nodes.teleop_topics import TopicDevice

    arm = Servo(listener)
    node = started(TeleopArmNode, timeout_s=0.2)

    def publisher(topic: str, use: topics.Quality) -> Any:
        kind = topics.message_type(TELEOP_TYPES[topic])
        return kind, listener.node.create_publisher(kind, f"/arm/{topic}", topics.quality(use))

    (joints_type, joints), (twist_type, twist) = publisher(TELEOP_JOINTS, "command"), publisher(TELEOP_TWIST, "command")
    (flag_type, flag) = publisher(INTERVENE, "latched")
    listener.until(lambda: len(arm.moved) > 5, "without a policy the arm is held")
    assert np.abs(arm.joints - REST).max() < 1e-9
    flag.publish(flag_type(data=True))
    listener.until(lambda: node.status()[1]["the human leads"], "the human leads")
    wanted = joints_type(name=["panda_joint1"], position=[9.0])

    def lead() -> bool:
        joints.publish(wanted)
        return "limit, 2.897" in node.status()[1]["clipped last"]

    listener.until(lead, "what breaks a limit is clipped, and said")
    listener.until(lambda: arm.joints[0] > 0.0, "the arm follows")
    after = arm.joints[0]
    listener.spin(0.4)
    assert arm.joints[0] - after < (0.25 + LEAD_S) * 2.175, "nothing has come any more: it is held"
    at = arm.joints.copy()
    for bad in ("odom", "base_link"):
        message = twist_type()
        message.header.frame_id = bad
        message.twist.linear.y = 0.2 if bad == "odom" else float("nan")
        twist.publish(message)
        listener.spin(0.1)
    np.testing.assert_allclose(arm.joints, at, atol=1e-9)

    device = TopicDevice("arm", Motion())
    device.open()
    try:
        message = twist_type()
        message.twist.linear.x, message.twist.angular.z = 0.2, -0.75
        until = time.monotonic() + 10.0
        while not ((hand := device.read()).linear.any() and hand.intervene) and time.monotonic() < until:
            twist.publish(message)
            time.sleep(0.02)
        np.testing.assert_allclose([*hand.linear, *hand.angular], [0.5, 0, 0, 0, 0, -0.5])
        assert hand.intervene, "it was said before this came"
        time.sleep(0.3)
        assert device.read().idle, "whoever has gone leads no more"
        until = time.monotonic() + 10.0
        while (hand := device.read()).joints is None and time.monotonic() < until:
            joints.publish(wanted)
            time.sleep(0.02)
        assert hand.joints == {"panda_joint1": 9.0}, "a leader arm's joints come as they are"
    finally:
        device.close()


def test_a_node_that_leads_forgets_what_was_before_a_reset_and_what_the_guard_moved_since(
    listener: Listener, started: Callable[..., Any]
) -> None:
    from rlstack.nodes.teleop_arm import TeleopArmNode

    node, made = started(TeleopArmNode), JointMessage(topics.type_of(topics.JOINT_STATES)(), NAMES)
    told: list[np.ndarray] = []
    node._sender = SimpleNamespace(publish=lambda message: told.append(np.array(message.points[0].positions)))

    def state(stamp_s: float, joints: np.ndarray) -> np.ndarray:
        node._on_state(made.fill(round(1e9 * stamp_s), joints, np.zeros(9)))
        return told[-1]

    def said(kind: str, value: object) -> Any:
        message = topics.message_type(kind)()
        message.data = value
        return message

    node._on_intervene(said(TELEOP_TYPES[INTERVENE], True))
    node._on_gripper(said(TELEOP_TYPES[TELEOP_GRIPPER], -1.0))
    state(5.0, REST)
    closing = state(5.02, REST)
    assert (closing[7:] < REST[7:]).all() and np.array_equal(closing[:7], REST[:7]), "the gripper alone counts"
    elsewhere = REST + 0.3 * np.eye(9)[1]
    assert state(5.04, elsewhere)[1] < elsewhere[1] - 0.05, "pulled back to where it was told to be"
    node._on_mode(said("std_msgs/msg/String", "park"))
    told_while = state(5.06, elsewhere)
    np.testing.assert_allclose(told_while[:7], elsewhere[:7])
    assert (told_while[7:] < elsewhere[7:]).all(), "what it holds stays held"
    node._on_mode(said("std_msgs/msg/String", "policy"))
    np.testing.assert_allclose(state(5.08, elsewhere)[:7], elsewhere[:7])
    node._gripper = (-1e9, 0.0)
    for k in range(6):  # a jump of the stamps that lasts
        after = state(6.1 + 0.02 * k, REST)
        time.sleep(0.02)
    np.testing.assert_allclose(after, REST, err_msg="the simulation was reset: stamps jump ahead")


def test_a_human_corrects_a_deployed_policy_and_who_led_is_recorded(listener: Listener, tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    from rlstack.data.bags import add_bag, features_of, open_bag
    from rlstack.data.lerobot import Dataset, DatasetWriter
    from rlstack.nodes.record import RecordNode

    policy = write_posture_policy(tmp_path / "policy.onnx", PANDA, REST + 0.2 * np.eye(9)[0])
    states = listener.hear(topics.JOINT_STATES, robot="panda")
    wanted = [topics.JOINT_STATES, topics.JOINT_COMMAND, INTERVENE]
    record = RecordNode({"out": str(tmp_path / "bag"), "topics": wanted}, namespace="/panda", context=listener.context)
    listener.executor.add_node(record)
    record.start()
    twist_type, flag_type = (topics.message_type(TELEOP_TYPES[topic]) for topic in (TELEOP_TWIST, INTERVENE))
    twist = listener.node.create_publisher(twist_type, f"/panda/{TELEOP_TWIST}", topics.quality("command"))
    flag = listener.node.create_publisher(flag_type, f"/panda/{INTERVENE}", topics.quality("latched"))
    to_the_right = twist_type()
    to_the_right.twist.linear.y = -0.3

    def tool() -> np.ndarray:
        joints = dict(zip(states[-1].name, states[-1].position))
        return np.asarray(tool_motion(CHAIN.screws, np.array([[joints[name] for name in NAMES[:7]]])).position[0])

    def led() -> bool:
        twist.publish(to_the_right)
        return bool(tool()[1] < there[1] - 0.05)

    try:
        with Up("deploy", "--robot", "panda", "--policy", str(policy), "--teleop", "--force") as deployed:
            deployed.until("disarmed -> policy")
            nodes = deployed.nodes()
            assert set(nodes) == {"robot", "guard", "policy", "teleop_arm"}
            listener.until(lambda: len(states) > 0, "the arm says where it is")
            listener.until(lambda: abs(np.arctan2(*tool()[1::-1]) - 0.2) < 0.01, "the policy brings the arm there")
            there = tool()
            flag.publish(flag_type(data=True))
            listener.until(led, "the human leads it elsewhere")
            flag.publish(flag_type(data=False))
            listener.until(lambda: np.linalg.norm(tool() - there) < 0.01, "the policy brings it back")
            deployed.interrupt(nodes)
    finally:
        record.stop()
        listener.executor.remove_node(record)
        record.destroy_node()
    recording = open_bag(tmp_path / "bag", NAMES)
    with DatasetWriter(tmp_path / "shown", 20, "panda", features_of(recording, tuple(NAMES))) as writer:
        add_bag(writer, recording, 20, "")
    (frames,) = Dataset(tmp_path / "shown")
    by_hand = frames["intervention"].ravel()
    assert not by_hand[0] and not by_hand[-1] and np.abs(np.diff(by_hand.astype(int))).sum() == 2
    turned = frames["action"][by_hand, 0]
    assert turned.min() < 0.2 - 0.03, "what is learned from is what the human did, not the policy's 0.2 rad"

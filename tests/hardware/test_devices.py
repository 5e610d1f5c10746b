"""What hands hold: a terminal's keys, the kernel's gamepad events, a servo bus, a SpaceMouse's reports, scripts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.hardware.devices import DEVICES, DISCARD, SAVE, STOP, device_called
from rlstack.hardware.devices import keyboard as keys
from rlstack.hardware.devices._pad import Pad
from rlstack.hardware.devices.gamepad import EVENT, Gamepad
from rlstack.hardware.devices.keyboard import Keyboard
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from tests.support.peers.feetech import NUMBER, POSITION, TORQUE, FeetechPeer

PANDA = load_robot("panda")
assert isinstance(PANDA, Manipulator)


def test_every_device_says_how_it_is_used() -> None:
    assert set(DEVICES.names()) >= {"keyboard", "gamepad", "joy", "spacemouse", "leader", "script"}
    for name in DEVICES.names():
        kind = DEVICES.load(name)
        assert kind.keys and kind.live in (True, False)
    with pytest.raises(UserError, match=r"Unknown device 'keybord'\. Nearest: keyboard"):
        device_called("keybord", PANDA)
    with pytest.raises(UserError, match="the device joy takes nothing after its name"):
        device_called("joy:/dev/input/js0", PANDA)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A human's side of a terminal, and the program's."""
    human, program = os.openpty()
    yield human, program
    os.close(human)
    os.close(program)


def test_keys_move_while_they_come_and_not_for_long_after(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    human, program = terminal
    now = [100.0]
    monkeypatch.setattr(keys.time, "monotonic", lambda: now[0])
    device = Keyboard("", PANDA, program)
    device.open()
    try:
        assert device.read().idle
        os.write(human, b"wqR\x1b[C")
        hand = _after(device, lambda h: h.linear[1])
        np.testing.assert_allclose(hand.linear, [1.0, -1.0, 0.25])
        np.testing.assert_allclose(hand.angular, [0.0, 0.0, 1.0])
        now[0] += keys.FIRST_S - 0.01
        assert device.read().linear[0] == 1.0
        os.write(human, b"w")
        _after(device, lambda h: h.linear[0])
        now[0] += keys.REPEATED_S - 0.01
        assert device.read().linear.tolist() == [1.0, 0.0, 0.0], "only what was repeated is still held"
        now[0] += 0.02
        assert device.read().idle
        os.write(human, b"\x1b[1;2D\x1b[1;2A\x1bOP\x1b[15~\x1b[1;5Zq")  # Shift and left, up; F1, F5, none
        hand = _after(device, lambda h: h.angular[2])
        assert hand.linear.tolist() == [0.25, 0.25, 0.0] and not hand.events, "no key's code is read as keys"
        now[0] += 1.0
        os.write(human, b"ct\n\x7f\x1b")
        hand = _after(device, lambda h: h.events)
        assert (hand.gripper, hand.intervene, hand.events) == (-1.0, False, (SAVE, DISCARD, STOP))
        os.write(human, b" t")
        hand = _after(device, lambda h: h.gripper > 0)
        assert hand.intervene
        device.forget()
        assert device.read().idle, "another episode begins: nobody has told the gripper anything"
    finally:
        device.close()
    # the terminal is as it was: a line comes as a line, and is echoed
    os.write(human, b"x\n")
    assert os.read(program, 10) == b"x\n"


def _after(device, seen):
    until = time.time() + 5.0
    while time.time() < until:
        if seen(hand := device.read()):
            return hand
    raise AssertionError("it did not come")


def test_a_keyboard_needs_a_terminal(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(UserError, match="standard input is none"):
        Keyboard("", PANDA, file.fileno()).open()


def test_the_kernels_gamepad_events_move_the_hand(tmp_path: Path) -> None:
    fifo = tmp_path / "js0"
    os.mkfifo(fifo)
    device = Gamepad(str(fifo), PANDA)
    device.open()
    pad = os.open(fifo, os.O_WRONLY)
    try:
        # how it is when it is opened comes first; the left stick is then pushed to the right and forward
        events = [(0, 0x82, 0), (-32767, 0x82, 2), (32767, 2, 0), (-16384, 2, 1), (1, 1, 4), (1, 1, 0), (1, 1, 3)]
        data = b"".join(EVENT.pack(0, value, kind, number) for value, kind, number in events)
        os.write(pad, data[:21])
        hand = device.read()
        assert hand.idle and not hand.intervene
        os.write(pad, data[21:])
        hand = device.read()
        np.testing.assert_allclose(hand.linear, [(16384 / 32767 - 0.1) / 0.9, -1.0, 0.0], rtol=1e-6)
        assert (hand.intervene, hand.gripper, hand.events) == (True, -1.0, (SAVE,))
        assert device.read().events == (), "a button is pressed once"
        os.write(pad, EVENT.pack(0, 0, 1, 4))
        assert not device.read().intervene
    finally:
        os.close(pad)
    with pytest.raises(UserError, match="is gone: plug it in again"):
        device.read()
    device.close()
    with pytest.raises(UserError, match=r"js7 cannot be read \(No such file"):
        device_called(f"gamepad:{tmp_path / 'js7'}", PANDA).open()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1.0, 1.0), max_size=9), st.lists(st.integers(0, 1), max_size=12))
def test_any_pad_gives_a_hand_within_bounds(axes: list[float], buttons: list[int]) -> None:
    hand = Pad().input(axes, buttons)
    assert np.abs([*hand.linear, *hand.angular, hand.gripper]).max() <= 1.0


def test_a_joy_message_says_what_the_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rlstack.hardware.devices.joy.time.monotonic", lambda: now[0])
    device = device_called("joy", PANDA)
    device.open()
    assert device.read().idle
    device.hear(SimpleNamespace(axes=[1.0, 0.0, 1.0, 0.0, 1.0, 1.0], buttons=[0, 1, 0, 0, 1]))
    hand = device.read()
    assert (hand.linear.tolist(), hand.gripper, hand.intervene) == ([0.0, 1.0, 1.0], 1.0, True)
    now[0] += 0.6
    hand = device.read()
    assert not hand.linear.any() and hand.intervene, "a pad that is gone moves nothing, and has not handed back"
    device.forget()
    assert device.read().gripper == 0.0, "a button that is still down has been said already"


LEADER = """\
port: {port}
servos:
  - {{joint: panda_joint1, id: 1}}
  - {{joint: panda_joint4, id: 2, zero: 100, ratio: -0.5}}
"""


def place(peer: FeetechPeer, servo: int, ticks: int) -> None:
    """Turn a servo by hand."""
    peer.move.at[servo - 1] = float(ticks)  # type: ignore[attr-defined]
    end = time.monotonic() + 5.0
    while peer.servos[servo - 1].word(POSITION) != ticks:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_leader_arm_on_a_servo_bus(tmp_path: Path) -> None:
    pytest.importorskip("scservo_sdk")
    file = tmp_path / "leader.yaml"
    with FeetechPeer() as peer:
        file.write_text(LEADER.format(port=peer.port))
        for servo in peer.servos[:2]:
            servo.memory[TORQUE] = 1
        device = device_called(f"leader:{file}", PANDA)
        device.open()
        assert [servo.torque for servo in peer.servos[:2]] == [False, False], "a hand can move it"
        place(peer, 1, 2048 + 1024)
        place(peer, 2, 4096 - 924)  # passed its own 0: a quarter of a turn back from 100
        joints = device.read().joints
        assert joints == pytest.approx({"panda_joint1": np.pi / 2, "panda_joint4": np.pi / 4})
        for ticks, turned in ((4000, 3000), (100, 3196), (1000, 4096), (4090, 3090)):
            place(peer, 1, ticks)  # past half a turn either way
            assert device.read().joints == pytest.approx(
                {"panda_joint1": (turned - 1048) * np.pi / 2048, "panda_joint4": np.pi / 4}
            )
        joints = device.read().joints
        peer.servos[1].memory[NUMBER] = 99
        assert device.read().joints == joints, "a lost packet is no lost arm"
        with pytest.raises(UserError, match="does not answer any more"):
            while True:
                device.read()
        device.close()
        with pytest.raises(UserError, match=r"Servo 2 \(panda_joint4\) does not answer"):
            device.open()


def test_a_leader_arm_by_lerobots_calibration_has_the_followers_angles(tmp_path: Path) -> None:
    pytest.importorskip("scservo_sdk")
    so100 = Manipulator.load("so100")
    file = tmp_path / "leader.yaml"
    with FeetechPeer() as peer:
        file.write_text(f"port: {peer.port}\ncalibration: {peer.calibration}\nreverse: [gripper]\n")
        device = device_called(f"leader:{file}", so100)
        device.open()
        place(peer, 2, 2047 + 100)
        place(peer, 6, 2047 + 100)
        turned, joints = 100 * np.pi / 2048, device.read().joints
        assert joints["shoulder_lift"] == pytest.approx(1.75 + turned, abs=2e-3)
        assert joints["gripper"] == pytest.approx(0.9 - turned, abs=2e-3)
        device.close()
    file.write_text("port: p\n")
    with pytest.raises(UserError, match="exactly one of servos and calibration"):
        device_called(f"leader:{file}", so100)


def test_a_leader_arms_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "leader.yaml"
    file.write_text("port: p\nservos: [{joint: elbow, id: 1}]\n")
    with pytest.raises(UserError, match="panda has no joint 'elbow'; it has: panda_joint1"):
        device_called(f"leader:{file}", PANDA)
    file.write_text("port: p\nservos: [{joint: panda_joint1, id: 1}, {joint: panda_joint2, id: 1}]\n")
    with pytest.raises(UserError, match="each with its own id"):
        device_called(f"leader:{file}", PANDA)
    with pytest.raises(UserError, match=r"needs its file: leader:FILE\.yaml"):
        device_called("leader", PANDA)


def test_a_spacemouses_reports_move_the_hand() -> None:
    pyspacemouse = pytest.importorskip("pyspacemouse", exc_type=Exception)
    from pyspacemouse.config_helpers import apply_axis_convention
    from pyspacemouse.device import SpaceMouseDevice

    reports: list[bytes] = []

    class Wire:
        """The library's HID device, whose reports are those of a SpaceMouse Compact."""

        def read(self, size: int) -> bytes:
            return reports.pop(0) if reports else b""

        def close(self) -> None:
            pass

    spec = pyspacemouse.get_device_specs()["SpaceMouseCompact"]
    opened = SpaceMouseDevice(apply_axis_convention(spec, pyspacemouse.AxisConvention.ROS), Wire())
    device = DEVICES.load("spacemouse")("", PANDA, opened)
    device.open()
    assert device.read().idle and not device.read().intervene
    push = (-350).to_bytes(2, "little", signed=True)  # away from the user is -y by the HID tables
    reports += [b"\x01\x00\x00" + push + b"\x00\x00", b"\x02\x00\x00\x00\x00" + push, b"\x03\x01"]
    hand = device.read()
    np.testing.assert_allclose(hand.linear, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(hand.angular, [0.0, 0.0, 1.0])
    assert (hand.intervene, hand.gripper, hand.events) == (True, -1.0, ())
    reports.append(b"\x03\x03")
    assert device.read().events == (SAVE,)
    assert device.read().events == (), "both buttons are pressed once"
    device.forget()
    for left in (b"\x03\x01", b"\x03\x00"):
        reports.append(left)
        assert device.read().gripper == 0.0, "of two that are let go, the second tells the gripper nothing"
    reports.append(b"\x03\x02")
    assert device.read().gripper == 1.0
    device.close()


def test_scripts_lead_step_by_step(tmp_path: Path) -> None:
    file = tmp_path / "moves.yaml"
    file.write_text(
        "moves:\n  - {steps: 2, linear: [1, 0, -0.5], said: discard}\n  - {gripper: -1, intervene: false}\n"
    )
    device = device_called(f"script:{file}", PANDA)
    hands = [device.read() for _ in range(4)]
    assert [hand.events for hand in hands] == [(DISCARD,), (), (), (STOP,)]
    assert [hand.intervene for hand in hands] == [True, True, False, False]
    assert hands[1].linear.tolist() == [1.0, 0.0, -0.5] and hands[2].gripper == -1.0
    file.write_text("moves: [{grip: 1}]")
    with pytest.raises(UserError, match=r"Unknown key 'moves\[0\]\.grip'\. Nearest: moves\[0\]\.gripper"):
        device_called(f"script:{file}", PANDA)

"""A robot at the end of a link: what its thread does while others command it."""

from __future__ import annotations

import threading
import time

import numpy as np

from rlstack.arrays import Array
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.linked_robot import LinkedRobot
from rlstack.interfaces.backend import Reading
from rlstack.robots import load_robot
from tests.support.waiting import soon


class SlowToPower(LinkedRobot):
    """An arm that takes a while to power."""

    NAME = "slow"
    sensed = ("joint_position", "joint_velocity")
    commanded = ("joint_target",)

    def __init__(self) -> None:
        robot = load_robot("so100")
        super().__init__(robot, 100.0, Captures(robot, OPTIONS))
        self.done: list[str] = []
        self.powering, self.may_go_on = threading.Event(), threading.Event()

    def _open(self) -> None:
        pass

    def _poll(self) -> Reading | None:
        rest = np.zeros(self._size)
        return Reading(time.time(), {"joint_position": rest, "joint_velocity": rest})

    def _power(self) -> None:
        self.powering.set()
        self.may_go_on.wait(5.0)
        self.done.append("power")

    def _send(self, command: Array) -> None:
        self.done.append("send")

    def _unpower(self) -> None:
        self.done.append("unpower")

    def _shut(self) -> None:
        pass

    def _limited(self, command: Array) -> Array:
        return command


def test_a_stop_while_it_is_powered_counts_before_the_command_does() -> None:
    arm = SlowToPower()
    arm.connect()
    arm.write({"joint_target": np.zeros(6)})
    assert arm.powering.wait(5.0)
    stopping = threading.Thread(target=arm.disarm)
    stopping.start()
    assert soon(lambda: arm._stops == 1)
    arm.may_go_on.set()
    stopping.join(5.0)
    assert arm.done == ["power", "unpower"]
    arm.write({"joint_target": np.zeros(6)})
    assert soon(lambda: arm.done[2:] == ["power", "send"]), "the next command counts"
    arm.close()

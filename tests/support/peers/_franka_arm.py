"""A program: one Franka arm of ``franky-sim``, which speaks libfranka's protocol, and is told by lines on its input.

Beyond franky-sim it has reflexes, the user stop, and the real thing's rule that a motion ends once commands cease.
While it moves it waits for its client, up to :data:`PATIENCE_S` a step: a machine that runs tests is no real-time one,
and what is late here would be a reflex there. Each line is answered with one line of JSON; the program ends with its
input.
"""

from __future__ import annotations

import json
import re
import select
import struct
import sys
import time
from dataclasses import replace
from typing import Any

import franky_sim.franka_robot_protocol as protocol
import numpy as np
from franky_sim.franka_robot_server import FrankaRobotServer
from franky_sim.franka_server import BaseCommand, ConnectCommand, ConnectStatus, MessageHeader
from franky_sim.mujoco_simulator import MujocoSimulator
from franky_sim.simulation_server import LocalHostnames

PATIENCE_S, LOST_STEPS = 0.1, 3
JOINT_REFLEX, COMMUNICATION = 6, 25
REST = (0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398)
PANDA = (  # of Franka's specification; franky-sim's arm is an FR3, whose links are the same
    (-2.8973, 2.8973, 2.175),
    (-1.7628, 1.7628, 2.175),
    (-2.8973, 2.8973, 2.175),
    (-3.0718, -0.0698, 2.175),
    (-2.8973, 2.8973, 2.61),
    (-0.0175, 3.7525, 2.61),
    (-2.8973, 2.8973, 2.61),
)
FR3 = protocol.FR3_URDF


def panda() -> str:
    """Return the model that it sends with a Panda's limits."""
    limits = iter(PANDA)

    def limit(found: re.Match[str]) -> str:
        low, high, speed = next(limits)
        return f'<limit effort="{found[1]}" lower="{low}" upper="{high}" velocity="{speed}"/>'

    return re.sub(r'<limit effort="([\d.]+)" lower="[-\d.]+" upper="[-\d.]+" velocity="[\d.]+"/>', limit, FR3)


class Arm(FrankaRobotServer):
    """The arm's controller."""

    mode, error = None, -1
    heard, unheard = 0, 0
    load = 0.0
    version = 10

    @property
    def robot_state(self) -> Any:
        state = replace(super().robot_state, m_load=self.load)
        if self.mode is None:
            return state
        return state.replace(robot_mode=self.mode, errors=tuple(k == self.error for k in range(41)))

    @property
    def moving(self) -> bool:
        return bool(self.current_motion_id)

    def start_motion(self, *given: Any) -> None:
        if self.mode is not None:
            raise RuntimeError("it does not move")  # franky-sim answers that it was aborted
        self.unheard = 0
        super().start_motion(*given)

    def _handle_udp_command(self, data: bytes) -> None:
        self.heard += 1
        super()._handle_udp_command(data)

    def _process_udp_commands(self) -> None:
        before, end = self.heard, time.monotonic() + PATIENCE_S
        super()._process_udp_commands()
        while self.moving and self.heard == before and time.monotonic() < end:
            time.sleep(1e-4)
            super()._process_udp_commands()
        self.unheard = 0 if self.heard > before else self.unheard + 1
        if self.moving and self.unheard > LOST_STEPS:
            self.abort(protocol.RobotMode.kReflex, COMMUNICATION, protocol.MoveStatus.kReflexAborted)

    def abort(self, mode: protocol.RobotMode, error: int, status: protocol.MoveStatus) -> None:
        self.mode, self.error = mode, error
        motion = self.current_motion_id
        self.stop_motion(send_preemption_signal=False)
        self.reset_current_motion_id()
        if motion:
            BaseCommand.send_response(self._tcp_socket, protocol.RobotCommand.kMove, motion, status)

    def recover(self) -> None:
        if self.mode == protocol.RobotMode.kReflex:
            self.mode = None

    def noise(self, data: bytes) -> None:
        if self.udp_connected:
            port = self._FrankaServer__client_udp_port  # type: ignore[attr-defined]
            self._FrankaServer__udp_socket.sendto(data, ("127.0.0.1", port))  # type: ignore[attr-defined]


def connected(command: ConnectCommand, server: Any, command_type_struct: str = "I") -> None:
    if getattr(server, "version", 10) == 10:
        connect(command, server, command_type_struct)
        return
    refusal = struct.pack("<BH5x", ConnectStatus.kIncompatibleLibraryVersion, server.version)
    command.client_socket.sendall(MessageHeader(command.command_type, command.command_id, 8).to_bytes() + refusal)


connect = ConnectCommand.handle
ConnectCommand.handle = connected


def recovered(command: protocol.AutomaticErrorRecoveryCommand, server: Arm) -> None:
    server.recover()
    command.reply(protocol.AutomaticErrorRecoveryStatus.kSuccess)


protocol.AutomaticErrorRecoveryCommand.handle = recovered


class Room:
    """The arm, its link, and what is told."""

    def __init__(self) -> None:
        self.simulator = MujocoSimulator()
        self.simulator.init()
        self.arm = self.simulator.add_robot(initial_q=REST, initial_hand_width=0.08)
        self.server = Arm(self.arm, LocalHostnames())
        self.simulator.start()
        self.awake = self.linked = False

    def step(self) -> None:
        start = time.monotonic()
        if self.linked:
            self.server.process_commands()
        else:
            if self.server.moving:
                self.server.abort(protocol.RobotMode.kReflex, COMMUNICATION, protocol.MoveStatus.kReflexAborted)
            self.server._post_process_commands()  # it holds itself
        self.simulator.step()
        if self.linked:
            self.server.send_state()
        time.sleep(max(0.0, start + 1e-3 - time.monotonic()))

    def told(self, line: str) -> dict[str, Any]:
        word, _, rest = line.strip().partition(" ")
        server = self.server
        if word == "wake":
            self.awake = self.linked = True
            server.mode, server.load, server.version, protocol.FR3_URDF = None, 0.0, 10, panda()
            server.init()
            self.place(REST)
        elif word == "sleep":
            self.awake = False
            server.cleanup()  # whoever still waits for an answer ends now
            server.reset_state()
        elif word == "link":
            self.linked = rest == "true"
        elif word == "reflex":
            server.abort(protocol.RobotMode.kReflex, JOINT_REFLEX, protocol.MoveStatus.kReflexAborted)
        elif word == "user_stop":
            status = protocol.MoveStatus.kPreemptedDueToActivatedSafetyFunctions
            server.abort(protocol.RobotMode.kUserStopped, -1, status)
        elif word == "release":
            server.mode = None
        elif word == "noise":
            server.noise(bytes.fromhex(rest))
        elif word == "load":
            server.load = float(rest)
        elif word == "version":
            server.version = int(rest)
        elif word == "fr3":
            protocol.FR3_URDF = FR3
        elif word == "upper_arm":
            protocol.FR3_URDF = panda().replace('xyz="0 -0.316 0"', f'xyz="0 -{rest} 0"')
        width = self.arm.hand_width
        return {
            "host": server.hostname,
            "powered": server.moving,
            "joints": list(self.arm.inner_state.q),
            "width": width,
        }

    def place(self, joints: tuple[float, ...]) -> None:
        model, data = self.arm.model, self.arm.data
        for k, angle in enumerate(joints):
            data.qpos[model.joint(f"robot0_fr3_joint{k + 1}").qposadr[0]] = angle
        data.qvel[:] = 0.0
        self.server._reset_state()


def main() -> None:
    np.seterr(all="ignore")
    room = Room()
    while True:
        if room.awake:
            room.step()
        if select.select([sys.stdin], [], [], 0.0 if room.awake else None)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            print(json.dumps(room.told(line)), flush=True)


if __name__ == "__main__":
    main()

"""BatchSimulator: holds the rows of N robots and launches the kernel."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import warp as wp
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.sim.batch import dynamics
from rlstack.sim.batch.layout import STATE, STATE_WIDTH, pack_parameters, pack_state
from rlstack.sim.perturbation import Perturbation


class BatchSimulator:
    """N quadrotors that advance together, float32, without a Python loop over robots.

    Args:
        robot: What flies.
        count: N.
        rate_hz: Control rate; :meth:`step` advances one period.
        device: ``"cpu"`` or ``"cuda:0"``.
        substeps: RK4 steps a control period.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        max_delay_s: The longest command delay that a perturbation may ask for.

    Raises:
        UserError: The device is not there.
    """

    def __init__(
        self,
        robot: RobotSpec,
        count: int,
        *,
        rate_hz: float | None = None,
        device: str = "cpu",
        substeps: int = 1,
        gyroscopic: bool = False,
        max_delay_s: float = 0.05,
    ) -> None:
        self.robot = robot
        self.count = count
        self.rate_hz = robot.control_rate_hz if rate_hz is None else rate_hz
        self.device = check_device(device)
        self.max_delay_s = max_delay_s
        self._substeps = substeps
        self._gyroscopic = int(gyroscopic)
        slots = math.ceil(max_delay_s * self.rate_hz) + 2
        self.buffers: list[wp.array] = [
            wp.zeros((count, STATE_WIDTH), dtype=float, device=self.device) for _ in range(2)
        ]
        self.current = 0
        self.newest_command = 0
        self.commands = wp.zeros((slots, count, len(robot.rotors)), dtype=float, device=self.device)
        """(slots, N, rotors) rad/s: the ring of the newest commands."""
        self.parameters = wp.array(pack_parameters(robot, Perturbation.none(count)), dtype=float, device=self.device)
        """(N, PARAMETER_WIDTH) rows; see :mod:`rlstack.sim.batch.layout`."""
        rest = np.zeros((count, 4))
        rest[:, 3] = 1.0
        zeros = np.zeros((count, 3))
        self.set_state(
            {
                "position": zeros,
                "orientation": rest,
                "linear_velocity": zeros,
                "angular_velocity": zeros,
                "rotor_speed": np.zeros((count, len(robot.rotors))),
            }
        )

    @property
    def state_rows(self) -> wp.array:
        """(N, STATE_WIDTH) rows of the present; another array after each step."""
        return self.buffers[self.current]

    @property
    def command_slot(self) -> wp.array:
        """(N, rotors) rad/s: where the next step's command belongs."""
        return self.commands[self.next_slot]

    @property
    def next_slot(self) -> int:
        """Index of :attr:`command_slot` in the ring."""
        return (self.newest_command + 1) % int(self.commands.shape[0])

    def set_perturbation(self, perturbation: Perturbation) -> None:
        """Give each robot its departures from the file.

        Raises:
            ValueError: It is for another number of robots or rotors, or a delay is over ``max_delay_s``.
        """
        if len(perturbation) != self.count:
            raise ValueError(f"the perturbation is for {len(perturbation)} robots, the simulator has {self.count}")
        longest = float(np.max(perturbation.delay_s, initial=0.0))
        if longest > self.max_delay_s:
            raise ValueError(f"a delay of {longest} s is over max_delay_s ({self.max_delay_s} s)")
        self.parameters.assign(pack_parameters(self.robot, perturbation))

    def set_state(self, state: Mapping[str, NDArray[np.floating]]) -> None:
        """Put every robot into a state (:data:`rlstack.sim.batch.layout.STATE`); past commands are its rotor speeds.

        Raises:
            ValueError: A name is missing or unknown, or an array is not (N, width).
        """
        self.buffers[self.current].assign(pack_state(state, self.count))
        speeds = np.asarray(state["rotor_speed"], dtype=np.float32)
        self.commands.assign(np.broadcast_to(speeds, self.commands.shape).copy())

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of the state arrays by name, float64."""
        rows = self.state_rows.numpy().astype(np.float64)
        return {name: rows[:, where] for name, where in STATE.items() if name != "elapsed"}

    def step(self, command: NDArray[np.floating] | None = None) -> None:
        """Advance one control period under ``command`` (N, rotors) rad/s, clipped to the rotors' range.

        With None the command that was written into :attr:`command_slot` is used.
        """
        if command is not None:
            if np.shape(command) != (self.count, len(self.robot.rotors)):
                raise ValueError(f"the command's shape is {np.shape(command)}, not {self.command_slot.shape}")
            self.command_slot.assign(np.ascontiguousarray(command, dtype=np.float32))
        self.newest_command = self.next_slot
        period = 1.0 / self.rate_hz
        for k in range(self._substeps):
            wp.launch(
                dynamics.advance,
                dim=self.count,
                inputs=[
                    self.buffers[self.current],
                    self.parameters,
                    self.commands,
                    self.newest_command,
                    period,
                    k * period / self._substeps,
                    period / self._substeps,
                    self._gyroscopic,
                ],
                outputs=[self.buffers[1 - self.current]],
                device=self.device,
            )
            self.current = 1 - self.current


def check_device(device: str) -> str:
    """Return the device's name; raise ``UserError`` if this machine has none of that name."""
    _initialise()
    known = [str(d) for d in wp.get_devices()]
    if device == "cuda" and "cuda:0" in known:
        return "cuda:0"
    if device not in known:
        raise UserError(f"There is no device '{device}' here: choose one of {', '.join(known)}.")
    return device


def _initialise() -> None:
    # Warp's native part warns on stderr that there is no driver, which on a machine without a GPU is no news
    if any(Path("/dev").glob("nvidia*")):
        wp.init()
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        wp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

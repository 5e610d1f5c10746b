"""BatchSimulator: holds the rows of N robots and launches the fused step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import Kernel, check_device, zeros
from rlstack.robots import Quadrotor
from rlstack.sim.batch.dynamics import Model, advance
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH, Rows, pack_parameters, pack_state
from rlstack.sim.perturbation import Perturbation


class BatchSimulator:
    """N quadrotors that advance together, float32, without a Python loop over robots.

    Arrays of rows are numpy's, on CUDA torch's.

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
        robot: Quadrotor,
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
        rotors = len(robot.rotors)
        model = Model(1.0 / self.rate_hz, substeps, gyroscopic, max_delay_s)
        self._kernel = step_kernel(rotors, model, device=self.device)
        self._buffers = [zeros(STATE_WIDTH, count, self.device) for _ in range(2)]
        self.commands = [zeros(rotors, count, self.device) for _ in range(model.past_commands + 1)]
        """(rotors, N) rad/s each: the newest command and those before it that may still act."""
        self.parameters = zeros(PARAMETER_WIDTH, count, self.device)
        """(PARAMETER_WIDTH, N) rows; see :mod:`rlstack.sim.batch.layout`."""
        self.set_perturbation(Perturbation.none(count, rotors))
        rest = np.zeros((count, 4))
        rest[:, 3] = 1.0
        none = np.zeros((count, 3))
        self.set_state(
            {
                "position": none,
                "orientation": rest,
                "linear_velocity": none,
                "angular_velocity": none,
                "rotor_speed": np.zeros((count, rotors)),
            }
        )

    @property
    def state_rows(self) -> Any:
        """(STATE_WIDTH, N) rows of the present; another array after each step."""
        return self._buffers[0]

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
        _write(self.parameters, pack_parameters(self.robot, perturbation).T)

    def set_state(self, state: Mapping[str, NDArray[np.floating]]) -> None:
        """Put every robot into a state (:data:`rlstack.sim.batch.layout.STATE`); past commands are its rotor speeds.

        Raises:
            ValueError: A name is missing or unknown, or an array is not (N, width).
        """
        _write(self.state_rows, pack_state(state, self.count).T)
        for command in self.commands:
            command[:] = self.state_rows[STATE["rotor_speed"]]

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of the state arrays by name, (N, width) float64."""
        held = self.state_rows
        rows = (held if isinstance(held, np.ndarray) else held.cpu().numpy()).astype(np.float64)
        return {name: np.ascontiguousarray(rows[where].T) for name, where in STATE.items() if name != "elapsed"}

    def step(self, command: NDArray[np.floating]) -> None:
        """Advance one control period under ``command`` (N, rotors) rad/s, clipped to the rotors' range."""
        if np.shape(command) != (self.count, len(self.robot.rotors)):
            raise ValueError(f"the command's shape is {np.shape(command)}, not {(self.count, len(self.robot.rotors))}")
        self.commands.insert(0, self.commands.pop())
        _write(self.commands[0], np.asarray(command).T)
        self.advance()

    def advance(self) -> None:
        """Advance one control period under the newest of :attr:`commands`, which the caller has written in place."""
        arrays = {f"command_{k}": command for k, command in enumerate(self.commands)}
        self._kernel({"state": self.state_rows, "parameters": self.parameters, "next": self._buffers[1], **arrays})
        self._buffers.reverse()


@lru_cache(maxsize=16)
def step_kernel(rotors: int, model: Model, wanted: tuple[str, ...] | None = None, device: str = "cpu") -> Kernel:
    """Return the compiled step: ``state``, ``parameters``, ``command_0`` (newest) and older to ``next``.

    With ``wanted`` it is the reverse mode, see :class:`rlstack.fused.Kernel`.
    """
    names = [f"command_{k}" for k in range(model.past_commands + 1)]

    def step(state: Rows, parameters: Rows, **commands: Rows) -> dict[str, Rows]:
        return {"next": advance(state, parameters, [commands[name] for name in names], model)}

    rows = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, **dict.fromkeys(names, rotors)}
    return Kernel(step, rows, wanted, device)


def _write(array: Any, values: NDArray[np.floating]) -> None:
    if isinstance(array, np.ndarray):
        array[:] = values
    else:
        import torch

        array.copy_(torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)))

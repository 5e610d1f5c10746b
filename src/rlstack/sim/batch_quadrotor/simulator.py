"""The batch simulator of quadrotors: the rows of N robots and the launch of the fused step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32
from rlstack.errors import UserError
from rlstack.fused import Kernel, check_device, zeros
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance
from rlstack.sim.batch_quadrotor.layout import (
    PARAMETER_WIDTH,
    PARAMETERS,
    STATE,
    STATE_WIDTH,
    pack_parameters,
    pack_state,
)
from rlstack.sim.input_checks import checked_states
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.battery import Batteries
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels
from rlstack.sim.physics.residual import ResidualModel
from rlstack.sim.physics.wind import WindField

if TYPE_CHECKING:
    from rlstack.sim.world import Wind


class QuadrotorSimulator:
    """N quadrotors that advance together in float32, without a Python loop over robots.

    Arrays of rows are numpy arrays, on CUDA torch tensors.

    Args:
        robot: The quadrotor.
        count: N.
        rate_hz: Control rate; :meth:`step` advances one period.
        device: ``"cpu"`` or ``"cuda:0"``.
        substeps: RK4 steps per control period.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        max_delay_s: Longest command delay in perturbations.
        models: Further physics models; robots are alone, so there is no downwash.
        wind: Settings for the model ``wind``.
        seed: Seed of the wind's turbulence.
        residual: What `rlstack identify --residual` found beyond the physics.

    Raises:
        UserError: The device does not exist or does not support wind or batteries, or a model lacks its parameters.
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
        models: PhysicsModels = NO_MODELS,
        wind: Wind | None = None,
        seed: int = 0,
        residual: ResidualModel | None = None,
    ) -> None:
        self.robot = robot
        self.count = count
        self.rate_hz = robot.control_rate_hz if rate_hz is None else rate_hz
        self.device = check_device(device)
        self.max_delay_s = max_delay_s
        rotors = len(robot.rotors)
        self.models = replace(models, downwash=False)
        if (models.wind or models.battery) and self.device != "cpu":
            raise UserError(f"The batch simulator has wind and batteries on the cpu only, not on {self.device}.")
        if models.wind != (wind is not None):
            raise UserError("The batch simulator needs both or neither: the model 'wind' on, and a wind.")
        self._wind = None if wind is None else WindField(wind, count, seed)
        self._batteries = Batteries([robot] * count) if models.battery else None
        model = QuadrotorModel.of(
            robot,
            1.0 / self.rate_hz,
            substeps=substeps,
            gyroscopic=gyroscopic,
            max_delay_s=max_delay_s,
            models=replace(self.models, battery=False),
            residual=residual,
        )
        self._kernel = step_kernel(rotors, model, device=self.device)
        self._buffers = [zeros(STATE_WIDTH, count, self.device) for _ in range(2)]
        self.commands = [zeros(rotors, count, self.device) for _ in range(model.past_commands + 1)]
        """(rotors, N) rad/s each: the newest command and earlier ones that may still act."""
        self.parameters = zeros(PARAMETER_WIDTH, count, self.device)
        """(PARAMETER_WIDTH, N) rows; see :mod:`rlstack.sim.batch_quadrotor.layout`."""
        self._moving = {} if self._wind is None else {"air": zeros(3, count)}
        self.set_perturbation(Perturbation.none(count, rotors))
        self.set_state(checked_states({}, count, rotors))

    @property
    def state_rows(self) -> Any:
        """(STATE_WIDTH, N) rows of the present state; each step replaces the array."""
        return self._buffers[0]

    def set_perturbation(self, perturbation: Perturbation) -> None:
        """Set each robot's departures from the file.

        Raises:
            ValueError: The number of robots or rotors differs, or a delay exceeds ``max_delay_s``.
        """
        if len(perturbation) != self.count:
            raise ValueError(f"the perturbation is for {len(perturbation)} robots, the simulator has {self.count}")
        longest = float(np.max(perturbation.delay_s, initial=0.0))
        if longest > self.max_delay_s:
            raise ValueError(f"a delay of {longest} s is over max_delay_s ({self.max_delay_s} s)")
        _write(self.parameters, pack_parameters(self.robot, perturbation, models=self.models).T)
        self._limit()

    def set_state(self, state: Mapping[str, NDArray[np.floating]]) -> None:
        """Set every robot's state (:data:`.layout.STATE`); past commands become its rotor speeds, or those of hover.

        Raises:
            ValueError: A name is missing or unknown, or an array is not (N, width).
        """
        _write(self.state_rows, pack_state(state, self.count).T)
        for command in self.commands:
            if self.robot.rate_loop is None:
                command[:] = self.state_rows[STATE["rotor_speed"]]
            else:
                _write(command, np.tile(self.robot.hover_command[:, None], self.count))
        if self._batteries is not None:
            self._batteries.reset()
            self._limit()
        if self._wind is not None:
            for index in range(self.count):
                self._wind.reset(index)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return copies of the state arrays by name, (N, width) float64."""
        held = self.state_rows
        rows = (held if isinstance(held, np.ndarray) else held.cpu().numpy()).astype(np.float64)
        return {name: np.ascontiguousarray(rows[where].T) for name, where in STATE.items() if name != "elapsed"}

    def step(self, command: NDArray[np.floating]) -> None:
        """Advance one control period under ``command`` (N, rotors) rad/s, clipped to the rotors' range.

        A robot with a rate loop takes rates and thrust (N, 4) instead.
        """
        if np.shape(command) != (self.count, len(self.robot.rotors)):
            raise ValueError(f"the command's shape is {np.shape(command)}, not {(self.count, len(self.robot.rotors))}")
        self.commands.insert(0, self.commands.pop())
        _write(self.commands[0], np.asarray(command).T)
        self.advance()

    def advance(self) -> None:
        """Advance one control period under the newest of :attr:`commands`, written in place by the caller."""
        arrays = {f"command_{k}": command for k, command in enumerate(self.commands)}
        rows = self.state_rows
        if self._wind is not None:
            at, velocity = rows[STATE["position"]], rows[STATE["linear_velocity"]]
            self._moving["air"][:] = self._wind.advance(1.0 / self.rate_hz, at, velocity)
        self._kernel({"state": rows, "parameters": self.parameters, "next": self._buffers[1], **arrays, **self._moving})
        self._buffers.reverse()
        if self._batteries is not None:
            self._batteries.advance(1.0 / self.rate_hz, self.state_rows[STATE["rotor_speed"]])
            self._limit()

    def _limit(self) -> None:
        if self._batteries is not None:
            self.parameters[PARAMETERS["speed_range"].stop - 1] = self._batteries.top_speed


@lru_cache(maxsize=16)
def step_kernel(
    rotors: int, model: QuadrotorModel, wanted: tuple[str, ...] | None = None, device: str = "cpu"
) -> Kernel:
    """Return the compiled step, from ``state``, ``parameters``, ``command_0`` (newest) and older ones to ``next``.

    With the model ``wind`` it also takes ``air``, m/s in the world frame. With ``wanted`` it is the reverse mode; see
    :class:`rlstack.fused.Kernel`.
    """
    names = [f"command_{k}" for k in range(model.past_commands + 1)]

    def step(
        state: Array32, parameters: Array32, air: Array32 | None = None, **commands: Array32
    ) -> dict[str, Array32]:
        return {"next": advance(state, parameters, [commands[name] for name in names], model, air)}

    rows = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, **dict.fromkeys(names, rotors)}
    if model.models.wind:
        rows["air"] = 3
    return Kernel(step, rows, wanted, device)


def _write(array: Any, values: NDArray[np.floating]) -> None:
    if isinstance(array, np.ndarray):
        array[:] = values
    else:
        import torch

        array.copy_(torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)))

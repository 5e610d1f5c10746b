"""Flying a policy file in the batch simulator, in process: the deployed graph, many episodes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rlstack.errors import UserError
from rlstack.evaluation.episodes import Array, Episodes
from rlstack.policies import Contract, PolicyOutputError
from rlstack.policies.catalogue import check_robot
from rlstack.robots import Quadrotor, frames
from rlstack.sim.noise import SensorNoise
from rlstack.tasks.paths import Paths
from rlstack.tasks.scenario import STATE_NAMES, Scenario

if TYPE_CHECKING:
    from rlstack.sim.batch import BatchSimulator

BACKEND = "batch simulator"
"""What the episodes say they were flown in."""

_GONE = 1e4
"""m, m/s or rad/s: a robot beyond any of these is given up before float32 overflows; its record goes on as NaN."""

_RECORDED = ("position", "orientation", "linear_velocity", "angular_velocity")
_SENSED = (*STATE_NAMES, "goal_position", "goal_orientation")
_PATH = ("path_time", "path_position", "path_orientation")


class Steppable(Protocol):
    """What is flown: a loaded policy file, or anything with its interface."""

    contract: Contract
    path: Path

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero for ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands by name for inputs with a leading batch axis."""


def rollout(
    policy: Steppable,
    scenario: Scenario,
    robot: Quadrotor,
    duration_s: float,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    noise_seed: int = 0,
    device: str = "cpu",
    gyroscopic: bool = False,
) -> Episodes:
    """Fly every episode of ``scenario`` with ``policy`` and record it.

    The policy senses what it would sense on its topics: velocities in ``base_link``, with the noise that the robot
    file gives its odometry, and the path where the scenario has one: all of it, or where the policy's envelope says
    how far ahead it looks (``path_ahead_s``), the poses around what it can see, which is the same to it. One step of
    the policy is one control period; there is no guard. Its recurrent state starts at zero.

    Args:
        policy: As loaded; it is left with the recurrent state of the last step.
        scenario: N episodes.
        robot: What flies.
        duration_s: Length of every episode, s; the record has ``round(duration_s * rate) + 1`` samples.
        on_progress: Called after every control period with the periods done and their total.
        noise_seed: Of the sensor noise.
        device: Where the simulator runs, such as ``"cpu"`` or ``"cuda:0"``.
        gyroscopic: Whether the rotors' angular momentum acts on the body.

    Raises:
        UserError: The policy is for another robot, wants what is not simulated or a path where the scenario has none,
            or gives a command that is not finite; or the device or the batch simulator is not there.
    """
    contract, count = policy.contract, len(scenario)
    where = str(policy.path)
    check_robot(contract, robot, where)
    inputs, output = _check_ports(policy, scenario)
    if count == 0:
        raise UserError("The scenario has no episodes: ask for at least one.")
    simulator = _simulator(robot, scenario, contract.rate_hz, device, gyroscopic)
    simulator.set_perturbation(scenario.perturbation)
    simulator.set_state(scenario.state)
    noise = SensorNoise(robot, noise_seed)
    goal = {"goal_position": scenario.goal_position, "goal_orientation": frames.from_yaw(scenario.goal_yaw)}
    sight = None if scenario.path is None else _Sight(scenario.path, contract.envelope.get("path_ahead_s"))
    policy.reset(count)

    steps = round(duration_s * contract.rate_hz)
    record = {name: np.empty((steps + 1, *scenario.state[name].shape)) for name in _RECORDED}
    command = np.empty((steps + 1, count, len(robot.rotors)))
    gone = np.zeros(count, dtype=bool)
    start = time.perf_counter()
    for k in range(steps + 1):
        state = simulator.state()
        gone |= ~_within_reach(state)
        for name, array in record.items():
            array[k] = np.where(gone[:, None], np.nan, state[name])
        if gone.any():  # one robot that left the numbers must not end the others' flights
            state = _replaced(state, scenario.state, gone)
        sensed = noise.applied(
            {**state, "linear_velocity": frames.rotate_inverse(state["orientation"], state["linear_velocity"])}
        )
        readings = {**sensed, **goal, **(sight.at(k / contract.rate_hz) if sight is not None else {})}
        try:
            command[k] = policy.step({name: readings[name] for name in inputs})[output]
        except PolicyOutputError as error:
            raise UserError(f"{error} That was {k / contract.rate_hz:g} s into the flights: train it again.") from error
        if k < steps:
            simulator.step(command[k])
            if on_progress is not None:
                on_progress(k + 1, steps)
    return Episodes(
        backend=BACKEND,
        rate_hz=contract.rate_hz,
        **record,
        command=command,
        goal_position=scenario.goal_over(np.arange(steps + 1) / contract.rate_hz),
        labels=scenario.labels,
        interventions=np.zeros(count, dtype=np.int64),
        latency_s=np.empty(0),
        wall_s=time.perf_counter() - start,
    )


class _Sight:
    """What of paths a policy is shown at a time.

    Args:
        path: N paths of M poses.
        ahead_s: How far ahead of the present it looks; None: it is shown all poses.
    """

    def __init__(self, path: Paths, ahead_s: float | None) -> None:
        self._time, self._position, self._turn = path.time_s, path.position, frames.from_yaw(path.yaw)
        self._ahead_s = ahead_s

    def at(self, time_s: float) -> dict[str, Array]:
        """Return the signals of ``goal_path`` at a time since the start, of at least two poses."""
        shown = slice(None)
        if self._ahead_s is not None:
            # the last pose that is due in all paths, and the first that none of them can be seen to reach
            first = int((self._time <= time_s).sum(axis=1).min()) - 1
            last = int((self._time < time_s + self._ahead_s).sum(axis=1).max())
            first = min(max(first, 0), self._time.shape[1] - 2)
            shown = slice(first, max(last, first + 1) + 1)
        return {
            "path_time": self._time[:, shown] - time_s,
            "path_position": self._position[:, shown],
            "path_orientation": self._turn[:, shown],
        }


def _check_ports(policy: Steppable, scenario: Scenario) -> tuple[tuple[str, ...], str]:
    contract, where = policy.contract, policy.path
    inputs = tuple(port.name for port in contract.inputs)
    outputs = tuple(port.name for port in contract.outputs)
    pathless = [name for name in inputs if name in _PATH and scenario.path is None]
    if pathless:
        raise UserError(
            f"{where} wants {', '.join(pathless)}, but this scenario has no path to follow: fly it in a task that has"
            " one, such as quadrotor_tracking."
        )
    missing = [name for name in inputs if name not in (*_SENSED, *_PATH)]
    if missing:
        raise UserError(
            f"{where} wants {', '.join(missing)}, which the batch simulator does not give: fly it in another backend,"
            f" or train it on {', '.join(_SENSED)}."
        )
    if outputs != ("rotor_speed",):
        raise UserError(f"{where} commands {', '.join(outputs)}, but the batch simulator takes rotor_speed alone.")
    return inputs, outputs[0]


def _simulator(robot: Quadrotor, scenario: Scenario, rate_hz: float, device: str, gyroscopic: bool) -> BatchSimulator:
    try:
        from rlstack.sim.batch import BatchSimulator
    except ImportError as error:
        raise UserError(
            f"The batch simulator needs {error.name}, which is not installed: pip install 'rlstack[sim]'."
        ) from error
    longest = float(np.max(scenario.perturbation.delay_s))
    return BatchSimulator(
        robot, len(scenario), rate_hz=rate_hz, device=device, gyroscopic=gyroscopic, max_delay_s=max(longest, 0.05)
    )


def _within_reach(state: dict[str, Array]) -> np.ndarray:
    rows = np.concatenate([state[name] for name in _RECORDED], axis=1)
    return np.asarray((np.abs(rows) < _GONE).all(axis=1))  # NaN compares false


def _replaced(state: dict[str, Array], start: dict[str, Array], gone: np.ndarray) -> dict[str, Array]:
    return {name: np.where(gone[:, None], start[name], array) for name, array in state.items()}

"""Flying a policy file in a simulator, in process: the deployed graph, many episodes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.simulation_vector import QuadrotorVector, quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.policies import Contract, PolicyOutputError
from rlstack.policies.catalogue import check_robot
from rlstack.robots import frames
from rlstack.sim.noise import SensorNoise
from rlstack.sim.vector import BATCH
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.scenario import STATE_NAMES, Scenario
from rlstack.verification.flight_noise import FlightNormals
from rlstack.verification.records import FlightRecord

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
    simulator: str = BATCH,
    noise_seed: int = 0,
    **options: Any,
) -> FlightRecord:
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
        simulator: The batch simulator, or a backend whose engine flies the episodes, each as if alone.
        noise_seed: Of the sensor noise.
        options: Of the simulator; see :func:`rlstack.kinds.quadrotor.simulation_vector.quadrotor_vector`.

    Raises:
        UserError: The policy is for another robot, wants what is not simulated or a path where the scenario has none,
            or gives a command that is not finite; or the device or the simulator is not there.
    """
    contract, count = policy.contract, len(scenario)
    check_robot(contract, robot, str(policy.path))
    ports = _check_ports(policy, scenario)
    if count == 0:
        raise UserError("The scenario has no episodes: ask for at least one.")
    longest_s = float(np.max(scenario.perturbation.delay_s))
    robots = quadrotor_vector(simulator, robot, count, contract.rate_hz, longest_delay_s=longest_s, **options)
    try:
        flown = []
        for first in range(0, count, robots.most):
            some = scenario.take(slice(first, first + robots.most))
            numbers = range(first, first + len(some))
            noise = SensorNoise(robot, noise_seed, FlightNormals(noise_seed, numbers))

            def told(done: int, total: int, before: int = first, mine: int = len(some)) -> None:
                if on_progress is not None:
                    on_progress((before * total + mine * done) // count, total)

            flown.append(_fly(policy, ports, some, robots, duration_s, noise, told))
    finally:
        robots.close()
    return FlightRecord.joined(flown)


def _fly(
    policy: Steppable,
    ports: tuple[tuple[str, ...], str],
    scenario: Scenario,
    robots: QuadrotorVector,
    duration_s: float,
    noise: SensorNoise,
    on_progress: Callable[[int, int], None],
) -> FlightRecord:
    """Fly as many episodes as the flock can at a time."""
    (inputs, output), contract, count = ports, policy.contract, len(scenario)
    robots.set_perturbation(scenario.perturbation)
    robots.set_state(scenario.state)
    goal = {"goal_position": scenario.goal_position, "goal_orientation": frames.from_yaw(scenario.goal_yaw)}
    sight = None if scenario.path is None else _Sight(scenario.path, contract.envelope.get("path_ahead_s"))
    policy.reset(count)

    steps = round(duration_s * contract.rate_hz)
    record = {name: np.empty((steps + 1, *scenario.state[name].shape)) for name in _RECORDED}
    command = np.empty((steps + 1, *scenario.state["rotor_speed"].shape))
    gone = np.zeros(count, dtype=bool)
    start = time.perf_counter()
    for k in range(steps + 1):
        state = robots.state()
        gone |= ~_within_reach(state)
        for name, array in record.items():
            array[k] = np.where(gone[:, None], np.nan, state[name])
        if gone.any():  # one robot that left the numbers must not end the others' flights
            state = _replaced(state, scenario.state, gone)
        sensed = noise.applied(
            {**state, "linear_velocity": frames.rotate_inverse(state["orientation"], state["linear_velocity"])},
            k / contract.rate_hz,
        )
        readings = {**sensed, **goal, **(sight.at(k / contract.rate_hz) if sight is not None else {})}
        try:
            command[k] = policy.step({name: readings[name] for name in inputs})[output]
        except PolicyOutputError as error:
            raise UserError(f"{error} That was {k / contract.rate_hz:g} s into the flights: train it again.") from error
        if k < steps:
            robots.step(command[k])
            on_progress(k + 1, steps)
    return FlightRecord(
        simulator=robots.label,
        driver=contract.name,
        rate_hz=contract.rate_hz,
        **record,
        command=command,
        goal_position=scenario.goal_over(np.arange(steps + 1) / contract.rate_hz),
        labels=scenario.labels,
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
            f"{where} wants {', '.join(missing)}, which is not given in process: fly it over topics,"
            f" or train it on {', '.join(_SENSED)}."
        )
    if outputs != ("rotor_speed",):
        raise UserError(f"{where} commands {', '.join(outputs)}, but what is flown in process takes rotor_speed alone.")
    return inputs, outputs[0]


def _within_reach(state: dict[str, Array]) -> np.ndarray:
    rows = np.concatenate([state[name] for name in _RECORDED], axis=1)
    return np.asarray((np.abs(rows) < _GONE).all(axis=1))  # NaN compares false


def _replaced(state: dict[str, Array], start: dict[str, Array], gone: np.ndarray) -> dict[str, Array]:
    return {name: np.where(gone[:, None], start[name], array) for name, array in state.items()}

"""Roll out a policy file on quadrotors in process: the deployed graph, many episodes at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.interfaces.kind_signals import command_of
from rlstack.kinds.quadrotor.simulation_vector import QuadrotorVector, quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.policies import Contract
from rlstack.policies.robot_contract import check_robot
from rlstack.robots import frames
from rlstack.sim.sensing.noise import SensorNoise
from rlstack.sim.vector import BATCH
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.scenario import STATE_NAMES, Scenario
from rlstack.verification.departures import NOMINAL, Departures, departed
from rlstack.verification.reality import Conditions
from rlstack.verification.runner import OnProgress, Steppable, Trials, run
from rlstack.verification.side_by_side import shares, side_by_side
from rlstack.verification.trial_records import FlightRecord

_GONE = 1e4
"""m, m/s or rad/s: a robot beyond any of these has diverged; its record continues as NaN, as float32 would overflow."""

_RECORDED = ("position", "orientation", "linear_velocity", "angular_velocity")
_SENSED = (*STATE_NAMES, "goal_position", "goal_orientation")
_PATH = ("path_time", "path_position", "path_orientation")


def rollout(
    policy: Steppable,
    scenario: Scenario,
    robot: Quadrotor,
    duration_s: float,
    on_progress: OnProgress | None = None,
    *,
    simulator: str = BATCH,
    noise_seed: int = 0,
    departures: Departures = NOMINAL,
    **options: Any,
) -> FlightRecord:
    """Fly every episode of ``scenario`` with ``policy`` and record it.

    The policy receives the same observations as on its topics: velocities in ``base_link`` with the robot file's
    odometry noise, and the scenario's path if any. If the policy's envelope limits its look-ahead (``path_ahead_s``),
    it gets only the poses within it, with the same result. One step of the policy is one control period; there is no
    guard. Its recurrent state starts at zero.

    Args:
        policy: The loaded policy; it keeps the recurrent state of the last step.
        scenario: N episodes.
        robot: The robot.
        duration_s: Length of every episode, s; the record has ``round(duration_s * rate) + 1`` samples.
        on_progress: Called after every control period with the number done and the total.
        simulator: The batch simulator, or a backend with an engine, which simulates each episode separately.
        noise_seed: Seed of the sensor noise.
        departures: Departures of signals and commands, unknown to the policy.
        options: Options of the simulator; see :func:`rlstack.kinds.quadrotor.simulation_vector.quadrotor_vector`.

    Raises:
        UserError: The policy is for another robot, needs inputs that are not simulated or a path that the scenario
            lacks, or gives a command that is not finite; or the device or the simulator is missing.
    """
    contract, count = policy.contract, len(scenario)
    check_robot(contract, robot, str(policy.path))
    _check_ports(policy, scenario, command_of(robot).name)
    if count == 0:
        raise UserError("The scenario has no episodes: ask for at least one.")
    longest_s = max(float(np.max(scenario.perturbation.delay_s)), 0.05)
    robots = quadrotor_vector(simulator, robot, count, contract.rate_hz, longest_delay_s=longest_s, **options)
    try:
        flown = []
        for first in range(0, count, robots.most):
            some = scenario.take(slice(first, first + robots.most))
            numbers = range(first, first + len(some))
            noise = SensorNoise(robot, noise_seed, FlightNormals(noise_seed, numbers))

            def progress(done: int, total: int, before: int = first, mine: int = len(some)) -> None:
                if on_progress is not None:
                    on_progress((before * total + mine * done) // count, total)

            flights = _Flights(contract, some, robots, robot, round(duration_s * contract.rate_hz), noise, progress)
            begin = time.perf_counter()
            run(policy, departed(flights, departures, noise_seed + first))
            flown.append(flights.record(time.perf_counter() - begin))
    finally:
        robots.close()
    return FlightRecord.joined(flown)


def rollout_together(
    policy: Steppable, asked: Sequence[Conditions], duration_s: float, noise_seed: int
) -> list[FlightRecord]:
    """Fly under several conditions at the same time in the batch simulator; the policy acts once for all of them.

    The flights are those of :func:`rollout`, but for rounding. Conditions of the same robot share a simulator.

    Args:
        policy: The loaded policy.
        asked: Conditions without paths, options or another rate of the driver.
        duration_s: Length of every episode, s.
        noise_seed: Seed of the sensor noise and of the departures; equal flights of all conditions have the same.

    Returns:
        A record for each of the conditions, in their order.

    Raises:
        UserError: As :func:`rollout`.
    """
    contract, flown, parts, began = policy.contract, [], [], time.perf_counter()
    for alike in dict.fromkeys(id(one.robot) for one in asked):
        numbers = [k for k, one in enumerate(asked) if id(one.robot) == alike]
        robot, sizes = asked[numbers[0]].robot, [len(asked[k].trials) for k in numbers]
        check_robot(contract, robot, str(policy.path))
        scenario = Scenario.joined([asked[k].trials for k in numbers])
        _check_ports(policy, scenario, command_of(robot).name)
        longest_s = max(float(np.max(scenario.perturbation.delay_s)), 0.05)
        robots = quadrotor_vector(BATCH, robot, len(scenario), contract.rate_hz, longest_delay_s=longest_s)
        normals = FlightNormals(noise_seed, [flight for size in sizes for flight in range(size)])
        noise, steps = SensorNoise(robot, noise_seed, normals), round(duration_s * contract.rate_hz)
        flights = _Flights(contract, scenario, robots, robot, steps, noise, lambda done, total: None)
        flown.append((numbers, sizes, flights))
        parts += [departed(one, asked[k].departures, noise_seed) for k, one in zip(numbers, shares(flights, sizes))]
    run(policy, side_by_side(parts))
    records: dict[int, FlightRecord] = {}
    for numbers, sizes, flights in flown:
        record, ends = flights.record(time.perf_counter() - began), np.cumsum(sizes).tolist()
        records |= {k: record.take(slice(end - size, end)) for k, size, end in zip(numbers, sizes, ends)}
    return [records[k] for k in range(len(asked))]


class _Flights(Trials):
    """Episodes that are simulated together."""

    last_command = True

    def __init__(
        self,
        contract: Contract,
        scenario: Scenario,
        robots: QuadrotorVector,
        robot: Quadrotor,
        steps: int,
        noise: SensorNoise,
        on_progress: OnProgress,
    ) -> None:
        super().__init__(len(scenario), contract.rate_hz)
        self._name, self._scenario, self._robots, self._steps = contract.name, scenario, robots, steps
        self._noise, self._on_progress = noise, on_progress
        robots.set_perturbation(scenario.perturbation)
        robots.set_state(scenario.state)
        self._goal = {"goal_position": scenario.goal_position, "goal_orientation": frames.from_yaw(scenario.goal_yaw)}
        ahead_s = contract.envelope.conditions.get("path_ahead_s")
        self._path = None if scenario.path is None else _PathAhead(scenario.path, ahead_s)
        shapes = {name: scenario.state[name].shape for name in _RECORDED}
        turning = scenario.state["rotor_speed"]
        self._waiting = turning if robot.rate_loop is None else np.tile(robot.hover_command, (len(scenario), 1))
        shapes["command"] = self._waiting.shape
        self._arrays: dict[str, Any] = {name: np.empty((steps + 1, *shape)) for name, shape in shapes.items()}
        self._gone, self._k = np.zeros(len(scenario), dtype=bool), 0

    def observe(self, k: int) -> Mask:
        self._k, state = k, self._robots.state()
        rows = np.concatenate([state[name] for name in _RECORDED], axis=1)
        self._gone |= ~(np.abs(rows) < _GONE).all(axis=1)  # NaN compares false
        for name in _RECORDED:
            self._arrays[name][k] = np.where(self._gone[:, None], np.nan, state[name])
        # a diverged robot must not end the other flights
        start, gone = self._scenario.state, self._gone[:, None]
        self._state = {name: np.where(gone, start[name], now) for name, now in state.items()} if gone.any() else state
        return np.full(len(self), k == self._steps)

    def signals(self, names: Sequence[str]) -> dict[str, Array]:
        state, time_s = self._state, self._k / self.rate_hz
        ahead = frames.rotate_inverse(state["orientation"], state["linear_velocity"])
        sensed = self._noise.applied({**state, "linear_velocity": ahead}, time_s)
        known = {**sensed, **self._goal, **({} if self._path is None else self._path.at(time_s))}
        return {name: known[name] for name in names}

    def command(self, k: int, command: Array) -> None:
        self._arrays["command"][k] = command

    def waiting(self, command: Array) -> Array:
        return self._waiting

    def step(self, command: Array, over: Mask) -> None:
        self._robots.step(command)
        self._on_progress(self._k + 1, self._steps)

    def record(self, wall_s: float) -> FlightRecord:
        """Return the record of the flights."""
        return FlightRecord(
            simulator=self._robots.label,
            driver=self._name,
            rate_hz=self.rate_hz,
            **self._arrays,
            goal_position=self._scenario.goal_over(np.arange(self._steps + 1) / self.rate_hz),
            labels=self._scenario.labels,
            wall_s=wall_s,
        )


_AHEAD = 768
"""Random numbers drawn at a time for each flight."""


class FlightNormals:
    """Draws standard normals for all flights at once, with the interface of a numpy generator.

    Args:
        seed: Seed of all flights, at least 0.
        flights: Number of each flight; with the seed it determines the flight's stream.
    """

    def __init__(self, seed: int, flights: Sequence[int]) -> None:
        self._streams = [np.random.default_rng([seed, flight]) for flight in flights]
        self._drawn: Array = np.empty((len(self._streams), 0))
        self._used = 0

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Return normals (flights, width)."""
        count, width = size
        if count != len(self._streams):
            raise ValueError(f"the shape {size} is not allowed: there are {len(self._streams)} flights.")
        if self._used + width > self._drawn.shape[1]:
            self._drawn = np.stack([stream.standard_normal(max(_AHEAD, width)) for stream in self._streams])
            self._used = 0
        self._used += width
        return self._drawn[:, self._used - width : self._used]


class _PathAhead:
    """Selects the poses of paths that a policy receives.

    Args:
        path: N paths of M poses.
        ahead_s: Look-ahead time; None: all poses.
    """

    def __init__(self, path: Paths, ahead_s: float | None) -> None:
        self._time, self._position, self._turn = path.time_s, path.position, frames.from_yaw(path.yaw)
        self._ahead_s = ahead_s

    def at(self, time_s: float) -> dict[str, Array]:
        """Return the signals of ``goal_path`` at a time since the start, of at least two poses."""
        shown = slice(None)
        if self._ahead_s is not None:
            # from the last pose that is due in all paths to the first beyond the look-ahead in all
            first = int((self._time <= time_s).sum(axis=1).min()) - 1
            last = int((self._time < time_s + self._ahead_s).sum(axis=1).max())
            first = min(max(first, 0), self._time.shape[1] - 2)
            shown = slice(first, max(last, first + 1) + 1)
        return {
            "path_time": self._time[:, shown] - time_s,
            "path_position": self._position[:, shown],
            "path_orientation": self._turn[:, shown],
        }


def _check_ports(policy: Steppable, scenario: Scenario, command: str) -> None:
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
    if outputs != (command,):
        raise UserError(f"{where} commands {', '.join(outputs)}, but a flight of the robot takes only {command}.")

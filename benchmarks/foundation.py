#!/usr/bin/env python3
"""One policy for every quadrotor: RAPTOR's published checkpoint and rlstack's policy files on the same vehicles.

Vehicles are drawn from RAPTOR's family (rlstack.tasks.quadrotor.family) with a seed that no training uses, and fly in
the batch simulator; every policy meets the same vehicles, starts and forces, and senses without noise (--noise adds
that of the robot file). They start within ten arm lengths of the goal, turned up to 90 degrees; "in the cube" within
ten arm lengths along each axis. Stable, as RAPTOR counts it: less than 1 m from the goal at every instant of the last
second. The error is each flight's mean distance from the goal over the last second, of all flights, the lost ones too.
The figure-eight is 2 m by 1 m, 5.5 s a lap, from hover at its start, due at full speed at once; its RMSE is over the
whole flight. A policy that takes no path is given position and velocity relative to where it should be, as RAPTOR's
examples do. Robot files are flown as they are, with their drag and without disturbance, each many times.
--departures flies the trial "disturbed" with what verification departs in: observations 10, 20 and 30 ms late, commands
20 ms late, noise three times that of the robot file, half the control rate.

    python benchmarks/foundation.py [--policy FILE ...] [--vehicles 1000] [--seed 77000] [--departures] [--json FILE]

RAPTOR (arXiv 2509.11481) is flown where its checkpoint's package is installed: pip install foundation-policy==1.0.2
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import load_policy
from rlstack.policies.robot_contract import contract_for
from rlstack.robots import frames, robot_names
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.family import Start, Vehicles, nominal_robot, sample_family
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.trajectories import figure_eight
from rlstack.verification.departures import NOMINAL, Departures
from rlstack.verification.flight_trials import rollout
from rlstack.verification.runner import Steppable

Array = NDArray[np.float64]
Loader = Callable[[Quadrotor], Steppable]

FLIGHT_S = 10.0
STABLE_M = 1.0
GOAL_INPUTS = (
    "position",
    "orientation",
    "linear_velocity",
    "angular_velocity",
    "goal_position",
    "goal_orientation",
)
PATH_INPUTS = ("path_time", "path_position", "path_orientation")


class Raptor:
    """RAPTOR's checkpoint as a policy for one robot, in batches.

    Args:
        network: Its ``reset()`` and ``evaluate_step((N, 22)) -> (N, 4)``, with a hidden state for each row.
        robot: Its rotors, found by where they sit; commands are fractions of their top speed.
    """

    def __init__(self, network: Any, robot: Quadrotor) -> None:
        self.contract = contract_for(robot, GOAL_INPUTS, ["rotor_speed"], name="raptor", task="", rate_hz=100.0)
        self.path = Path("foundation-policy")
        self._network = network
        self._order = np.argsort(motor_of_rotor(robot))  # rotor of each of its motors
        model = robot.rotor_model
        self._low, self._high = model.speed_min_rad_s, model.speed_max_rad_s
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Forget everything."""
        self._network.reset()
        self._action = np.zeros((batch, 4))

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return rotor speeds for inputs with a leading batch axis."""
        to_goal = frames.inverse(inputs["goal_orientation"])
        turned = frames.multiply(to_goal, inputs["orientation"])
        observation = np.concatenate(
            [
                frames.rotate(to_goal, inputs["position"] - inputs["goal_position"]),
                frames.to_matrix(turned).reshape(-1, 9),
                frames.rotate(turned, inputs["linear_velocity"]),
                inputs["angular_velocity"],
                self._action,
            ],
            axis=1,
        )
        # The network's last layer is linear: the plant clips, and what is remembered is what was asked for.
        self._action = np.asarray(self._network.evaluate_step(observation), dtype=float)
        command = np.empty_like(self._action)
        command[:, self._order] = (np.clip(self._action, -1.0, 1.0) + 1.0) / 2.0 * self._high
        return {"rotor_speed": np.clip(command, self._low, self._high)}


def motor_of_rotor(robot: Quadrotor) -> NDArray[np.int64]:
    """Return for each rotor of the file which of RAPTOR's motors it is.

    Those are 0 front right, 1 back right, 2 back left, 3 front left.
    """
    quadrants = {(1.0, -1.0): 0, (-1.0, -1.0): 1, (-1.0, 1.0): 2, (1.0, 1.0): 3}
    return np.array([quadrants[float(np.sign(x)), float(np.sign(y))] for x, y in robot.rotor_positions[:, :2]])


class Following:
    """A policy that goes to a place, made to follow a path: it is told where it is relative to where it should be."""

    def __init__(self, policy: Steppable) -> None:
        ports = [port for port in policy.contract.inputs if not port.name.startswith("goal_")]
        robot = load_quadrotor("crazyflie")
        path = contract_for(robot, PATH_INPUTS, ["rotor_speed"], name="", task="").inputs
        self.contract = replace(policy.contract, inputs=(*ports, *path))
        self.path = policy.path
        self._policy = policy
        self._inputs = {port.name for port in policy.contract.inputs}

    def reset(self, batch: int = 1) -> None:
        """Forget everything."""
        self._policy.reset(batch)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return rotor speeds for inputs with a leading batch axis."""
        position, velocity, orientation = reference(*(inputs[name] for name in PATH_INPUTS))
        given = {name: array for name, array in inputs.items() if name not in PATH_INPUTS}
        given["position"] = inputs["position"] - position
        given["linear_velocity"] = inputs["linear_velocity"] - frames.rotate_inverse(inputs["orientation"], velocity)
        given["goal_position"], given["goal_orientation"] = np.zeros_like(position), orientation
        return self._policy.step({name: array for name, array in given.items() if name in self._inputs})


def reference(time_s: Array, position: Array, orientation: Array) -> tuple[Array, Array, Array]:
    """Return what is due now on paths whose poses come in ``time_s`` (N, M) s: position, velocity and orientation."""
    rows = np.arange(len(time_s))
    leg = np.clip((time_s <= 0.0).sum(axis=1) - 1, 0, time_s.shape[1] - 2)
    begin, end = time_s[rows, leg], time_s[rows, leg + 1]
    share = np.clip(-begin / (end - begin), 0.0, 1.0)[:, None]
    way = position[rows, leg + 1] - position[rows, leg]
    velocity = np.where((begin <= 0.0) & (end > 0.0), 1.0 / (end - begin), 0.0)[:, None] * way
    return position[rows, leg] + share * way, velocity, orientation[rows, leg]


@dataclass(frozen=True)
class Trial:
    """One kind of flight that every policy makes."""

    name: str
    start: Start
    disturbances: bool
    figure: bool = False
    departures: Departures = NOMINAL
    noise: float = 1.0
    """Factor of the robot file's noise."""


FAMILY_TRIALS = (
    Trial("disturbed", "ten_arms", True),
    Trial("calm", "ten_arms", False),
    Trial("disturbed, in the cube", "ten_arms_each_axis", True),
    Trial("from hover", "hover", True),
    Trial("figure-eight", "hover", True, figure=True),
    Trial("figure-eight, calm", "hover", False, figure=True),
)
DEPARTURES = (
    Trial("observed 10 ms late", "ten_arms", True, departures=Departures(observation_delay_s=0.01)),
    Trial("observed 20 ms late", "ten_arms", True, departures=Departures(observation_delay_s=0.02)),
    Trial("observed 30 ms late", "ten_arms", True, departures=Departures(observation_delay_s=0.03)),
    Trial("commands 20 ms late", "ten_arms", True, departures=Departures(command_delay_s=0.02)),
    Trial("noise x3", "ten_arms", True, noise=3.0),
    Trial("half the rate", "ten_arms", True, departures=Departures(period=2)),
    Trial("figure-eight, 20 ms late", "hover", True, figure=True, departures=Departures(observation_delay_s=0.02)),
)
ROBOT_TRIALS = (Trial("hover", "ten_arms", False), Trial("figure-eight", "hover", False, figure=True))


def fly(load: Loader, robot: Quadrotor, vehicles: Vehicles, trial: Trial, seed: int) -> dict[str, float]:
    """Fly one trial with all vehicles; return its figures."""
    robot = with_noise(robot, trial.noise)
    policy = load(robot)
    takes_path = any(port.name in PATH_INPUTS for port in policy.contract.inputs)
    count, path = len(vehicles), None
    if trial.figure:
        path = figure_eight(count, laps=2.0, step_s=0.02)
        policy = policy if takes_path else Following(policy)
    elif takes_path:  # then the goal is a path that stays where it is
        path = Paths(np.tile([0.0, 1.0], (count, 1)), np.zeros((count, 2, 3)), np.zeros((count, 2)))
    rng = np.random.default_rng([seed, 1])  # not the one of the vehicles
    scenario = vehicles.scenario(rng, robot, disturbances=trial.disturbances, start=trial.start, path=path)
    with np.errstate(over="ignore", invalid="ignore"):
        error = rollout(policy, scenario, robot, FLIGHT_S, noise_seed=seed, departures=trial.departures).error_m
    return figures(error, policy.contract.rate_hz)


def figures(error: Array, rate_hz: float) -> dict[str, float]:
    """Return the figures of flights that were ``error`` (T, N) m from the goal, infinite where one was given up."""
    last = error[-round(rate_hz) :]
    rest = last.mean(axis=0)
    rmse = np.sqrt((error**2).mean(axis=0))
    return {
        "stable": float((last < STABLE_M).all(axis=0).mean()),
        "error_median_m": float(np.median(rest)),
        "error_p95_m": float(np.quantile(rest, 0.95, method="higher")),
        "rmse_median_m": float(np.median(rmse)),
        "rmse_p95_m": float(np.quantile(rmse, 0.95, method="higher")),
    }


def with_noise(robot: Quadrotor, factor: float) -> Quadrotor:
    """Return ``robot`` with the noise of its odometry times ``factor``."""
    if factor == 1.0:
        return robot
    odom = robot.sensors["odom"]
    louder = {f.name: factor * getattr(odom, f.name) for f in fields(odom) if "_noise_" in f.name}
    return replace(robot, sensors={**robot.sensors, "odom": replace(odom, **louder)})


def as_in_file(robot: Quadrotor, count: int) -> Vehicles:
    """Return ``count`` of the same robot, exactly as its file says."""
    arm = float(np.linalg.norm(robot.rotor_positions[:, :2], axis=1).max())
    return Vehicles(Perturbation.none(count), np.full(count, arm), np.zeros(count), {})


def loaders(files: list[str], raptor: bool) -> dict[str, Loader]:
    """Return what flies, by name."""
    found: dict[str, Loader] = {}
    if raptor:
        try:
            network = importlib.import_module("foundation_policy").Raptor()
        except ImportError as error:
            print(
                f"RAPTOR is not flown, {error.name} is missing: pip install foundation-policy==1.0.2", file=sys.stderr
            )
        else:
            found["RAPTOR"] = lambda robot: Raptor(network, robot)
    for file in files:
        name = Path(file).stem if len({Path(f).stem for f in files}) == len(files) else file
        found[name] = lambda robot, file=file: load_policy(file, robot=robot)  # type: ignore[misc]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policy", nargs="*", default=[], help="policy files for the family, or for some of the robots"
    )
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--flights", type=int, default=100, help="of each robot file")
    parser.add_argument("--seed", type=int, default=77_000, help="of the vehicles; never one of training")
    parser.add_argument("--robots", nargs="*", default=None, help="robot files to fly; all by default")
    parser.add_argument("--no-raptor", action="store_true")
    parser.add_argument("--noise", action="store_true", help="sense with the noise of the robot files")
    parser.add_argument(
        "--no-drag", action="store_true", help="fly the robot files without drag, as RAPTOR's simulator"
    )
    parser.add_argument("--departures", action="store_true", help="fly the family with delays, noise and half the rate")
    parser.add_argument("--json", help="write all figures here")
    options = parser.parse_args()

    def sensing(robot: Quadrotor) -> Quadrotor:
        return robot if options.noise else replace(robot, sensors={})

    policies = loaders(options.policy, not options.no_raptor)
    noisy = nominal_robot(load_quadrotor("crazyflie"))
    family = sensing(noisy)
    vehicles = sample_family(np.random.default_rng(options.seed), options.vehicles, family)
    result: dict[str, Any] = {"seed": options.seed, "vehicles": options.vehicles, "family": {}, "robots": {}}
    print(f"{options.vehicles} vehicles of the family, seed {options.seed}, {FLIGHT_S:g} s")
    header("trial")
    for trial in (*FAMILY_TRIALS, *(DEPARTURES if options.departures else ())):
        flown = noisy if trial.noise != 1.0 else family
        for name, load in policies.items():
            if (row := attempt(load, flown, vehicles, trial, options.seed, name)) is not None:
                result["family"].setdefault(name, {})[trial.name] = row
    names = robot_names("quadrotor") if options.robots is None else options.robots
    print(f"\nrobot files as they are, {options.flights} flights each, no disturbance")
    header("robot, trial")
    for robot_name in names:
        robot = sensing(load_quadrotor(robot_name))
        if options.no_drag:
            robot = replace(robot, body=replace(robot.body, linear_drag_n_s_per_m=(0.0, 0.0, 0.0)))
        for trial in ROBOT_TRIALS:
            for name, load in policies.items():
                row = attempt(load, robot, as_in_file(robot, options.flights), trial, options.seed, name, robot_name)
                if row is not None:
                    result["robots"].setdefault(name, {}).setdefault(robot_name, {})[trial.name] = row
    if options.json:
        Path(options.json).write_text(json.dumps(finite(result), indent=2) + "\n")


def attempt(
    load: Loader, robot: Quadrotor, vehicles: Vehicles, trial: Trial, seed: int, policy: str, of: str = ""
) -> dict[str, float] | None:
    """Fly one trial and print its line; None if the policy is not for this robot."""
    what = f"{of}, {trial.name}" if of else trial.name
    try:
        row = fly(load, robot, vehicles, trial, seed)
    except UserError as error:
        print(f"{what:<34}{policy:<24}{error}", flush=True)
        return None
    line(what, policy, row)
    return row


def finite(result: Any) -> Any:
    """Return nested figures with None for those that are not finite, which JSON cannot say."""
    if isinstance(result, dict):
        return {name: finite(entry) for name, entry in result.items()}
    return None if isinstance(result, float) and not np.isfinite(result) else result


def header(first: str) -> None:
    """Print the names of the columns."""
    print(f"{first:<34}{'policy':<24}{'stable':>8}{'last second: median':>21}{'p95':>9}{'RMSE: median':>14}{'p95':>9}")


def line(what: str, policy: str, row: dict[str, float]) -> None:
    """Print one line of the table, lengths in m."""
    lengths = [row[key] for key in ("error_median_m", "error_p95_m", "rmse_median_m", "rmse_p95_m")]
    columns = "".join(f"{x:>{w}.3f}" if x < 1e3 else f"{'lost':>{w}}" for x, w in zip(lengths, (21, 9, 14, 9)))
    print(f"{what:<34}{policy:<24}{100 * row['stable']:7.1f}%{columns}", flush=True)


if __name__ == "__main__":
    main()

"""CrowdNav's published protocol: policy files, ORCA in the same run, and the published figures.

    python benchmarks/crowdnav.py policies/base_crowd_crowdnav/policy.onnx [more.onnx ...]

Prints one table. Circle crossing, 5 people, robot invisible to them and holonomic, 500 test episodes (numpy's seeds
1000 to 1499, as in the public source of Chen et al., arXiv 1809.08835). Needs pyrvo.

The protocol, step by step as that source has it: five people and the robot cross a circle of 4 m, and the people
ignore the robot; steps of 0.25 s, at most 25 s; the robot takes any velocity up to 1 m/s at once. It fails if it
touches somebody in any step, with people extrapolated at the velocity of the step before, and has arrived within its
own radius of the goal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.sim.crowds.scenes import CROSSING_M, DISCOMFORT_M
from rlstack.verification.runner import input_names

PERIOD_S, LIMIT_S, RADIUS_M, SPEED_M_S = 0.25, 25.0, 0.3, 1.0
EPISODES, _FIRST_SEED = 500, 1000
NEIGHBOURS_M, MOST_NEIGHBOURS, HORIZON_S, MARGIN_M = 10.0, 10, 5.0, 0.01
"""Parameters of everybody's ORCA."""

PUBLISHED = {
    "ORCA": (0.43, 0.57, 10.86),
    "CADRL": (0.78, 0.22, 10.80),
    "LSTM-RL": (0.95, 0.03, 11.82),
    "SARL": (1.00, 0.00, 10.60),
}
"""Success rate, collision rate and mean time in s from the paper's table."""


@dataclass(frozen=True)
class Crossings:
    """Results of N episodes.

    Args:
        ending: (N,) ``arrived``, ``collided`` or ``timed out``.
        time_s: (N,).
        closest_m: (N,) least gap to anybody.
        dangerous: Share of all steps within 0.2 m of somebody.
    """

    ending: NDArray[np.str_]
    time_s: Array
    closest_m: Array
    dangerous: float

    def figures(self) -> dict[str, float]:
        """Return shares of endings and the mean time of the successes, as the source reports them."""
        arrived = self.ending == "arrived"
        return {
            "episodes": float(len(self.ending)),
            "success": float(arrived.mean()),
            "collided": float((self.ending == "collided").mean()),
            "timed_out": float((self.ending == "timed out").mean()),
            "time_s": float(self.time_s[arrived].mean()) if arrived.any() else LIMIT_S,
            "dangerous": self.dangerous,
        }


def published_starts(episodes: int = EPISODES, people: int = 5) -> Array:
    """Return people's start positions in the test episodes (N, P, 2), m, drawn like the source's."""
    found = np.zeros((episodes, people, 2))
    for episode in range(episodes):
        random = np.random.RandomState(_FIRST_SEED + episode)
        taken = [(0.0, -CROSSING_M, 0.0, CROSSING_M)]
        for k in range(people):
            while True:
                angle = random.random_sample() * np.pi * 2
                noise = random.random_sample() - 0.5, random.random_sample() - 0.5
                x, y = CROSSING_M * np.cos(angle) + noise[0], CROSSING_M * np.sin(angle) + noise[1]
                least = 2.0 * RADIUS_M + DISCOMFORT_M
                if all(np.hypot(x - a, y - b) >= least and np.hypot(x - c, y - d) >= least for a, b, c, d in taken):
                    break
            taken.append((x, y, -x, -y))
            found[episode, k] = x, y
    return found


def walks(starts: Array) -> tuple[Array, Array]:
    """Return positions and velocities (T + 1, N, P, 2) of people simulated by RVO2 without the robot.

    Raises:
        UserError: pyrvo is not installed.
    """
    steps = round(LIMIT_S / PERIOD_S)
    place = np.zeros((steps + 1, *starts.shape))
    velocity = np.zeros_like(place)
    place[0] = starts
    for n, start in enumerate(starts):
        simulator = _simulator(len(start))
        for k, (x, y) in enumerate(start.tolist()):
            simulator.set_agent_position(k, (x, y))
        for t in range(steps):
            _want(simulator, place[t, n], -start)
            simulator.do_step()
            for k in range(len(start)):
                where, going = simulator.get_agent_position(k), simulator.get_agent_velocity(k)
                place[t + 1, n, k], velocity[t + 1, n, k] = (where.x, where.y), (going.x, going.y)
    return place, velocity


def cross(driver: Any, place: Array, velocity: Array) -> Crossings:
    """Run a driver through the crossings.

    Args:
        driver: A policy file, or an object with its interface, that commands a ``planar_twist``, for N robots at once.
        place: (T + 1, N, P, 2) m, people's positions.
        velocity: (T + 1, N, P, 2) m/s, people's velocities.
    """
    steps, count = len(place) - 1, place.shape[1]
    robot, going = np.tile([0.0, -CROSSING_M], (count, 1)), np.zeros((count, 2))
    goal = np.tile([0.0, CROSSING_M], (count, 1))
    ending, time_s = np.full(count, "", dtype="<U9"), np.full(count, LIMIT_S)
    closest, danger, lived = np.full(count, np.inf), 0, 0
    driver.reset(count)
    senses = input_names(driver)
    for t in range(steps):
        live = ending == ""
        if not live.any():
            break
        signals = _signals(robot, going, goal, place[t], velocity[t])
        command = driver.step({name: signals[name] for name in senses})["planar_twist"][:, :2]
        command = command / np.maximum(np.linalg.norm(command, axis=1, keepdims=True) / SPEED_M_S, 1.0)
        apart, drift = place[t] - robot[:, None], (velocity[t] - command[:, None]) * PERIOD_S
        share = np.clip(-(apart * drift).sum(-1) / np.maximum((drift**2).sum(-1), 1e-12), 0.0, 1.0)
        gap = np.linalg.norm(apart + share[..., None] * drift, axis=-1).min(axis=1) - 2.0 * RADIUS_M
        robot = np.where(live[:, None], robot + command * PERIOD_S, robot)
        going = np.where(live[:, None], command, going)
        arrived = np.linalg.norm(robot - goal, axis=1) < RADIUS_M
        closest = np.where(live, np.minimum(closest, gap), closest)
        danger, lived = danger + int((live & (gap >= 0.0) & (gap < DISCOMFORT_M)).sum()), lived + int(live.sum())
        for which, word in (
            (np.full(count, t * PERIOD_S >= LIMIT_S - 1.0), "timed out"),
            (gap < 0.0, "collided"),
            (arrived, "arrived"),
        ):
            new = which & (ending == "")
            ending[new], time_s[new] = word, (t + 1) * PERIOD_S
    return Crossings(ending, time_s, closest, danger / max(lived, 1))


class OrcaRobot:
    """CrowdNav's baseline: RVO2 plans the robot's velocity as if everybody took half of the avoidance."""

    inputs = ("position", "linear_velocity", "goal_position", "people_position", "people_velocity")

    def reset(self, batch: int = 1) -> None:
        """Reset the state for ``batch`` robots."""
        self._simulators: list[Any] = [None] * batch

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``planar_twist`` (N, 3); robots head along x."""
        count, people = inputs["people_position"].shape[:2]
        command = np.zeros((count, 3))
        for n in range(count):
            if self._simulators[n] is None:
                self._simulators[n] = _simulator(people + 1)
            simulator = self._simulators[n]
            place = np.concatenate([inputs["position"][n, None, :2], inputs["people_position"][n, :, :2]])
            going = np.concatenate([inputs["linear_velocity"][n, None, :2], inputs["people_velocity"][n, :, :2]])
            for k in range(people + 1):
                simulator.set_agent_position(k, tuple(place[k].tolist()))
                simulator.set_agent_velocity(k, tuple(going[k].tolist()))
                simulator.set_agent_pref_velocity(k, (0.0, 0.0))
            _want(simulator, place[:1], inputs["goal_position"][n, None, :2])
            simulator.do_step()
            velocity = simulator.get_agent_velocity(0)
            command[n, :2] = velocity.x, velocity.y
        return {"planar_twist": command}


def _simulator(agents: int) -> Any:
    try:
        import pyrvo  # type: ignore[import-untyped]
    except ImportError as error:
        raise UserError(f"CrowdNav's people need RVO2, which is missing ({error}): pip install pyrvo.") from error
    same = NEIGHBOURS_M, MOST_NEIGHBOURS, HORIZON_S, HORIZON_S
    simulator = pyrvo.RVOSimulator(PERIOD_S, *same, RADIUS_M, SPEED_M_S)
    for _ in range(agents):
        simulator.add_agent((0.0, 0.0), *same, RADIUS_M + MARGIN_M, SPEED_M_S, (0.0, 0.0))
    return simulator


def _want(simulator: Any, place: Array, goal: Array) -> None:
    for k, (dx, dy) in enumerate((goal - place).tolist()):
        away = float(np.hypot(dx, dy))
        share = 1.0 / away if away > 1.0 else 1.0
        simulator.set_agent_pref_velocity(k, (dx * share, dy * share))


def _signals(robot: Array, going: Array, goal: Array, place: Array, velocity: Array) -> dict[str, Array]:
    """Return the policy's observations; the robot heads along x."""

    def level(array: Array) -> Array:
        return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1)

    count = len(robot)
    return {
        "position": level(robot),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": level(going),
        "angular_velocity": np.zeros((count, 3)),
        "goal_position": level(goal),
        "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "people_position": level(place),
        "people_velocity": level(velocity),
        "people_radius": np.full(place.shape[:2], RADIUS_M),
    }


_ROW = "{:<34} {:>8} {:>9} {:>9} {:>8} {:>10}"


def main(paths: list[str]) -> None:
    """Print the table."""
    place, velocity = walks(published_starts())
    drivers = {"ORCA (pyrvo), this run": OrcaRobot()}
    for path in paths:
        drivers[path] = load_policy(path)
    print(f"CrowdNav, circle crossing, {EPISODES} episodes, robot invisible and holonomic")
    print(_ROW.format("who", "success", "collision", "time-out", "time, s", "in danger"))
    for name, (success, collision, seconds) in PUBLISHED.items():
        print(_ROW.format(f"{name}, published", f"{success:.2f}", f"{collision:.2f}", "", f"{seconds:.2f}", ""))
    for name, driver in drivers.items():
        begin = time.perf_counter()
        f = cross(driver, place, velocity).figures()
        print(
            _ROW.format(
                name[-34:],
                f"{f['success']:.3f}",
                f"{f['collided']:.3f}",
                f"{f['timed_out']:.3f}",
                f"{f['time_s']:.2f}",
                f"{100.0 * f['dangerous']:.1f} %",
            ),
            f" ({time.perf_counter() - begin:.1f} s)",
        )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))

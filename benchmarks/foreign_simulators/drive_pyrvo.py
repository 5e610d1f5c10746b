"""base_crowd_crowdnav's crossing among people whom pyrvo (RVO2) moves, the robot one of its agents or not there.

Its conventions: discs with positions and velocities in the world, m and m/s; every agent has a preferred velocity,
straight to its goal, and avoids the others by ORCA. The robot takes the commanded velocity at once (it heads along x,
so that its body's frame is the world's); if people see it, it is a disc that they avoid, and that avoids nobody.

People that are seen late are where their velocity has brought them in the meantime, as the file's envelope asks for
under ``extrapolated`` (and as the policy node does it for files without an envelope).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyrvo
from delays import Delay
from numpy.typing import NDArray
from policy_file import PolicyFile

Array = NDArray[np.float64]

SEEN = "robot seen"
FAR_M = 1e3


class Crossing:
    """N scenes, each a simulator of pyrvo's with people and perhaps the robot as the last agent."""

    def __init__(self, job: Mapping[str, Any], parameters: str) -> None:
        orca = job["orca"]
        self._starts, self._seen = np.array(job["people"]), parameters == SEEN
        self._scenes = []
        for start in self._starts:
            scene = pyrvo.RVOSimulator(job["period_s"], *orca, job["radius_m"], job["speed_m_s"])
            agents = len(start) + self._seen
            for place in [*start.tolist(), [0.0, -FAR_M]][:agents]:
                scene.add_agent(tuple(place), *orca, job["radius_m"] + job["margin_m"], job["speed_m_s"], (0.0, 0.0))
            self._scenes.append(scene)
        self.place, self.velocity = self._starts.copy(), np.zeros_like(self._starts)

    def step(self, robot: Array, going: Array) -> None:
        """Move everybody for a period, with robots (N, 2) m that go at (N, 2) m/s."""
        count = self._starts.shape[1]
        for n, scene in enumerate(self._scenes):
            way = -self._starts[n] - self.place[n]
            way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1.0)
            for k, wanted in enumerate(way.tolist()):
                scene.set_agent_pref_velocity(k, tuple(wanted))
            if self._seen:
                scene.set_agent_position(count, tuple(robot[n].tolist()))
                scene.set_agent_velocity(count, tuple(going[n].tolist()))
                scene.set_agent_pref_velocity(count, tuple(going[n].tolist()))
            scene.do_step()
            for k in range(count):
                place, velocity = scene.get_agent_position(k), scene.get_agent_velocity(k)
                self.place[n, k], self.velocity[n, k] = (place.x, place.y), (velocity.x, velocity.y)


def closest(apart: Array, drift: Array) -> Array:
    """Return the least distance (N, P) m while ``apart`` (N, P, 2) changes by ``drift``."""
    share = -(apart * drift).sum(-1) / ((drift * drift).sum(-1) + 1e-12)
    return np.asarray(np.linalg.norm(apart + np.clip(share, 0.0, 1.0)[..., None] * drift, axis=-1))


def level(array: Array) -> Array:
    """Return (..., 2) as (..., 3), on the floor."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], 1))], axis=-1)


def cross(policy: PolicyFile, job: Mapping[str, Any], parameters: str, delay_s: float) -> dict[str, Any]:
    """Run every crossing; return the figures."""
    begun, period_s = time.process_time(), job["period_s"]
    scene, late = Crossing(job, parameters), Delay(delay_s, period_s)
    count, people = scene.place.shape[:2]
    robot, going = np.tile([0.0, -job["circle_m"]], (count, 1)), np.zeros((count, 2))
    goal, upright = np.tile([0.0, job["circle_m"]], (count, 1)), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    ending, time_s = np.full(count, "timed out", dtype="<U9"), np.full(count, job["limit_s"])
    moved_on = "people_position" in (policy.contract.get("envelope") or {}).get("extrapolated", ["people_position"])
    policy.reset(count)
    for k in range(round(job["limit_s"] / period_s)):
        live = ending == "timed out"
        if not live.any():
            break
        seen = late({"place": scene.place.copy(), "velocity": scene.velocity.copy()})
        age_s = min(k * period_s, delay_s) if moved_on else 0.0
        signals = {
            "position": level(robot),
            "orientation": upright,
            "linear_velocity": level(going),
            "angular_velocity": np.zeros((count, 3)),
            "goal_position": level(goal),
            "goal_orientation": upright,
            "people_position": level(seen["place"] + seen["velocity"] * age_s),
            "people_velocity": level(seen["velocity"]),
            "people_radius": np.full((count, people), job["radius_m"]),
        }
        going = policy.step(signals)["planar_twist"][:, :2]
        going = going / np.maximum(np.linalg.norm(going, axis=1, keepdims=True) / job["speed_m_s"], 1.0)
        going = np.where(live[:, None], going, 0.0)
        apart = scene.place - robot[:, None]
        scene.step(robot, going)
        robot = robot + going * period_s
        gap = closest(apart, scene.place - robot[:, None] - apart).min(axis=1) - 2.0 * job["radius_m"]
        arrived = np.linalg.norm(robot - goal, axis=1) < job["radius_m"]
        for word, which in (("collided", gap < 0.0), ("arrived", arrived)):
            new = which & (ending == "timed out")
            ending[new], time_s[new] = word, (k + 1) * period_s
    arrived = ending == "arrived"
    return {
        "parameters": parameters,
        "people_delay_s": delay_s,
        "trials": count,
        "success": float(arrived.mean()),
        "collided": float((ending == "collided").mean()),
        "time_s": float(time_s[arrived].mean()) if arrived.any() else float("nan"),
        "cpu_s": time.process_time() - begun,
    }


def main() -> None:
    """Run what the job asks for and write the figures."""
    parser = argparse.ArgumentParser()
    for name in ("policy", "job", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    job, policy = json.loads(chosen.job.read_text()), PolicyFile(chosen.policy)
    rows = []
    for parameters in job["parameters"]:
        for delay_s in job["delays_s"]:
            rows.append(cross(policy, job, parameters, delay_s))
            print(json.dumps(rows[-1]), flush=True)
    chosen.out.write_text(json.dumps({"versions": {"pyrvo": version("pyrvo")}, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

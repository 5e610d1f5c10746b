#!/usr/bin/env python3
"""What an adaptation in flight is worth in somebody else's simulator: crazyflow, with our Crazyflie's numbers.

    python benchmarks/adapt_foreign.py [--environments FOLDER] [--trials 100]

The Crazyflie is changed there (a payload, a weak motor, both), and the released quadrotor_hover hovers it. The last
seconds of that hover, with the task's odometry noise, are what an adaptation sees: it tells the change, learns for it
in rlstack's batch simulator, and proves the result there. Both policies then fly held-out starts of the hover task in
crazyflow on the changed Crazyflie, with and without odometry that is late. Environments are those of
benchmarks/foreign_simulators.py.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import foreign_simulators as foreign
import numpy as np
from foreign_trials import flights

from rlstack.identification.motion_model import Edit
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.robot_file import edited, source_text
from rlstack.policies import load_policy
from rlstack.policies.released import find_policy
from rlstack.training.adaptation import Adapter
from rlstack.training.adaptation_messages import Origin

NAME, SHOWN = "crazyflow", "ours"
MASS = Edit(("body", "mass_kg"), 1.3 * 0.027, "")
MOTOR = Edit(("rotors", 0, "thrust_factor"), 0.8, "", adds=True)
CHANGES = {"payload of 30%": [MASS], "motor m1 at 80%": [MOTOR], "both": [MASS, MOTOR]}
HOVERS_S, LOOKED_S = 10.0, 3.0
MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")


def hover(robot: Path, policy: Path, where: Any) -> Recorded:
    """Return the last seconds of a hover of the changed robot there."""
    job = flights("quadrotor_hover", 1, str(robot))
    still = {key: np.zeros((1, 3)).tolist() for key in ("linear_velocity", "angular_velocity", "force_n", "torque_n_m")}
    start = {"position": [[0.0, 0.0, 1.2]], "orientation": [[0.0, 0.0, 0.0, 1.0]], "rotor_speed": [[1516.0] * 4]}
    job |= {"starts": {**still, **start}, "seed": 7, "parameters": [SHOWN], "delays_s": [0.0], "task": "a recording"}
    job |= {"goals": [[0.0, 0.0, 0.0, 1.2, 0.0]], "seconds": HOVERS_S}
    flown = foreign.execute(NAME, job, policy, *where)["rows"][0]
    count = round(LOOKED_S / flown["period_s"])
    at = flown["period_s"] * np.arange(count)
    seen = {name: np.array(rows)[-count:] for name, rows in flown["signals"].items()}
    off = np.linalg.norm(seen["position"] - [0.0, 0.0, 1.2], axis=1)
    print(f"  released, in the last {LOOKED_S:g} s of that hover: {1e3 * off.mean():.0f} mm off")
    odom = Track("odom", at, {key: seen[key] for key in MOTION})
    return Recorded(Path("hover"), {"odom": odom, "cmd/rotors": Track("cmd", at, {"rotor_speed": seen["rotor_speed"]})})


def main() -> None:
    """Hover, tell, adapt, fly, and print the figures."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlstack" / "foreign_simulators"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--environments", type=Path, default=cache, help=f"Default: {cache}")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    released, where = find_policy("quadrotor_hover"), foreign.environment(NAME, chosen.environments, None)
    with tempfile.TemporaryDirectory() as folder:
        origin = load_policy(released)
        adapter = Adapter(Origin(str(origin.path), origin.sha256, "crazyflie"), Path(folder))
        for number, (what, edits) in enumerate(CHANGES.items()):
            print(what, flush=True)
            robot = Path(folder) / f"changed_{number}" / "crazyflie.yaml"
            robot.parent.mkdir()
            robot.write_text(edited(source_text("crazyflie")[1], edits))
            told = adapter.told([hover(robot, Path(released), where)])
            found = adapter.adapt(told, number)
            proof = "; ".join(found.failures) or "passed"
            print(f"  told: {told.sentence}; learned {found.learned_s:.1f} CPU-s; proof: {proof}", flush=True)
            for which, policy in (("released", Path(released)), ("adapted", found.policy)):
                job = flights("quadrotor_hover", chosen.trials, str(robot))
                job |= {"seed": foreign.SEED, "parameters": [SHOWN], "delays_s": [0.0, 0.02], "task": "quadrotor_hover"}
                rows = foreign.execute(NAME, job, policy, *where)["rows"]
                print(f"  {which}\n{foreign.table(rows)}", flush=True)


if __name__ == "__main__":
    main()

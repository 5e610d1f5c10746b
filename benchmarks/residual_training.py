#!/usr/bin/env python3
"""Whether a policy that was trained with the residual model flies the robot better than one without.

    python benchmarks/residual_training.py --seeds 5

The robot is a Crazyflie with other numbers (benchmarks/identify.py) and a quadratic drag that no robot file has. It is
flown for 60 s in MuJoCo by quadrotor_hover, identified with its mass known, and the residual model is fitted. From the
identified file quadrotor_tracking is trained once with it (``--task-settings.residual``) and once without, for each
seed of training. Both then follow paths with the robot itself: its true numbers, delay and quadratic drag, in the batch
simulator, as physics. Reported is the root mean square distance from the path from second 3 on, of each seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from identify import REPORTED_SEED, fly, other_robot
from tracking_baselines import from_hover, rmse, sudden

from rlstack.identification.identify import identify
from rlstack.identification.residual import fit_residual
from rlstack.identification.robot_file import write_robot
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import load_policy
from rlstack.sim.batch_quadrotor.dynamics import RESIDUAL_INPUTS, RESIDUAL_OUTPUTS
from rlstack.sim.physics.body import Vector, vector
from rlstack.sim.physics.residual import ResidualModel, write_residual
from rlstack.tasks.quadrotor import trajectories
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.flight_trials import rollout

EPISODES = 50
SETTLED_S = 3.0
"""From when on the distance counts: before, they catch up with a path that begins at full speed."""
PATHS = (77, 78)
"""Words of the seed of the paths, which no training has."""


@dataclass(frozen=True)
class QuadraticDrag(ResidualModel):
    """The force against the velocity v through the air of the size ``coefficient * v^2``, N, in the body."""

    coefficient: float = 0.0

    def apply(self, values: Sequence[Any]) -> Vector:
        """Return force and torque (6, ...)."""
        velocity = vector(*values[:3])
        size = np.sqrt((velocity * velocity).sum(axis=0) + 1e-12)
        return vector(*(-self.coefficient * size * one for one in velocity), *(0.0 * size for _ in range(3)))

    @staticmethod
    def sized(coefficient: float) -> QuadraticDrag:
        """Return the drag of a coefficient, N s^2/m^2."""
        return QuadraticDrag(RESIDUAL_INPUTS, RESIDUAL_OUTPUTS, (), (), (), (), (), (), (), coefficient)


def paths(robot: Quadrotor, delay_s: float) -> dict[str, Scenario]:
    """Return the flights, which begin hovering, by kind."""
    drawn = {
        "figure-eights": trajectories.figure_eight(EPISODES, ease_s=0.0),
        "Lissajous figures at once": sudden(np.random.default_rng([*PATHS, 0]), EPISODES, robot),
    }
    found = {}
    for kind, path in drawn.items():
        flights = from_hover(robot, path, np.random.default_rng([*PATHS, 1]), disturbed=False)
        late = dataclasses.replace(flights.perturbation, delay_s=np.full(EPISODES, delay_s))
        found[kind] = dataclasses.replace(flights, perturbation=late)
    return found


def main() -> None:
    """Fly, identify, train, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot-seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--drag", type=float, default=0.004, help="quadratic drag, N s^2/m^2")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each kind")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the flight that is identified from")
    parser.add_argument("--steps", type=int, help="of each training; default: the recipe's")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    file, seed = load_quadrotor("crazyflie"), options.robot_seed
    true, truth = other_robot(file, np.random.default_rng([seed, 0]))
    recorded = fly(true, truth["delay"], seed, options.seconds, options.drag)
    if recorded is None:
        sys.exit(f"{seed}: quadrotor_hover cannot fly this robot: take another --robot-seed.")
    found = identify(file, [recorded], {"mass": truth["mass"]})
    residual = fit_residual(found)
    if residual.model is None:
        sys.exit(f"There is no residual model to train with: {residual.why}")
    print(f"terms that help: {[term.name for term in residual.terms if term.used]}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        robot, beyond = Path(folder) / "identified.yaml", Path(folder) / "identified.residual.onnx"
        write_robot(robot, "crazyflie", found)
        write_residual(beyond, residual.model, "benchmark")
        flown = dataclasses.replace(true, name="identified")
        asked, drag = paths(flown, truth["delay"]), QuadraticDrag.sized(options.drag)
        rows: list[dict[str, Any]] = []
        for number in range(options.first_seed, options.first_seed + options.seeds):
            row: dict[str, Any] = {"seed": number}
            for which, more in (("without", []), ("with", ["--task-settings.residual", str(beyond)])):
                run = Path(folder) / f"{which}_{number}"
                words = ["rlstack", "train", "quadrotor_tracking", "--robot", str(robot), "--seed", str(number)]
                words += ["--out", str(run), "--no-view", *more]
                words += ["--steps", str(options.steps)] if options.steps else []
                subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
                policy = load_policy(run / "policy.onnx")
                row[which] = {}
                for kind, scenario in asked.items():
                    assert scenario.path is not None
                    record = rollout(policy, scenario, flown, scenario.path.duration_s, residual=drag)
                    row[which][kind] = 1e3 * float(rmse(record, SETTLED_S).mean())
            rows.append(row)
            print(row, flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    for kind in asked:
        gains = [row["with"][kind] / row["without"][kind] for row in rows]
        both = [np.mean([row[which][kind] for row in rows]) for which in ("without", "with")]
        print(
            f"{kind}: {both[0]:.1f} mm without, {both[1]:.1f} mm with, mean of {len(rows)} seeds; ratio by seed"
            f" {[round(float(gain), 3) for gain in gains]}"
        )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a residual model is worth: Crazyflies in MuJoCo whose drag has a quadratic part that no robot file has.

    python benchmarks/identify_residual.py --drag 0.004 --robots 3

Each robot differs from the file as in benchmarks/identify.py, and is flown for 60 s by the released quadrotor_hover to
goals that step, with and without the quadratic drag. It is identified with its mass known, and the residual model is
fitted to what that leaves. Reported are the terms that are used, and the error of the motion predicted over 1 s on
held-out seconds and on another flight of 30 s, with the file as shipped, as identified, and with the residual model.
"""

from __future__ import annotations

import argparse

import numpy as np
from identify import REPORTED_SEED, fly, other_robot

from rlstack.identification.gap import gap_of
from rlstack.identification.identify import identify
from rlstack.identification.residual import fit_residual
from rlstack.kinds import find_kind
from rlstack.kinds.quadrotor.spec import load_quadrotor

SHOWN = ("position", "orientation", "linear_velocity")


def main() -> None:
    """Fly, identify, fit, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drag", type=float, nargs="+", default=[0.0, 0.004], help="quadratic drag, N s^2/m^2")
    parser.add_argument("--robots", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    file = load_quadrotor("crazyflie")
    kind = find_kind(file.kind).load("identification")
    seed, robots = options.first_seed - 1, 0
    while robots < options.robots:
        seed += 1
        true, truth = other_robot(file, np.random.default_rng([seed, 0]))
        flights = [
            [
                fly(true, truth["delay"], number, lasts, drag)
                for number, lasts in ((seed, options.seconds), (seed + 500, 30.0))
            ]
            for drag in options.drag
        ]
        robots += None not in [one for pair in flights for one in pair]
        for drag, (recorded, other) in zip(options.drag, flights):
            if recorded is None or other is None:
                print(f"{seed}, drag {drag:g}: it cannot be flown", flush=True)
                continue
            found = identify(file, [recorded], {"mass": truth["mass"]})
            residual = fit_residual(found)
            used = [term.name for term in residual.terms if term.used]
            print(f"{seed}, drag {drag:g}: {residual.seconds:.0f} CPU-s. Terms that help: {used}. {residual.why}")
            gaps = {
                "file": found.before,
                "identified": found.after,
                "with the residual": next(iter(residual.gaps.values()), None),
            }
            model = kind.model(file, [other])
            again = {"identified": gap_of(model, found.values, [other], held_out=False)}
            if residual.model is not None:
                beyond = model.with_residual(residual.model)
                again["with the residual"] = gap_of(beyond, found.values, [other], held_out=False)
            for name in SHOWN:
                held = {which: float(f"{gap.errors[name][-1]:.3g}") for which, gap in gaps.items() if gap}
                flown = {which: float(f"{gap.errors[name][-1]:.3g}") for which, gap in again.items()}
                print(
                    f"  {name} after 1 s, {found.after.units[name]}: held out {held}, another flight {flown}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

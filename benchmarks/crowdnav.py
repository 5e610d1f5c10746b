"""CrowdNav's published protocol: policy files, ORCA in the same run, and the published figures.

    python benchmarks/crowdnav.py policies/base_crowd_crowdnav/policy.onnx [more.onnx ...]

Prints one table. Circle crossing, 5 people, robot invisible to them and holonomic, 500 test episodes (numpy's seeds
1000 to 1499, as in the public source of arXiv 1809.08835). Needs pyrvo.
"""

from __future__ import annotations

import sys
import time

from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.verification.crowdnav import EPISODES, PUBLISHED, OrcaRobot, cross, published_starts, walks

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

"""Prove the released policies again, on other trials than those of their records.

    python benchmarks/released_policies.py [--names quadrotor_hover ...] [--seed 2] [--backends batch,mujoco]
                                           [--no-topics] [--episodes N] [--json FILE]

Each is verified as by `rlstack verify` in a folder of its own, so that the released records stay as they are. The table
shows success in each column now and by the record, and the margins that are judged. The exit status is 1 if a policy
does not pass, or if its file is not the one of its record.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlstack.bringup.verification_check import file_sha256
from rlstack.bringup.verify import verify
from rlstack.errors import UserError
from rlstack.policies.proven import margins_of
from rlstack.policies.released import Released, released
from rlstack.verification.transfer import aligned


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", default=[], help="released policies; left out: all")
    parser.add_argument("--seed", type=int, default=2, help="of the trials; the records have 1")
    parser.add_argument("--backends", default="", help="simulators, separated by commas; left out: all installed")
    parser.add_argument("--no-topics", action="store_true", help="in process only")
    parser.add_argument("--episodes", type=int, help="trials in each simulator")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    known = {one.name: one for one in released()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no released policy {', '.join(unknown)}; there are {', '.join(known)}")
    found = {name: prove(known[name], options) for name in options.names or known}
    print("\n".join(aligned(rows(known, found))))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all(one["passed"] for one in found.values()) else 1


def prove(policy: Released, options: argparse.Namespace) -> dict[str, Any]:
    """Return the verdict, success by column, margins and time of one policy's new verification."""
    started = time.monotonic()
    reasons = []
    if policy.record.get("sha256") != file_sha256(policy.path):
        reasons.append("its record is for another file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copyfile(policy.path, Path(folder) / policy.path.name))
        try:
            verified = verify(
                path,
                backends=options.backends.split(",") if options.backends else None,
                topics=not options.no_topics,
                episodes=options.episodes,
                seed=options.seed,
                robot=policy.robot,
            )
            data = verified.as_data()
        except UserError as error:
            data = {"reasons": [str(error)]}
    reasons += data["reasons"]
    print(f"{policy.name}: {'passed' if not reasons else 'NOT PASSED: ' + '; '.join(reasons)}", file=sys.stderr)
    columns = data.get("backends", {})
    return {
        "passed": not reasons,
        "reasons": reasons,
        "success": {name: column.get("success") for name, column in columns.items()},
        "margins": margins_of(data),
        "wall_s": round(time.monotonic() - started, 1),
    }


def rows(known: dict[str, Released], found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return the table: a row for each policy and column."""
    table = [["policy", "column", "success", "by its record", "verdict", "s"]]
    for name, one in found.items():
        before = known[name].success
        for number, (column, share) in enumerate(one["success"].items()):
            verdict = ("passed" if one["passed"] else "NOT PASSED", f"{one['wall_s']:g}") if number == 0 else ("", "")
            table.append([name if number == 0 else "", column, percent(share), percent(before.get(column)), *verdict])
        now, then = one["margins"], known[name].margins
        for axis in now:
            table.append(
                ["", f"margin of {axis}", f"{now[axis]:g}", f"{then[axis]:g}" if axis in then else "-", "", ""]
            )
    return table


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.1f}%"


if __name__ == "__main__":
    raise SystemExit(main())

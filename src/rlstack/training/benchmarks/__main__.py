"""Measurements of `rlstack bench`: each part is a function of plain data, run in its own process.

``python -m rlstack.training.benchmarks PART OPTIONS FILE`` runs one (OPTIONS are its arguments as JSON) and writes its
result to FILE as JSON. Separate processes isolate CPU-seconds, memory and the threads of libraries.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from rlstack.errors import UserError

PARTS = {
    "simulator": "rlstack.training.benchmarks.simulator",
    "environment": "rlstack.training.benchmarks.environment",
    "policy": "rlstack.training.benchmarks.policy",
    "crazyflow": "rlstack.training.benchmarks.peer_crazyflow",
    "stable-baselines3": "rlstack.training.benchmarks.peer_stable_baselines3",
    "foundation-policy": "rlstack.training.benchmarks.peer_foundation_policy",
}
"""Module of each part, whose function ``measure`` returns its figures."""


def main() -> int:
    """Measure and write the result; print a ``UserError`` as one sentence on standard error."""
    part, options, file = sys.argv[1:]
    try:
        found = importlib.import_module(PARTS[part]).measure(**json.loads(options))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    Path(file).write_text(json.dumps(found, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

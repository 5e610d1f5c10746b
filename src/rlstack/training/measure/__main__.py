"""Run one part: ``python -m rlstack.training.measure PART OPTIONS FILE``."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from rlstack.errors import UserError
from rlstack.training.measure import PARTS


def main() -> int:
    """Measure and write the result; print a ``UserError`` as one sentence on standard error."""
    part, options, file = sys.argv[1:]
    module, _, name = PARTS[part].partition(":")
    try:
        found = getattr(importlib.import_module(module), name)(**json.loads(options))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    Path(file).write_text(json.dumps(found, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

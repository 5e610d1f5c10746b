"""What a new policy must pass between its training and its first run: a verification, as every deployment asks for.

It runs as a process of its own, ``python -m rlstack.bringup.fresh_policy POLICY ROBOT BACKEND``, whose status is 0 if
the policy may run.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.progress_lines import ProgressLines
from rlstack.bringup.simulators_at_hand import simulators_at_hand
from rlstack.bringup.verify import verify
from rlstack.errors import UserError
from rlstack.processes import die_with_starter
from rlstack.sim.vector import BATCH


def check(policy: str, robot: str, backend: str) -> int:
    """Verify a policy in the batch simulator and in the one it is to run in, over topics, too; return the exit status.

    The record is that of `rlstack verify`, with the numbers of trials that are usual.

    Raises:
        UserError: It did not pass, or deployment refuses it for another reason.
    """
    lines = ProgressLines()
    simulators = [name for name in simulators_at_hand() if name in (BATCH, backend)]
    verified = verify(policy, backends=simulators, robot=robot, on_progress=lines)
    lines.end()
    print(verified.table(), flush=True)
    if verified.incomplete:
        return 130
    checked_deployment(policy, robot, backend)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the policy that the command line names; return the exit status."""
    die_with_starter()
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        return check(*(sys.argv[1:] if arguments is None else arguments))
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())

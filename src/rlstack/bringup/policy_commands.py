"""The commands that print policies: `rlstack show` and `rlstack policies`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Show:
    """Print a policy file's contract: inputs, outputs, units, frames, topics, rate, limits, envelope, provenance."""

    policy: tyro.conf.Positional[Path]
    """The policy file, or the name of a released policy (`rlstack policies`)."""
    json: _File = None
    """Also write the contract to this file."""

    def run(self) -> int:
        """Print the table."""
        from rlstack.files import write_json
        from rlstack.policies import describe, find_policy, load_policy
        from rlstack.policies.margins_table import describe_margins
        from rlstack.schema import to_data

        policy = load_policy(self.policy)
        contract = policy.contract
        print(describe(contract))
        print(describe_margins(find_policy(self.policy), policy.sha256), end="")
        if self.json is not None:
            write_json(self.json, to_data(contract))
        return 0


@dataclass(frozen=True)
class Policies:
    """List the policies that ship with rlstack, with the robot, success and margins of their verification.

    Their names may be given wherever a policy file is.
    """

    json: _File = None
    """Also write the list to this file."""

    def run(self) -> int:
        """Print the table."""
        from rlstack.files import write_json
        from rlstack.policies.released import released
        from rlstack.policies.released_table import describe_released

        found = released()
        print(describe_released(found), end="")
        if self.json is not None:
            entries = {
                one.name: {"path": str(one.path), "robot": one.robot, "success": one.success, "margins": one.margins}
                for one in found
            }
            write_json(self.json, entries)
        return 0

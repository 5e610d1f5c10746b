"""Verification records as `rlstack verify` leaves them: signed, with the key of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.bringup.verification_check import record_path
from rlstack.files import write_json
from rlstack.policies.signing import signed


def write_record(policy: Path, facts: Mapping[str, Any]) -> None:
    """Write a signed record beside a policy."""
    write_json(record_path(policy), signed(facts))

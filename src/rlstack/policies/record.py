"""The verification record beside a policy file: read once, with what can be trusted of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rlstack.policies.signing import doubt_of

RECORD_NAME = "verify.json"
"""The verification record beside a policy file."""

RELEASED_SUMS = Path(__file__).with_name("released.sha256")
"""The records of released policies, as ``sha256sum`` prints them: part of the code, so trusted as the code is."""

_MAX_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Record:
    """A verification record, read once.

    Args:
        path: Its file.
        data: Its content; empty if there is none that can be read.
        sha256: SHA-256 of its bytes; empty if there is none.
        problem: Why it cannot be read; empty: it can, or there is none.
        doubt: Why it is no proof, as the end of "the record ..."; empty: this user or the installation vouches for it.
    """

    path: Path
    data: Mapping[str, Any] = field(default_factory=dict)
    sha256: str = ""
    problem: str = ""
    doubt: str = ""

    def proof_of(self, sha256: str) -> Mapping[str, Any]:
        """Return its content if it is trusted and for the policy file with this SHA-256; else nothing."""
        return self.data if not self.doubt and self.data.get("sha256") == sha256 else {}


def read_record(policy: Path) -> Record:
    """Read the verification record beside a policy file, and check its signature.

    Raises:
        UserError: The user's key cannot be read, see :mod:`rlstack.policies.signing`.
    """
    path = policy.expanduser().absolute().parent / RECORD_NAME
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES // 2**20} MiB")
        data = json.loads(raw)
        if not isinstance(data, dict):
            raise ValueError(f"it must be a JSON object, not {type(data).__name__}")
    except FileNotFoundError:
        return Record(path, doubt="is missing")
    except OSError as error:
        return Record(path, problem=str(error.strerror), doubt="cannot be read")
    except (ValueError, RecursionError) as error:
        return Record(path, problem=str(error), doubt="cannot be read")
    digest = hashlib.sha256(raw).hexdigest()
    return Record(path, data, digest, doubt="" if digest in released_sums() else doubt_of(data))


@cache
def released_sums() -> Mapping[str, str]:
    """Return the released policies' records that belong to this installation: name by SHA-256 of verify.json."""
    lines = RELEASED_SUMS.read_text(encoding="utf-8").splitlines() if RELEASED_SUMS.is_file() else []
    pairs = [line.split(maxsplit=1) for line in lines if line.strip()]
    return {digest: name.strip().partition("/")[0] for digest, name in pairs}

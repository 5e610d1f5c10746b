"""By what two robots of one name are told apart: a digest of what they are, the same on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(data: Any) -> str:
    """Return the SHA-256 of plain data, in hexadecimal digits.

    The order of keys does not count, nor whether a number is written 1 or 1.0.
    """
    text = json.dumps(_canonical(data), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _canonical(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_canonical(item) for item in data]
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return float(data) + 0.0  # JSON has the shortest digits that read back alike; -0.0 becomes 0.0
    return data

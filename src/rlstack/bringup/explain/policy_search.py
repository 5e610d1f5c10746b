"""The policy file that a bag was recorded with, found by its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from rlstack.errors import UserError
from rlstack.policies.released import find_policy, is_name, released_policies

_RUNS = Path("runs")


def policy_of_bag(sha256: str, given: Path | None, told: str, bag: Path) -> Path:
    """Return the file with a SHA-256: the one given, or one of those on this machine.

    Args:
        sha256: Of the bytes that the policy node ran.
        given: The file to take; None: look for it where the policy node had it, among the released ones, and in runs/.
        told: The policy node's parameter ``policy``.
        bag: The bag, for messages.

    Raises:
        UserError: The given file is another one, or none was found.
    """
    if given is not None:
        path = find_policy(given)
        if not path.is_file():
            raise UserError(f"--policy: there is no file {path}.")
        if (found := _sha256(path)) != sha256:
            raise UserError(
                f"--policy: {path} is not the policy that ran in {bag}: its SHA-256 is {found[:16]}..., and that of the"
                f" recorded one {sha256[:16]}...: give that file."
            )
        return path
    for path in _candidates(told):
        if path.is_file() and _sha256(path) == sha256:
            return path
    raise UserError(
        f"The policy that ran in {bag} (SHA-256 {sha256[:16]}...{f', {told}' if told else ''}) is neither a released"
        f" one nor in {_RUNS}/ here: give its file with --policy."
    )


def _candidates(told: str) -> Iterator[Path]:
    if told and not is_name(told):
        yield Path(told)
    yield from released_policies().values()
    yield from sorted(_RUNS.rglob("*.onnx"))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

"""Signatures of verification records: HMAC-SHA256 with a key that each user, or a team, keeps in one file.

A signature says that whoever holds the key wrote this record, and that nobody has changed it since. The one who checks
is the one who signs, or their team, so both have the same key. Public-key signatures (Ed25519) would let a robot check
without being able to sign; the standard library has none, and a robot's computer should need no further package.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError

KEY_VARIABLE = "RLSTACK_VERIFICATION_KEY"
"""Environment variable with the path of another key file, such as a team's."""

SIGNATURE = "signature"
"""Key of a record with its signature."""

_ALGORITHM = "hmac-sha256"
_PURPOSE = b"rlstack verification record 1\n"
_HEX_KEY = re.compile(r"[0-9a-f]{64}")
_OPEN_TO_OTHERS = 0o037
"""Rights that nobody but the owner may have; its group may read a team's key."""


def key_path() -> Path:
    """Return the path of the key file: of ``RLSTACK_VERIFICATION_KEY``, or else in the user's configuration folder."""
    if named := os.environ.get(KEY_VARIABLE):
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser().absolute() / "rlstack" / "verification.key"


def signing_key() -> bytes:
    """Return the key, shape 32 bytes; create the user's own at its first use.

    Raises:
        UserError: It cannot be read or created, others may read it, or it is no key.
    """
    found = _read_key()
    if found is not None:
        return found
    path = key_path()
    if os.environ.get(KEY_VARIABLE):
        raise UserError(
            f"The key file {path} that {KEY_VARIABLE} names does not exist. Create it with `python3 -c 'import secrets;"
            f" print(secrets.token_hex(32))' > {path} && chmod 600 {path}`, or unset {KEY_VARIABLE}."
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # of two processes that create it at once, the first wins
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"Cannot create the key {path} that signs verification records: {error.strerror}. Make its folder writable,"
            f" or name a key file elsewhere with {KEY_VARIABLE}."
        ) from error
    found = _read_key()
    if found is None:
        raise UserError(f"The key {path} that signs verification records vanished while it was created: try again.")
    return found


def signed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record, plain data, with this user's signature in the entry ``signature``.

    Raises:
        UserError: See :func:`signing_key`.
        ValueError: The record holds a number that is not finite.
    """
    key = signing_key()
    bare = json.loads(json.dumps({k: v for k, v in record.items() if k != SIGNATURE}, allow_nan=False))
    return {**bare, SIGNATURE: {"algorithm": _ALGORITHM, "key": _key_id(key), "value": _mac(key, bare)}}


def doubt_of(record: Mapping[str, Any]) -> str:
    """Return why a record's signature proves nothing, as the end of "the record ..."; empty: it is signed, unchanged.

    Raises:
        UserError: The key file cannot be read, others may read it, or it is no key.
    """
    entry = record.get(SIGNATURE)
    if entry is None:
        return "is unsigned"
    value = entry.get("value") if isinstance(entry, Mapping) and entry.get("algorithm") == _ALGORITHM else None
    if not isinstance(value, str):
        return "has a signature of another kind than this rlstack writes"
    key, signer = _read_key(), str(entry.get("key"))[:16]
    if key is None:
        return f"is signed with the key {signer}, and there is no key at {key_path()}"
    if signer != _key_id(key):
        return f"is signed with the key {signer}, which is not yours ({key_path()}, {_key_id(key)})"
    try:
        expected = _mac(key, {k: v for k, v in record.items() if k != SIGNATURE})
    except (ValueError, RecursionError):
        return "holds values that no record holds"
    if not hmac.compare_digest(expected.encode(), value.encode(errors="replace")):
        return "was changed after it was signed"
    return ""


def _read_key() -> bytes | None:
    """Return the key; None: there is none."""
    path = key_path()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1024).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(
            f"Cannot read the key {path} that signs verification records: {error.strerror}. Correct its rights, or name"
            f" another file with {KEY_VARIABLE}."
        ) from error
    if mode & _OPEN_TO_OTHERS:
        raise UserError(
            f"The key {path} that signs verification records is open to others (mode {mode & 0o777:o}), who could sign"
            f" with it: run `chmod 600 {path}`; if others had access, remove it and verify again."
        )
    if not _HEX_KEY.fullmatch(text):
        raise UserError(
            f"The file {path} holds no key: 64 hexadecimal digits are needed. Remove it to have a new one created, and"
            " verify again."
        )
    return bytes.fromhex(text)


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"rlstack key\n" + key).hexdigest()[:16]


def _mac(key: bytes, bare: Mapping[str, Any]) -> str:
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hmac.new(key, _PURPOSE + text.encode(), hashlib.sha256).hexdigest()

"""Released policies: verified policy files that ship with rlstack, found by name.

``policies/<name>/`` in a checkout, or ``share/rlstack/policies/<name>/`` of an installation, holds ``policy.onnx``, its
``verify.json`` and ``report.html``, and a README.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.errors import UserError, unknown_name
from rlstack.policies.proven import margins_of
from rlstack.policies.record import read_record
from rlstack.resources import share_directories

FILE_NAME = "policy.onnx"


def released_policies() -> dict[str, Path]:
    """Return the policy file of every released policy by name."""
    found: dict[str, Path] = {}
    for directory in share_directories():
        for path in sorted((directory / "policies").glob(f"*/{FILE_NAME}")):
            found.setdefault(path.parent.name, path)
    return dict(sorted(found.items()))


def is_name(policy: str | Path) -> bool:
    """Return whether a policy is given by the name of a released one, and not by a path."""
    text = str(policy)
    return bool(text) and "/" not in text and not Path(text).suffix and not Path(text).is_file()


def find_policy(policy: str | Path) -> Path:
    """Return the path of a policy file, given as a path or as the name of a released policy.

    Raises:
        UserError: There is no released policy of that name; with the nearest names.
    """
    if not is_name(policy):
        return Path(policy).expanduser()
    known = released_policies()
    if str(policy) not in known:
        inside = Path(policy) / FILE_NAME
        if inside.is_file():
            raise UserError(f"{policy} is a folder and no released policy: give {inside}.")
        raise unknown_name("policy (a policy file ends with .onnx)", str(policy), known)
    return known[str(policy)]


def writable_copy(policy: str | Path, robot: str = "") -> Path:
    """Return a policy file beside which a record may be written: a copy under ``runs/`` of a released one.

    Args:
        policy: A path, which is returned as it is, or a name.
        robot: The robot that it is verified on, if not its own.
    """
    source = find_policy(policy)
    if not is_name(policy):
        return source
    folder = Path("runs") / "-".join(filter(None, (str(policy), Path(robot).stem)))
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(source, folder / FILE_NAME))


@dataclass(frozen=True)
class Released:
    """One released policy, as its record describes it.

    Args:
        name: Its name.
        path: Its file.
        record: The content of its verify.json.
    """

    name: str
    path: Path
    record: dict[str, Any]

    @property
    def robot(self) -> str:
        """The robot that it is verified on."""
        return str(self.record.get("robot", "-"))

    @property
    def success(self) -> dict[str, float]:
        """Success, 0 to 1, in each judged column that asks for success."""
        columns = self.record.get("backends")
        entries = columns.items() if isinstance(columns, dict) else ()
        # a column without bounds, such as maps of kinds that were not trained on, is only shown
        shares = {
            name: e.get("success") for name, e in entries if isinstance(e, dict) and _asks_success(e.get("asked"))
        }
        return {name: share for name, share in shares.items() if isinstance(share, float)}

    @property
    def verdict(self) -> str:
        """Whether it passed its verification."""
        return {True: "passed", False: "did not pass"}.get(self.record.get("passed", None), "not verified")  # type: ignore[arg-type]

    @property
    def margins(self) -> dict[str, float]:
        """Its measured margins by axis."""
        return margins_of(self.record)


def _asks_success(asked: Any) -> bool:
    """Return whether a column's bounds ask for success, or nothing is known of them.

    Without an instruction, or with another one, it is to be small: less than half is asked for, at most.
    """
    return asked is None or (asked != {} and asked.get("success", 1.0) >= 0.5)


def released() -> list[Released]:
    """Return all released policies."""
    return [Released(name, path, dict(read_record(path).data)) for name, path in released_policies().items()]

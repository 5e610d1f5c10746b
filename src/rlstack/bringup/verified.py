"""The end of a verification of any kind: report and record are written, and what is said in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.proof import record_path
from rlstack.bringup.verifiers import Request, table
from rlstack.files import write_json


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A verification and where its report lies; see :class:`rlstack.bringup.verifiers.Verdict`.

    Args:
        verification: What was found, with its verdict: ``contract``, ``transfer``, ``failures`` and ``passed``.
        report: The page.
        record: What deployment asks for.
        data: What the record holds.
        rows: The figures, a heading first in each.
        compared: Sentences for after the transfer table.
        notes: Sentences for after what was not passed.
    """

    verification: Any
    report: Path
    record: Path
    data: Mapping[str, Any]
    rows: Sequence[Sequence[str]]
    compared: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """The verdict."""
        return bool(self.verification.passed)

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds."""
        return dict(self.data)

    def table(self) -> str:
        """Return figures, transfer table and verdict for reading."""
        v = self.verification
        lines = [*table(self.rows), "", v.transfer.text(), *self.compared, ""]
        lines += [f"Not passed: {reason}" for reason in v.failures]
        word = "DRIVEN" if v.contract is None else "PASSED" if self.passed else "FAILED"
        return "\n".join([*lines, *self.notes, f"{word}. Report: {self.report}"])


def concluded(
    request: Request, verification: Any, write: Callable[[Path, Any], Path], data: Mapping[str, Any], **told: Any
) -> Verified:
    """Write the report, and the record beside the policy, and return them.

    Args:
        request: What was asked for.
        verification: What was found.
        write: Writes the report's files into a folder and returns the page.
        data: What the record is to hold.
        told: Of :class:`Verified`: ``rows`` and, where there are any, ``compared`` and ``notes``.

    Raises:
        UserError: A file cannot be written.
    """
    report = write(request.folder, verification)
    proof = record_path(request.policy).with_name(verification.record_name)
    write_json(proof, data)
    return Verified(verification=verification, report=report, record=proof, data=data, **told)


def left_out(simulators: Mapping[str, str]) -> list[str]:
    """Return a line for each simulator that could not hold what was to be tried, with the reason."""
    return [f"Left out: {name}: {reason}" for name, reason in simulators.items()]

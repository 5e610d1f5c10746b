"""The end of a verification that :mod:`rlstack.evaluation.trials` describes: report, record, table for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.proof import record_path, write_json
from rlstack.bringup.verifiers import Request, table
from rlstack.evaluation.trial_page import shown
from rlstack.evaluation.trials import TrialVerification, record_trials, write_trial_report


@dataclass(frozen=True)
class VerifiedTrials:
    """A verification and where its report lies; see :class:`rlstack.bringup.verifiers.Verdict`."""

    verification: TrialVerification
    report: Path
    record: Path

    @property
    def passed(self) -> bool:
        """The verdict."""
        return self.verification.passed

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds."""
        return record_trials(self.verification)

    def table(self) -> str:
        """Return figures, transfer table and verdict for reading."""
        v = self.verification
        lines = [*table(shown(v)), "", v.transfer.text(), ""]
        lines += [f"Not passed: {reason}" for reason in v.failures]
        lines += [f"Left out: {name}: {reason}" for name, reason in v.left_out.items()]
        lines += [v.settings] if v.settings else []
        return "\n".join([*lines, v.worth, f"{'PASSED' if self.passed else 'FAILED'}. Report: {self.report}"])


def concluded(request: Request, verification: TrialVerification) -> VerifiedTrials:
    """Write the report, and the record beside the policy, and return them.

    Raises:
        UserError: A file cannot be written.
    """
    report = write_trial_report(request.folder, verification)
    proof = record_path(request.policy).with_name(verification.record_name)
    write_json(proof, record_trials(verification))
    return VerifiedTrials(verification, report, proof)

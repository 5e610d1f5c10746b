"""The end of a verification that :mod:`rlstack.verification.trials` describes."""

from __future__ import annotations

from rlstack.bringup import verified
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import Request
from rlstack.verification.trial_page import shown
from rlstack.verification.trials import TrialVerification, record_trials, write_trial_report


def concluded(request: Request, verification: TrialVerification) -> Verified:
    """Write the report, and the record beside the policy, and return them.

    Raises:
        UserError: A file cannot be written.
    """
    settings = [verification.settings] if verification.settings else []
    return verified.concluded(
        request,
        verification,
        write_trial_report,
        record_trials(verification),
        rows=shown(verification),
        notes=[*verified.left_out(verification.left_out), *settings, verification.worth],
    )

"""What of a verification can be watched: a film, and a page in which its trials are played again."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.errors import UserError
from rlstack.verification.report import Replay
from rlstack.view.film import film, webp
from rlstack.view.recording import ReplayedTrial
from rlstack.view.replay import replay_page

if TYPE_CHECKING:
    from rlstack.verification.drawing import Plot
    from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification

_USUAL, _BAD = "Median", ("Lost", "Failed", "Worst")
"""Titles of the trials in a film: a usual one, or one of each kind of trial, and a bad one."""


def make_replay(
    verifier: TaskVerification, records: Records, plans: Mapping[str, ColumnPlan], pictures: Sequence[Plot]
) -> Replay:
    """Return the replay of a verification; what cannot be made here is left out, as no figure depends on it.

    Args:
        verifier: The verification.
        records: Its trials, by column.
        plans: Its columns.
        pictures: The plots of the report; the first that moves is the film.
    """
    missing: list[str] = []
    trials: Sequence[ReplayedTrial] = ()
    moving = next((one.png for one in pictures if one.kind == "gif"), None)
    try:
        trials = verifier.replay(records, plans)
    except UserError as error:
        missing.append(str(error))
    seen, page = b"", ""
    try:
        if moving is not None:
            seen = from_gif(moving)
        elif trials:
            seen = film(filmed(trials))
    except UserError as error:
        missing.append(str(error))
    try:
        page = replay_page(trials) if trials else ""
    except UserError as error:
        missing.append(str(error))
    return Replay(seen, page, " ".join(dict.fromkeys(missing)))


def filmed(trials: Sequence[ReplayedTrial]) -> list[ReplayedTrial]:
    """Return the trials that are filmed: a usual one, or one of each kind, and a bad one; or what there is."""
    usual = [trial for trial in trials if trial.title.startswith(_USUAL)]
    bad = [trial for title in _BAD for trial in trials if trial.title.startswith(title)]
    named = [*usual, *bad[: 1 if usual else 2]]
    return named or list(trials)[:2]


def from_gif(data: bytes) -> bytes:
    """Return an animated GIF as an animated WebP, of half the size.

    Raises:
        UserError: Pillow is not installed.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise UserError("Films need Pillow, which is not installed: pip install 'rlstack[view]'.") from error
    pictures, lasting = [], []
    with PIL.Image.open(io.BytesIO(data)) as moving:
        for number in range(getattr(moving, "n_frames", 1)):
            moving.seek(number)
            pictures.append(np.asarray(moving.convert("RGB")))
            info: dict[Any, Any] = moving.info
            lasting.append(int(info.get("duration", 80)))
    return webp(pictures, lasting)

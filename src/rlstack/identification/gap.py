"""The gap between a robot and its model: recorded against simulated motion under the same commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.identification.motion_model import MotionModel, Windows
from rlstack.identification.recorded import Recorded
from rlstack.identification.shooting import HELD_OUT_S, kept_windows, windows_of

HORIZONS_S = (0.1, 0.25, 0.5, 1.0)
"""How far ahead the motion is predicted, without feedback, from the measured state."""

_CLEARLY = 1.25
"""Ratio of two errors that is more than chance; a robot that is as its file is may be a little worse than that."""


@dataclass(frozen=True)
class Gap:
    """Prediction errors.

    Args:
        errors: By channel, the root mean square error (horizons,) at each of :data:`HORIZONS_S`, in its unit.
        units: By channel.
        windows: The windows.
        over_time: By channel, the errors (S, K, width) of all windows, predicted minus measured.
        recorded: By channel, the measurements (S, K, width), where the error is their plain difference.
    """

    errors: Mapping[str, Array]
    units: Mapping[str, str]
    windows: Windows
    over_time: Mapping[str, Array]
    recorded: Mapping[str, Array]

    def worse_than(self, other: Gap) -> bool:
        """Return whether it is clearly larger at the longest horizon in most channels."""
        worse = [self.errors[name][-1] > _CLEARLY * other.errors[name][-1] for name in self.errors]
        return sum(worse) > len(worse) // 2


def gap_of(model: MotionModel, values: Array, recordings: list[Recorded], *, held_out: bool | None) -> Gap:
    """Return the errors of a model with parameters ``values`` (P,), each window predicted from its measured state.

    Raises:
        UserError: No window of that length has free motion.
    """
    windows = kept_windows(model, windows_of(recordings, model.topic, HELD_OUT_S, held_out=held_out))
    if not len(windows):
        raise UserError(
            f"No second of the recording is free of gaps, rest and contact, so no prediction over {HELD_OUT_S:g} s can"
            " be compared with it: record a longer one."
        )
    residual = model.residual(values[None], model.states(windows)[None], windows)[0]
    period = HELD_OUT_S / (windows.count - 1)
    steps = [min(max(round(horizon / period), 1), windows.count - 1) for horizon in HORIZONS_S]
    errors, over_time, at = {}, {}, 0
    for channel in model.channels:
        begin, at = at, at + channel.width
        if channel.name in model.measured_inputs:
            continue
        over_time[channel.name] = residual[..., begin:at]
        rows = np.abs(np.nan_to_num(over_time[channel.name][:, steps], nan=0.0, posinf=1e6, neginf=1e6))
        power = np.sum(np.minimum(rows, 1e6) ** 2, axis=-1)
        measured = ~np.isnan(over_time[channel.name][:, steps]).all(axis=-1)
        errors[channel.name] = np.sqrt(np.sum(power, axis=0) / np.maximum(np.sum(measured, axis=0), 1))
    units = {channel.name: channel.unit for channel in model.channels}
    return Gap(errors, units, windows, over_time, model.recorded(windows))

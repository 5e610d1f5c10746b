"""Which inputs a policy's commands came from: how they change when one is replaced by its median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.explain.rerun import Taken
from rlstack.policies import Policy

WINDOW_S = 1.0
"""Steps of this time before an intervention are looked at; for slow policies at least :data:`_LEAST_STEPS`."""
_LEAST_STEPS = 5
_SAMPLES = 200
"""Steps whose values the median is of."""


@dataclass(frozen=True)
class Influence:
    """How much the commands of a window change without each input.

    Args:
        time_s: When the window ends, since the bag began.
        before: What came at its end, in words.
        change: By input: mean change of the commands, as a share of their range.
    """

    time_s: float
    before: str
    change: Mapping[str, float]

    @property
    def ranked(self) -> list[tuple[str, float]]:
        """Inputs and their changes, the largest first."""
        return sorted(self.change.items(), key=lambda item: -item[1])


def medians(taken: Sequence[Taken]) -> dict[str, Array]:
    """Return the median of each input over some steps; inputs that never changed, or whose size did, are left out.

    Of a unit quaternion it is the recorded one that is nearest to the median.
    """
    found: dict[str, Array] = {}
    for name in taken[0].inputs if taken else ():
        if len({np.shape(one.inputs[name]) for one in taken}) > 1 or name.startswith("path_"):
            continue
        values = np.stack([np.asarray(one.inputs[name]) for one in taken])
        if (values == values[0]).all():
            continue
        middle = np.median(values, axis=0)
        if name.endswith("orientation"):
            signs = np.where((values * values[0]).sum(axis=-1) < 0.0, -1.0, 1.0)[:, None]
            middle = np.median(signs * values, axis=0)
            middle = values[int(np.argmin(np.linalg.norm(signs * values - middle, axis=-1)))]
        found[name] = middle.astype(values.dtype)
    return found


def influence(
    policy: Policy, steps: Sequence[Taken], instead: Mapping[str, Array], time_s: float, before: str
) -> Influence:
    """Return how much the commands of some steps change without each input.

    One robot of a batch has every input as recorded, and one each lacks one of them; all begin with the recorded
    recurrent state, and each goes on with its own.

    Args:
        policy: The policy; its batch and state are changed.
        steps: Steps that follow each other.
        instead: The value that replaces each input.
        time_s: When the window ends.
        before: What came then.
    """
    names = list(instead)
    policy.reset(len(names) + 1)
    for name, state in policy.state.items():
        state[:] = steps[0].before[name]
    total, count = np.zeros(len(names)), 0
    for taken in steps:
        batch = {n: np.repeat(np.asarray(v)[None], len(names) + 1, axis=0) for n, v in taken.inputs.items()}
        for row, name in enumerate(names):
            batch[name][row + 1] = instead[name]
        outputs = policy.step(batch)
        for port in policy.contract.outputs:
            low, high = port.limits
            share = np.abs(outputs[port.name] - outputs[port.name][:1]) / np.maximum(high - low, 1e-12)
            total += share.reshape(len(names) + 1, -1).mean(axis=1)[1:]
            count += 1
    policy.reset()
    return Influence(time_s, before, dict(zip(names, (total / max(count, 1)).tolist())))


def window(times_s: Array, end_s: float) -> range:
    """Return the places of the steps before a time.

    Args:
        times_s: (steps,) times of the steps since the bag began.
        end_s: Likewise.
    """
    last = int(np.searchsorted(times_s, end_s, side="right"))
    return range(min(int(np.searchsorted(times_s, end_s - WINDOW_S)), max(last - _LEAST_STEPS, 0)), last)


def samples(count: int) -> list[int]:
    """Return the places of the steps whose values the medians are of."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(_SAMPLES, count)).astype(int)).tolist()


def mean_change(influences: Sequence[Influence]) -> list[tuple[str, float]]:
    """Return the mean change by input over several windows, the largest first."""
    names = influences[0].change if influences else {}
    means = {name: float(np.mean([one.change[name] for one in influences])) for name in names}
    return sorted(means.items(), key=lambda item: -item[1])

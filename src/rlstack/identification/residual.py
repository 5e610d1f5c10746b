"""What physics leaves over: a small network, fitted to what an identified model lacks, and used only where it helps.

Over windows of 0.1 s a prediction ends at other velocities than measured; the forces that would make up for that are
the outputs, and the network learns them from the motion. Each output is used only if it predicts held-out windows
clearly better than nothing does, and all together only if the motion over a second is then predicted better.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.identification.gap import Gap, gap_of
from rlstack.identification.identify import Identification
from rlstack.identification.motion_model import COMMANDS, MotionModel, Windows
from rlstack.identification.recorded import Recorded
from rlstack.identification.shooting import kept_windows, windows_of
from rlstack.sim.physics.residual import ResidualModel

WINDOW_S = 0.1
"""Long enough that odometry's noise is small beside what the forces do, short enough to see them change."""

HIDDEN = 8
"""Units for each output."""

_DECAYS = (0.1, 1.0, 10.0)
"""Weight decays that are tried, by cross-validation over pieces of the fitted time; so are fewer inputs."""

_PIECE_S, _FOLDS = 2.0, 4
"""Length of those pieces, which go to the folds in turn."""

_STEPS = 150
"""Most steps of the fit."""

_GAIN = 0.1
"""Least share of a term's squared error on held-out windows that must go."""

_SURE = 1.64
"""How many standard errors that gain must be above 0; windows of one held-out second count as one."""

_SHORTER, _LONGER = 0.95, 1.05
"""Ratios of a channel's errors after a second with the model and without: it is used if some channel's is below the
first, and none's above the second."""

_ROOM = 1.25
"""Bound of an output over the 99% quantile of what was left."""


@dataclass(frozen=True)
class Term:
    """One output.

    Args:
        name: Its name, with its unit at the end.
        before: Root mean square of what is left on held-out windows.
        after: The same with the network.
        used: Whether it is used.
    """

    name: str
    before: float
    after: float
    used: bool


@dataclass(frozen=True)
class Residual:
    """What was found.

    Args:
        model: The network; None: it is not used.
        terms: Its outputs.
        gaps: The errors over a second with it, if it has a used term, by what they are.
        why: Why it is used, or not, as a sentence.
        seconds: What it took, CPU-seconds of this process.
    """

    model: ResidualModel | None
    terms: tuple[Term, ...]
    gaps: dict[str, Gap]
    why: str
    seconds: float = 0.0


def fit_residual(found: Identification) -> Residual:
    """Fit a residual model to what an identification leaves over.

    Raises:
        UserError: The kind of robot has none, or SciPy is missing.
    """
    began = time.process_time()
    residual = _found(found)
    return replace(residual, seconds=time.process_time() - began)


def _found(found: Identification) -> Residual:
    model, values, recordings = found.model, found.values, list(found.recordings)
    if not model.residual_outputs:
        raise UserError(f"A {found.robot.kind.replace('_', ' ')} has no residual model so far: quadrotors have.")
    fitted, held_out = (_windows(model, recordings, held_out=part) for part in (False, True))
    inputs, targets = model.left_over(values, fitted)
    begins = np.array([recordings[k].tracks[model.topic].time_s[first] for k, first in zip(*_places(fitted))])
    if len(np.unique(_folds(begins))) < _FOLDS:
        short = (
            f"It is not used: less than {_FOLDS * _PIECE_S:g} s were fitted, from which nothing is left to judge it by."
        )
        return Residual(None, (), {}, short)
    network = _fitted(model, inputs, targets, begins)
    tested, wanted = model.left_over(values, held_out)
    seconds = _seconds(model, recordings, held_out)
    terms = _judged(network, tested, wanted, seconds)
    if not any(term.used for term in terms):
        return Residual(None, terms, {}, "It is not used: no term of it predicts held-out motion clearly better.")
    chosen = _only(network, [term.used for term in terms])
    before = (found.driven or (found.before, found.after))[1]
    after = gap_of(model.with_residual(chosen), values, recordings, held_out=True)
    ratios = {name: float(after.errors[name][-1] / before.errors[name][-1]) for name in before.errors}
    gaps = {f"with the residual, from {model.driven_by}": after}
    if model.driven_by != COMMANDS:
        by_commands = model.by_commands().with_residual(chosen)
        gaps[f"with the residual, from {COMMANDS}"] = gap_of(by_commands, values, recordings, held_out=True)
    said = ", ".join(f"of {name.replace('_', ' ')} {ratio:.2f}" for name, ratio in ratios.items())
    helps = min(ratios.values()) < _SHORTER and max(ratios.values()) < _LONGER
    why = f"It is {'' if helps else 'not '}used: held-out errors after 1 s, over those without it, are {said}."
    return Residual(chosen if helps else None, terms, gaps, why)


def _windows(model: MotionModel, recordings: list[Recorded], *, held_out: bool) -> Windows:
    return kept_windows(model, windows_of(recordings, model.topic, WINDOW_S, held_out=held_out))


def _folds(begins: Array) -> NDArray[np.int_]:
    """Return (S,) the fold of windows that begin at ``begins`` (S,), s."""
    return np.asarray(np.floor(begins / _PIECE_S).astype(int) % _FOLDS)


def _places(windows: Windows) -> tuple[list[int], list[int]]:
    return windows.recording.tolist(), windows.first.tolist()


def _seconds(model: MotionModel, recordings: list[Recorded], windows: Windows) -> Array:
    """Return (S,) a number for each recording's whole second: what happens within one is not independent."""
    found = [1e6 * k + np.floor(recordings[k].tracks[model.topic].time_s[first]) for k, first in zip(*_places(windows))]
    return np.array(found)


def _fitted(model: MotionModel, inputs: Array, targets: Array, begins: Array) -> ResidualModel:
    """Return the network for inputs (S, n) and targets (S, m) at times (S,) s."""
    low, high = np.quantile(inputs, (0.005, 0.995), axis=0)
    high = np.maximum(high, low + 1e-6)
    bound = _ROOM * np.maximum(np.quantile(np.abs(targets), 0.99, axis=0), 1e-12)
    scaled = np.clip((2.0 * inputs - high - low) / (high - low), -1.0, 1.0)
    # what a few windows have left beyond the bound (a touch, a gap) must not bend the network
    shares = np.clip(targets / bound, -0.95, 0.95)
    folds = _folds(begins)
    fitted = [_chosen(scaled, share, folds, _first_inputs(model)) for share in shares.T]
    hidden, hidden_bias = (np.concatenate([one[k] for one in fitted]) for k in (0, 1))
    out = np.zeros((len(fitted), len(hidden)))
    for k, one in enumerate(fitted):
        out[k, k * HIDDEN : (k + 1) * HIDDEN] = one[2]
    arrays = {"low": low, "high": high, "bound": bound, "hidden": hidden, "hidden_bias": hidden_bias, "out": out}
    arrays["out_bias"] = np.concatenate([one[3] for one in fitted])
    return ResidualModel.of(model.residual_inputs, model.residual_outputs, arrays)


def _first_inputs(model: MotionModel) -> tuple[int, ...]:
    """Return how many inputs there are up to each quantity's end, such as velocity, rate and rotor."""
    kinds = [name.partition("_")[0] for name in model.residual_inputs]
    return tuple(k + 1 for k, kind in enumerate(kinds) if kind not in kinds[k + 1 :])


def _chosen(inputs: Array, shares: Array, folds: NDArray[np.int_], firsts: Sequence[int]) -> tuple[Array, ...]:
    """Return the weights of one output, of as few inputs and the decay that do best.

    Args:
        inputs: (S, n) from -1 to 1.
        shares: (S,)
        folds: (S,) numbers of those that are left out in turn.
        firsts: How many of the inputs are tried.
    """

    def error(choice: tuple[int, float]) -> float:
        missed, (first, decay) = 0.0, choice
        for fold in np.unique(folds):
            left = folds == fold
            weights = _minimised(inputs[~left, :first], shares[~left], decay)
            missed += float(np.sum((_predicted(weights, inputs[left, :first]) - shares[left]) ** 2))
        return missed

    first, decay = min(((one, two) for one in firsts for two in _DECAYS), key=error)
    hidden, *others = _minimised(inputs[:, :first], shares, decay)
    return np.pad(hidden, ((0, 0), (0, inputs.shape[1] - first))), *others


def _predicted(weights: tuple[Array, ...], inputs: Array) -> Array:
    hidden, hidden_bias, out, out_bias = weights
    return np.asarray(np.tanh(np.tanh(inputs @ hidden.T + hidden_bias) @ out + out_bias))


def _minimised(inputs: Array, shares: Array, decay: float) -> tuple[Array, ...]:
    """Return the weights with the least squared error, over the spread, and decay (L-BFGS from a fixed seed)."""
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise UserError("--residual needs SciPy, which is not installed: pip install 'rlstack[sim]'.") from error

    count, n = inputs.shape
    spread = max(float(shares.std()), 1e-9)
    shapes = ((HIDDEN, n), (HIDDEN,), (HIDDEN,), (1,))
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    first = np.random.default_rng(0).normal(0.0, 1.0 / np.sqrt(n), ends[1])
    start = np.concatenate([first, np.zeros(ends[-1] - ends[1])])

    def unpacked(flat: Array) -> tuple[Array, ...]:
        return tuple(part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes))

    def loss(flat: Array) -> tuple[float, Array]:
        hidden, hidden_bias, out, out_bias = unpacked(flat)
        units = np.tanh(inputs @ hidden.T + hidden_bias)
        found = np.tanh(units @ out + out_bias)
        off = (found - shares) / spread
        back = 2.0 / count * off / spread * (1.0 - found**2)
        inner = np.outer(back, out) * (1.0 - units**2)
        slopes = (inner.T @ inputs, inner.sum(axis=0), back @ units, back.sum(keepdims=True))
        gradient = np.concatenate([slope.ravel() for slope in slopes]) + 2.0 * decay * flat / len(flat)
        return float(np.sum(off**2) / count + decay * np.mean(flat**2)), gradient

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return unpacked(found.x)


def _judged(network: ResidualModel, inputs: Array, wanted: Array, seconds: Array) -> tuple[Term, ...]:
    """Return how each output does on windows that were not fitted."""
    predicted = np.moveaxis(network.apply(list(inputs.T)), 0, -1)
    limit = np.array(network.bound)
    wanted = np.clip(wanted, -limit, limit)
    before, after = wanted**2, (wanted - predicted) ** 2
    names, groups = np.unique(seconds, return_inverse=True)
    rows = []
    for k, name in enumerate(network.outputs):
        gains = np.bincount(groups, before[:, k] - after[:, k], len(names)) / len(wanted)
        error = float(np.sqrt(np.sum((gains - gains.mean()) ** 2)))
        gain, was = float(gains.sum()), float(before[:, k].mean())
        used = len(names) > 2 and gain > _SURE * error and gain > _GAIN * was
        rows.append(Term(name, float(np.sqrt(was)), float(np.sqrt(after[:, k].mean())), used))
    return tuple(rows)


def _only(network: ResidualModel, used: Sequence[bool]) -> ResidualModel:
    """Return the network with the outputs that are used, and the units that they need; the others are 0."""
    out, keep = np.array(network.out) * np.array(used)[:, None], np.repeat(used, HIDDEN)
    arrays = {name: np.array(getattr(network, name)) for name in ("low", "high", "bound")}
    arrays |= {"hidden": np.array(network.hidden)[keep], "hidden_bias": np.array(network.hidden_bias)[keep]}
    arrays |= {"out": out[:, keep], "out_bias": np.array(network.out_bias) * np.array(used)}
    return ResidualModel.of(network.inputs, network.outputs, arrays)

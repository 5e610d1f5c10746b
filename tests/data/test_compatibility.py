"""The compatibility measure: its formula, its bounds, and what it says of demonstrations that fight a policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlstack.data.compatibility import Thresholds, compatibility, losses, thresholds_from, variances
from rlstack.errors import UserError

NUMBERS = st.floats(-5, 5)


def test_the_formula_on_numbers_worked_out_by_hand() -> None:
    # two members, three steps, two elements: they agree, they agree, they differ by 2 in the first element
    predictions = np.array([[[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]])
    actions = np.array([[0.3, 0.1], [3.0, 1.0], [5.0, 5.0]])
    np.testing.assert_allclose(losses(predictions, actions), [0.05, 2.0, 25.0])
    np.testing.assert_allclose(variances(predictions), [0.0, 0.0, 0.5])
    found = compatibility(predictions, actions, Thresholds(loss=0.5, variance=0.1))
    np.testing.assert_allclose(found, [0.9, 0.0, 1.0])  # near, far, and far where nobody knows
    sure_everywhere = compatibility(predictions, actions, Thresholds(loss=0.5, variance=0.6))
    np.testing.assert_allclose(sure_everywhere, [0.9, 0.0, 0.0])


@settings(deadline=None)
@given(
    predictions=arrays(float, (3, 4, 2), elements=NUMBERS),
    actions=arrays(float, (4, 2), elements=NUMBERS),
    loss=st.floats(1e-3, 10),
    variance=st.floats(1e-3, 10),
    nearer=st.floats(0, 1),
)
def test_it_is_a_share_and_grows_towards_what_the_policy_does(
    predictions: np.ndarray, actions: np.ndarray, loss: float, variance: float, nearer: float
) -> None:
    thresholds = Thresholds(loss, variance)
    found = compatibility(predictions, actions, thresholds)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[variances(predictions) >= variance] == 1).all()
    mean = predictions.mean(0)
    assert (compatibility(predictions, mean + nearer * (actions - mean), thresholds) >= found - 1e-9).all()
    np.testing.assert_allclose(compatibility(predictions, mean, thresholds), 1.0)
    np.testing.assert_allclose(compatibility(predictions[::-1], actions, thresholds), found, atol=1e-9)


def test_thresholds_from_what_was_learnt() -> None:
    rng = np.random.default_rng(0)
    actions = [rng.normal(size=(50, 2)) for _ in range(4)]
    predictions = [a + rng.normal(scale=0.1, size=(5, 50, 2)) for a in actions]
    found = thresholds_from(predictions, actions, loss_quantile=0.9, variance_factor=3.0)
    off = np.concatenate([losses(p, a) for p, a in zip(predictions, actions)])
    assert np.mean(off < found.loss) == pytest.approx(0.9, abs=0.01)
    assert found.variance == pytest.approx(
        3 * 0.1**2 * 4 / 5, rel=0.1
    )  # of five members, without the one that is their mean's


@pytest.mark.parametrize(
    ("predictions", "actions", "message"),
    [
        (np.zeros((2, 3, 2)), np.zeros((4, 2)), "do not fit"),
        (np.zeros((2, 0, 2)), np.zeros((0, 2)), "do not fit"),
        (np.zeros((1, 3, 2)), np.zeros((3, 2)), "One policy alone"),
        (np.full((2, 3, 2), np.nan), np.zeros((3, 2)), "not finite"),
    ],
)
def test_what_does_not_fit_is_refused(predictions: np.ndarray, actions: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        compatibility(predictions, actions, Thresholds(1.0, 1.0))


def test_thresholds_that_say_nothing_are_refused() -> None:
    with pytest.raises(UserError, match="above 0"):
        Thresholds(0.0, 1.0)
    with pytest.raises(UserError, match="members are identical"):
        thresholds_from([np.zeros((3, 5, 2))], [np.ones((5, 2))])
    with pytest.raises(UserError, match="at least one demonstration"):
        thresholds_from([], [])

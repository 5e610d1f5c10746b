"""Every flight has noise of its own, whoever flies beside it."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.verification.flight_trials import FlightNormals


def test_a_flights_numbers_do_not_depend_on_who_flies_beside_it() -> None:
    all_of_them, some = FlightNormals(3, range(8)), FlightNormals(3, [5, 2])
    for width in [3, 3, 4, 3] * 200:
        together = all_of_them.standard_normal((8, width))
        np.testing.assert_array_equal(some.standard_normal((2, width)), together[[5, 2]])


def test_flights_and_seeds_differ_and_are_normal() -> None:
    drawn = FlightNormals(0, range(50)).standard_normal((50, 700))
    assert abs(drawn.mean()) < 0.02 and drawn.std() == pytest.approx(1.0, abs=0.02)
    assert np.abs(np.corrcoef(drawn) - np.eye(50)).max() < 0.2
    assert (FlightNormals(1, range(50)).standard_normal((50, 700)) != drawn).all()


def test_another_number_of_flights_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 2 flights"):
        FlightNormals(0, range(2)).standard_normal((3, 4))

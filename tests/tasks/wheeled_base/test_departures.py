"""Tests of the departures that training draws."""

from __future__ import annotations

import pytest
import torch

from rlstack.sim.batch_wheeled_base.layout import PARAMETER_WIDTH, PARAMETERS
from rlstack.tasks.wheeled_base.departures import BaseDepartures, PeopleHistory


def test_parameters_stay_within_what_is_asked():
    departures, rows = BaseDepartures(gain=0.2, acceleration_m_s2=(0.5, 8.0)), torch.ones(PARAMETER_WIDTH, 500)
    departures.draw_parameters(rows, torch.Generator().manual_seed(0))
    gain, acceleration = rows[PARAMETERS["gain"]], rows[PARAMETERS["acceleration"]][0]
    assert gain.min() >= 0.8 and gain.max() <= 1.2 and gain.std() > 0.1
    assert acceleration.min() >= 0.5 and acceleration.max() <= 8.0
    assert acceleration.median() == pytest.approx(2.0, rel=0.2)  # log-uniform


def test_late_people_are_moved_on_by_their_velocity():
    history = PeopleHistory(BaseDepartures(people_delay_s=0.5), 1, 4.0, 2, "cpu")
    history._delay[:] = torch.tensor([0, 2])
    out = torch.zeros(5, 2)
    for k in range(4):  # at constant velocity nothing is lost by the delay
        history(torch.tensor([[0.25 * k] * 2, [1.0] * 2, [0.3] * 2, [1.0] * 2, [0.0] * 2]), out)
    assert torch.allclose(out[0], torch.tensor([0.75, 0.75]))
    history(torch.tensor([[0.75] * 2, [1.25] * 2, [0.3] * 2, [0.0] * 2, [1.0] * 2]), out)
    assert torch.allclose(out[:2, 0], torch.tensor([0.75, 1.25]))
    assert torch.allclose(out[:2, 1], torch.tensor([1.0, 1.0]))  # the turn is not known yet

"""Margins of robots among landmarks: each axis departs in what it says."""

from __future__ import annotations

from dataclasses import replace

from rlstack.robots import load_robot
from rlstack.tasks.catalog.base_landmark import BaseLandmarkTask
from rlstack.tasks.catalog.quadrotor_landmark import QuadrotorLandmarkTask
from rlstack.verification.departures import Departures
from rlstack.verification.landmark_reality import landmark_axes
from rlstack.verification.reality import Conditions


def test_axes_depart_in_delays_noise_and_in_the_mass_of_what_has_one() -> None:
    task = QuadrotorLandmarkTask()
    fly, drive = ({axis.key: axis for axis in landmark_axes(one)} for one in (task, BaseLandmarkTask()))
    assert fly.keys() - drive.keys() == {"mass_scale"} and not drive.keys() - fly.keys()
    nominal = Conditions(trials=None, robot=load_robot("x500_rates"))
    heavy = fly["mass_scale"].apply(1.3, nominal).options["task"]
    assert heavy == replace(task, randomisation=replace(task.randomisation, mass=(1.3, 1.3)))
    for key, wanted in (
        ("observation_delay_s", Departures(observation_delay_s=0.1)),
        ("command_delay_s", Departures(command_delay_s=0.1)),
        ("lost_messages_share", Departures(lost=0.1)),
        ("velocity_noise_m_s", Departures(noise={"linear_velocity": 0.1})),
        ("image_noise", Departures(noise={"front_image": 0.1})),
    ):
        assert drive[key].apply(0.1, nominal).departures == wanted
    assert drive["control_rate_hz"].apply(5.0, nominal).departures.period == 2

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.scenario_description import describe_disturbances, describe_paths, describe_starts

ROBOT = load_quadrotor("crazyflie")


def scenario(labels: list[str], **departures) -> Scenario:
    count = len(labels)
    state = {
        "position": np.zeros((count, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, 4), 1000.0),
    }
    perturbation = replace(Perturbation.none(count), **departures)
    return Scenario(state, np.zeros((count, 3)), np.zeros(count), perturbation, np.array(labels))


def test_starts_are_the_largest_values():
    some = scenario(["a", "a"])
    some.state["position"][1] = [3.0, 4.0, 0.0]
    some.state["orientation"][0] = frames.from_rotation_vector([0.0, np.radians(60), 0.0])
    some.state["linear_velocity"][0] = [0.0, 0.0, 1.25]
    some.state["rotor_speed"][0] = 900.0
    shifted = some.shifted(np.array([1.0, 1.0, 1.0]))
    for each in (some, shifted):
        assert describe_starts(each) == (
            "up to 5.00 m from the goal, tilted up to 60 degrees, at up to 1.25 m/s and 0.00 rad/s,"
            " rotors at 900 to 1000 rad/s"
        )


def test_disturbances_are_told_by_label_with_their_numbers():
    weight = ROBOT.weight_n
    described = describe_disturbances(
        scenario(
            ["calm", "gusts", "gusts", "late"],
            mass_scale=np.array([1.0, 0.9, 1.1, 1.0]),
            gust_force_n=np.array([[0, 0, 0], [weight / 2, 0, 0], [0, 0, weight / 4], [weight, 0, 0]]),
            gust_start_s=np.array([0.0, 0.5, 2.0, 0.0]),
            gust_duration_s=np.array([0.0, 1.0, 1.0, 0.0]),
            delay_s=np.array([0.0, 0.0, 0.0, 0.02]),
        ),
        ROBOT,
    )
    assert list(described) == ["calm", "gusts", "late"]
    assert described["calm"] == "nothing: the robot exactly as in its file"
    assert described["gusts"] == (
        "mass -10 to +10% off the robot file; gust of median 99.3 mN, up to 132 mN (50% of the weight)"
        " starting at 0.5 to 2.0 s for 1.0 s"
    )
    assert described["late"] == "commands delayed by 20 ms"  # a gust of no duration is none


def test_constant_force_and_torque():
    described = describe_disturbances(
        scenario(["push"], force_n=np.array([[0.0, 0.003, 0.004]]), torque_n_m=np.array([[2e-6, 0.0, 0.0]])), ROBOT
    )
    assert described["push"] == (
        "constant force of median 5 mN, up to 5 mN (2% of the weight); constant torque of median 2 µN m, up to 2 µN m"
    )


def test_paths_are_described_by_what_they_ask_for():
    still = scenario(["a", "a"])
    assert describe_paths(still) == ""
    time = np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 4.0]])
    position = np.array([[[0, 0, 0], [3, 0, 0], [3, 4, 0]], [[1, 0, 0], [1, 0, 1], [1, 0, 0.0]]])
    moving = replace(still, path=Paths(time, position, np.zeros((2, 3))))
    assert describe_paths(moving) == (
        " The paths last 3.0 to 4.0 s, are 2.0 to 7.0 m long, at most 3.0 x 4.0 x 1.0 m in size, and reach 0.5 to 3.0"
        " m/s."
    )
    assert "up to 0.00 m from the start of the path" in describe_starts(moving)

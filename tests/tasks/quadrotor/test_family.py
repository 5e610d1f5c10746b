"""The family of quadrotors: what is drawn has the published distribution, and its scales make what was drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.spec_family import family_parameters
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.tasks.quadrotor.family import Family, Vehicles, nominal_robot, sample_family
from rlstack.tasks.quadrotor.paths import Paths

COUNT = 20_000
SHARE = 4.0 / np.sqrt(COUNT)  # four standard errors of a mean of numbers of order 1


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return nominal_robot(load_quadrotor("crazyflie"))


@pytest.fixture(scope="module")
def drawn(robot: Quadrotor) -> Vehicles:
    return sample_family(np.random.default_rng(0), COUNT, robot)


def as_robot(reference: Quadrotor, vehicles: Vehicles, index: int) -> Quadrotor:
    """Return one vehicle as a robot file would have it, from its departures alone."""
    p = vehicles.perturbation.take(np.array([index]))
    body, model = reference.body, reference.rotor_model
    rotors = tuple(
        replace(r, position_m=(r.position_m[0] * p.arm_scale[0, 0], r.position_m[1] * p.arm_scale[0, 1], 0.0))
        for r in reference.rotors
    )
    assert np.ptp(p.thrust_scale) == 0.0
    return replace(
        reference,
        body=replace(
            body,
            mass_kg=body.mass_kg * p.mass_scale[0],
            inertia_kg_m2=tuple(np.array(body.inertia_kg_m2) * p.inertia_scale[0]),
        ),
        rotors=rotors,
        rotor_model=replace(
            model,
            thrust_coefficients=tuple(np.array(model.thrust_coefficients) * p.thrust_scale[0, 0]),
            torque_per_thrust_m=model.torque_per_thrust_m * p.torque_scale[0],
            rise_time_constant_s=model.rise_time_constant_s * p.time_constant_scale[0, 0],
            fall_time_constant_s=model.fall_time_constant_s * p.time_constant_scale[0, 1],
        ),
    )


def test_departures_make_the_vehicle_that_was_drawn(robot: Quadrotor, drawn: Vehicles) -> None:
    for i in range(20):
        vehicle = as_robot(robot, drawn, i)
        found = family_parameters(vehicle)
        assert set(drawn.parameters) == set(Family().ranges)
        for name, values in drawn.parameters.items():
            assert found[name] == pytest.approx(values[i], rel=1e-9), name
        assert found["rotor_width_to_length"] == pytest.approx(1.0) and found["rotor_unevenness"] < 1e-9
        arms = np.linalg.norm(vehicle.rotor_positions, axis=1)
        np.testing.assert_allclose(arms, drawn.arm_m[i], rtol=1e-9)
        inertia = np.array(vehicle.body.inertia_kg_m2)
        np.testing.assert_allclose(inertia / inertia[0], [1.0, 1.02416, 1.85413], rtol=1e-5)
        top = vehicle.thrust_to_weight * vehicle.weight_n / 4.0
        assert arms[0] * top / inertia[0] == pytest.approx(drawn.parameters["roll_torque_to_inertia_rad_s2"][i])
    assert (drawn.perturbation.drag_scale == 0.0).all()
    assert not drawn.perturbation.force_n.any() and not drawn.perturbation.torque_n_m.any()


@pytest.mark.parametrize("name", sorted(Family().ranges))
def test_every_parameter_is_uniform_within_its_range(drawn: Vehicles, name: str) -> None:
    low, high = Family().ranges[name]
    values = drawn.parameters[name]
    assert values.min() >= low * (1.0 - 1e-12) and values.max() <= high * (1.0 + 1e-12)
    if name == "mass_kg":  # uniform in size
        low, high, values = np.cbrt(low), np.cbrt(high), np.cbrt(values)
    unit = (values - low) / (high - low)
    quantiles = np.quantile(unit, np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(quantiles, np.linspace(0.1, 0.9, 9), atol=SHARE)


def test_commands_are_late_within_the_range_and_the_vehicles_stay_the_same(robot: Quadrotor, drawn: Vehicles) -> None:
    late = sample_family(np.random.default_rng(0), COUNT, robot, Family(delay_s=(0.01, 0.03)))
    assert not drawn.perturbation.delay_s.any()
    quantiles = np.quantile(late.perturbation.delay_s, [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(quantiles, [0.01, 0.015, 0.02, 0.025, 0.03], atol=0.02 * SHARE)
    np.testing.assert_array_equal(late.perturbation.mass_scale, drawn.perturbation.mass_scale)
    np.testing.assert_array_equal(late.force_sigma_n, drawn.force_sigma_n)


def test_parameters_are_independent(drawn: Vehicles) -> None:
    names = [n for n in drawn.parameters if n != "pitch_torque_to_inertia_rad_s2"]  # which is the roll one, scaled
    correlation = np.corrcoef([drawn.parameters[n] for n in names]) - np.eye(len(names))
    assert np.abs(correlation).max() < 1.5 * SHARE


def test_arms_follow_the_mass_with_the_deviation(drawn: Vehicles) -> None:
    relative = drawn.arm_m / (0.0395980 * np.cbrt(drawn.parameters["mass_kg"] / 0.0306))
    longer, shorter = relative[relative >= 1.0] - 1.0, 1.0 / relative[relative < 1.0] - 1.0
    assert len(longer) / COUNT == pytest.approx(0.5, abs=SHARE)
    for half in (longer, shorter):  # both are halves of a normal distribution
        assert np.sqrt(np.mean(half**2)) == pytest.approx(0.1, abs=0.1 * SHARE * 2.0)
        assert np.mean(half) == pytest.approx(0.1 * np.sqrt(2.0 / np.pi), abs=0.1 * SHARE)


def test_forces_are_normal_with_each_vehicles_deviation(robot: Quadrotor, drawn: Vehicles) -> None:
    ratio, mass = drawn.parameters["thrust_to_weight"], drawn.parameters["mass_kg"]
    unit = 3.0 * drawn.force_sigma_n / (0.3 * (ratio - 1.0) * ratio * mass)
    np.testing.assert_allclose(np.quantile(unit, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=SHARE)
    force = drawn.scenario(np.random.default_rng(1), robot).perturbation.force_n / drawn.force_sigma_n[:, None]
    np.testing.assert_allclose(force.mean(axis=0), 0.0, atol=SHARE)
    np.testing.assert_allclose(force.std(axis=0), 1.0, atol=SHARE)
    calm = drawn.scenario(np.random.default_rng(1), robot, disturbances=False)
    assert not calm.perturbation.force_n.any() and set(calm.labels) == {"calm"}


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_starts_are_within_ten_arm_lengths_and_90_degrees(robot: Quadrotor, drawn: Vehicles, scale: float) -> None:
    scenario = drawn.scenario(np.random.default_rng(1), robot, scale=scale)
    state = scenario.state
    settled = ~state["position"].any(axis=1)
    assert settled.mean() == pytest.approx(0.1, abs=SHARE)
    away = state["position"][~settled] / drawn.arm_m[~settled, None] / 10.0 / scale
    distance = np.linalg.norm(away, axis=1)
    assert 0.999 < distance.max() <= 1.0 + 1e-12
    np.testing.assert_allclose(np.quantile(distance**3, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=SHARE)
    np.testing.assert_allclose((away / distance[:, None]).mean(axis=0), 0.0, atol=SHARE)
    np.testing.assert_allclose(((away / distance[:, None]) ** 2).mean(axis=0), 1.0 / 3.0, atol=SHARE)
    angle = 2.0 * np.arctan2(np.linalg.norm(state["orientation"][:, :3], axis=1), state["orientation"][:, 3]) / scale
    assert np.pi / 2 - 0.01 < angle.max() <= np.pi / 2 and angle[~settled].mean() == pytest.approx(np.pi / 4, abs=SHARE)
    for name in ("linear_velocity", "angular_velocity"):
        assert 0.99 * scale < np.abs(state[name]).max() <= scale
    half = state["rotor_speed"] / robot.rotor_model.speed_max_rad_s
    assert half.min() >= 0.0 and half.max() <= 0.5 and half.mean() == pytest.approx(0.25, abs=SHARE)
    assert not scenario.goal_position.any() and scenario.path is None


def test_starts_within_ten_arm_lengths_of_each_axis_fill_the_cube(robot: Quadrotor, drawn: Vehicles) -> None:
    position = drawn.scenario(np.random.default_rng(1), robot, start="ten_arms_each_axis").state["position"]
    unit = position[position.any(axis=1)] / 10.0
    unit = unit / drawn.arm_m[position.any(axis=1), None]
    assert np.abs(unit).max() <= 1.0
    np.testing.assert_allclose(np.quantile(unit, [0.25, 0.5, 0.75], axis=0).T, [[-0.5, 0.0, 0.5]] * 3, atol=2.0 * SHARE)


def test_hover_starts_carry_every_vehicle(robot: Quadrotor, drawn: Vehicles) -> None:
    vehicles = drawn.take(slice(0, 50))
    path = Paths(np.tile([0.0, 1.0], (50, 1)), np.arange(300.0).reshape(50, 2, 3), np.full((50, 2), 0.3))
    scenario = vehicles.scenario(np.random.default_rng(1), robot, start="hover", path=path)
    np.testing.assert_array_equal(scenario.state["position"], path.position[:, 0])
    np.testing.assert_array_equal(scenario.goal_position, path.position[:, 0])
    np.testing.assert_array_equal(scenario.goal_yaw, 0.3)
    assert scenario.path is path
    assert frames.tilt(scenario.state["orientation"]).max() == 0.0
    assert not scenario.state["linear_velocity"].any() and not scenario.state["angular_velocity"].any()
    lift = robot.rotor_model.thrust(scenario.state["rotor_speed"]) * vehicles.perturbation.thrust_scale
    np.testing.assert_allclose(lift.sum(axis=1), vehicles.parameters["mass_kg"] * STANDARD_GRAVITY, rtol=1e-9)


def test_one_seed_gives_the_same_vehicles_whatever_else_is_asked(robot: Quadrotor) -> None:
    def drawn(seed: int, **options: Any) -> Any:
        rng = np.random.default_rng(seed)
        return sample_family(rng, 10, robot).scenario(rng, robot, **options)

    one, other, third = drawn(3), drawn(3, disturbances=False, start="hover"), drawn(4)
    for name in vars(one.perturbation):
        if name != "force_n":
            np.testing.assert_array_equal(getattr(one.perturbation, name), getattr(other.perturbation, name))
    assert (one.perturbation.mass_scale != third.perturbation.mass_scale).all()


@settings(deadline=None, max_examples=25)
@given(low=st.floats(1.1, 3.0), width=st.floats(0.0, 3.0), mass=st.floats(0.01, 3.0), deviation=st.floats(0.0, 0.3))
def test_any_other_family_is_hit_too(low: float, width: float, mass: float, deviation: float) -> None:
    robot = load_quadrotor("crazyflie")
    family = Family(thrust_to_weight=(low, low + width), mass_kg=(mass, 2.0 * mass), size_deviation=deviation)
    vehicles = sample_family(np.random.default_rng(0), 5, robot, family)
    for i in range(5):
        found = family_parameters(as_robot(robot, vehicles, i))
        for name, (least, most) in family.ranges.items():
            assert found[name] == pytest.approx(vehicles.parameters[name][i], rel=1e-9)
            assert least * (1.0 - 1e-9) <= found[name] <= most * (1.0 + 1e-9)


def test_the_nominal_robot_has_the_familys_curve_and_its_own_top(robot: Quadrotor) -> None:
    crazyflie = load_quadrotor("crazyflie")
    assert robot.thrust_to_weight == pytest.approx(crazyflie.thrust_to_weight)
    top = crazyflie.rotor_model.speed_max_rad_s
    share = robot.rotor_model.thrust(np.array([0.0, 0.5 * top])) / robot.rotor_model.thrust(np.array([top]))
    np.testing.assert_allclose(share, [0.0320103, 0.306635], rtol=1e-4)


def test_what_no_family_can_be_drawn_from_is_refused(robot: Quadrotor) -> None:
    plus = replace(robot, rotors=tuple(replace(r, position_m=(0.0, r.position_m[1], 0.0)) for r in robot.rotors))
    with pytest.raises(UserError, match="has a rotor on its x or y axis"):
        sample_family(np.random.default_rng(0), 3, plus)
    idling = replace(robot, rotor_model=replace(robot.rotor_model, speed_min_rad_s=100.0))
    with pytest.raises(UserError, match="speed_min_rad_s is 0"):
        nominal_robot(idling)


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("thrust_to_weight", [0.9, 2.0], "must be above 1"),
        ("mass_kg", [2.0, 1.0], "the lower end must come first"),
        ("force", -1.0, "must be at least 0"),
    ],
)
def test_what_a_file_may_not_ask_for_is_refused_by_key(key: str, given: Any, said: str) -> None:
    with pytest.raises(UserError, match=rf"f.yaml: .*{key}.*{said}"):
        schema.load(Family, {key: given}, "f.yaml")

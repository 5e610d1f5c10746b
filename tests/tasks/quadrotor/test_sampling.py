"""What starts and randomisations are drawn: within their ranges, with the moments of their distributions."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from rlstack import schema
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts

COUNT = 20_000
SHARE = 4.0 / np.sqrt(COUNT)  # four standard errors of a mean of numbers of order 1


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def starts(**changes: float) -> Starts:
    settings = {
        "position_m": 0.3,
        "tilt_rad": 1.2,
        "linear_velocity_m_s": 0.7,
        "angular_velocity_rad_s": 2.0,
        "rotor_speed_fraction": 0.4,
        "settled_share": 0.25,
    }
    return Starts(**{**settings, **changes})


def draw(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_starts_are_uniform_within_their_ranges(robot: Quadrotor, scale: float) -> None:
    state = starts(settled_share=0.0).sample(draw(), COUNT, robot, scale)
    for name, limit in (("position", 0.3), ("linear_velocity", 0.7), ("angular_velocity", 2.0)):
        unit = state[name] / (limit * scale)
        assert unit.shape == (COUNT, 3)
        assert np.abs(unit).max() <= 1.0 and np.abs(unit).max(axis=0).min() > 0.99
        np.testing.assert_allclose(unit.mean(axis=0), 0.0, atol=SHARE)
        np.testing.assert_allclose(unit.std(axis=0), 1.0 / np.sqrt(3.0), atol=SHARE)
        assert abs(np.corrcoef(unit[:, 0], unit[:, 1])[0, 1]) < SHARE
    angle = 2.0 * np.arctan2(np.linalg.norm(state["orientation"][:, :3], axis=1), state["orientation"][:, 3])
    assert angle.max() <= 1.2 * scale and angle.max() > 1.19 * scale
    assert angle.mean() == pytest.approx(0.6 * scale, abs=1.2 * SHARE)
    axis = state["orientation"][:, :3] / np.linalg.norm(state["orientation"][:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(axis.mean(axis=0), 0.0, atol=SHARE)
    np.testing.assert_allclose((axis**2).mean(axis=0), 1.0 / 3.0, atol=SHARE)
    np.testing.assert_allclose(np.linalg.norm(state["orientation"], axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(state["rotor_speed"], 0.4 * robot.rotor_model.speed_max_rad_s)
    assert frames.tilt(state["orientation"]).max() <= 1.2 * scale


def test_a_share_starts_settled(robot: Quadrotor) -> None:
    state = starts().sample(draw(), COUNT, robot)
    settled = (state["position"] == 0.0).all(axis=1)
    assert settled.mean() == pytest.approx(0.25, abs=SHARE)
    for name in ("linear_velocity", "angular_velocity"):
        assert (state[name][settled] == 0.0).all() and (state[name][~settled] != 0.0).any(axis=1).all()
    np.testing.assert_array_equal(state["orientation"][settled], np.tile([0.0, 0.0, 0.0, 1.0], (settled.sum(), 1)))


def test_settled_rotors_may_hover_from_the_start(robot: Quadrotor) -> None:
    alike = Starts(settled_share=0.3).sample(np.random.default_rng(2), 200, robot)
    state = Starts(settled_share=0.3, settled_hovering=True).sample(np.random.default_rng(2), 200, robot)
    settled = (state["position"] == 0.0).all(axis=1)
    assert 0 < settled.sum() < 200
    np.testing.assert_array_equal(state["rotor_speed"][settled], robot.hover_speed_rad_s)
    np.testing.assert_array_equal(state["rotor_speed"][~settled], alike["rotor_speed"][~settled])


def test_a_seed_gives_the_same_draw(robot: Quadrotor) -> None:
    for sample in (starts().sample, lambda *a: vars(Randomisation(mass=(0.5, 1.5)).sample(*a))):
        one, same, other = (sample(draw(seed), 10, robot) for seed in (1, 1, 2))
        assert all((one[name] == same[name]).all() for name in one)
        assert any((one[name] != other[name]).any() for name in one)


RANGES = {
    "mass": "mass_scale",
    "inertia": "inertia_scale",
    "arm": "arm_scale",
    "thrust": "thrust_scale",
    "torque": "torque_scale",
    "time_constant": "time_constant_scale",
    "drag": "drag_scale",
    "delay_s": "delay_s",
    "gust_start_s": "gust_start_s",
    "gust_duration_s": "gust_duration_s",
}


@pytest.mark.parametrize(("setting", "drawn"), RANGES.items())
def test_each_range_is_drawn_uniformly_and_alone(robot: Quadrotor, setting: str, drawn: str) -> None:
    low, high = (0.01, 0.03) if setting == "delay_s" else (0.6, 1.8)
    nothing = {"force_sigma": 0.0, "torque_sigma_m": 0.0, "gust_start_s": (0.0, 0.0), "gust_duration_s": (0.0, 0.0)}
    p = Randomisation(**{**nothing, setting: (low, high)}).sample(draw(), COUNT, robot)  # type: ignore[arg-type]
    unit = (getattr(p, drawn).reshape(COUNT, -1) - low) / (high - low)
    assert unit.min() >= 0.0 and unit.max() <= 1.0
    np.testing.assert_allclose(unit.mean(axis=0), 0.5, atol=SHARE)
    np.testing.assert_allclose(unit.std(axis=0), 1.0 / np.sqrt(12.0), atol=SHARE)
    if setting in ("arm", "time_constant"):  # one number for x and y, for rise and fall
        np.testing.assert_array_equal(unit[:, 0], unit[:, 1])
    elif unit.shape[1] > 1:  # each rotor and each axis for itself
        assert abs(np.corrcoef(unit[:, 0], unit[:, 1])[0, 1]) < SHARE
    file = vars(Perturbation.none(COUNT))
    for field in fields(p):
        assert getattr(p, field.name).shape == file[field.name].shape
        if field.name != drawn:
            np.testing.assert_array_equal(getattr(p, field.name), file[field.name], err_msg=field.name)


@pytest.mark.parametrize(
    ("setting", "drawn"),
    [("force_sigma", "force_n"), ("torque_sigma_m", "torque_n_m"), ("gust_sigma", "gust_force_n")],
)
def test_disturbances_are_normal_in_weights(robot: Quadrotor, setting: str, drawn: str) -> None:
    sigmas = {"force_sigma": 0.0, "torque_sigma_m": 0.0, "gust_sigma": 0.0, setting: 0.1}
    drawn_array = getattr(Randomisation(**sigmas).sample(draw(), COUNT, robot), drawn) / (0.1 * robot.weight_n)  # type: ignore[arg-type]
    np.testing.assert_allclose(drawn_array.mean(axis=0), 0.0, atol=SHARE)
    np.testing.assert_allclose(drawn_array.std(axis=0), 1.0, atol=SHARE)
    assert 0.04 < (np.abs(drawn_array) > 2.0).mean() < 0.05


def test_a_range_must_begin_with_its_lower_end() -> None:
    with pytest.raises(ValueError, match=r"mass: \[1.2, 0.8\] is not allowed: the lower end must come first"):
        Randomisation(mass=(1.2, 0.8))


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("mass", [0.0, 1.0], "must be above 0"),
        ("delay_s", [0.0, 0.2], "must be at most 0.05 s"),
        ("delay_s", [0.02, 0.01], "the lower end must come first"),
        ("drag", [-1.0, 1.0], "must be at least 0"),
        ("force_sigma", -0.1, "must be at least 0"),
        ("thrust", [1.0], "must be a list of 2"),
        ("gust_sigma", "much", "must be a number"),
    ],
)
def test_what_a_file_may_not_ask_for_is_refused_by_key(key: str, given: object, said: str) -> None:
    with pytest.raises(UserError, match=rf"f.yaml: .*{key}.*{said}"):
        schema.load(Randomisation, {key: given}, "f.yaml")


def test_with_a_departing_share_the_others_are_nominal(robot: Quadrotor) -> None:
    p = Randomisation(mass=(1.2, 1.4), inertia=(1.2, 1.4), delay_s=(0.01, 0.02), departing_share=0.3).sample(
        draw(), COUNT, robot
    )
    heavier, rounder = p.mass_scale != 1.0, p.inertia_scale != 1.0
    assert heavier.mean() == pytest.approx(0.3, abs=SHARE) and p.mass_scale[heavier].min() >= 1.2
    assert (rounder.all(axis=1) | ~rounder.any(axis=1)).all()  # the three axes depart together
    assert (heavier & rounder[:, 0]).mean() == pytest.approx(0.09, abs=SHARE)  # each quantity on its own
    assert p.delay_s.min() >= 0.01  # there is no nominal delay


def test_a_share_starts_after_a_step_of_the_goal(robot: Quadrotor) -> None:
    state = Starts(settled_share=0.5, goal_step_share=0.5, goal_step_m=3.0).sample(draw(), COUNT, robot)
    away = np.abs(state["position"]).max(axis=1)
    stepped = state["rotor_speed"][:, 0] == robot.hover_speed_rad_s
    assert stepped.mean() == pytest.approx(0.25, abs=SHARE)
    assert 2.9 < away[stepped].max() <= 3.0 and away[~stepped].max() <= 0.2
    assert away[stepped].mean() == pytest.approx(1.5, abs=0.1)
    assert frames.tilt(state["orientation"])[stepped].max() <= np.pi / 4 + 1e-6
    np.testing.assert_allclose(np.linalg.norm(state["orientation"], axis=1), 1.0)

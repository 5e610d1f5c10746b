"""Dryden turbulence: the standard's numbers, spectra and variances of what comes out, and seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.sim.physics import wind as dryden
from rlstack.sim.physics.wind import WindField, advance, gust, intensities, lengths, stationary
from rlstack.sim.world import Wind
from tests.sim.physics.kernels import BOTH, compiled, tolerance
from tests.sim.physics.robots import force_and_torque
from tests.support.robots import crazyflie

FOOT, KNOT = 0.3048, 0.514444
MIL_F_8785C = {10.0: (75.64, 10.0), 100.0: (505.2, 100.0), 500.0: (944.7, 500.0), 1000.0: (1000.0, 1000.0)}
"""Height in feet: scale lengths along and up in feet, by the formula on a pocket calculator."""


@BOTH
def test_the_standards_scale_lengths(dtype: str) -> None:
    height = np.array([list(MIL_F_8785C)]) * FOOT
    got = compiled(lambda h: [*lengths(h[0])], dtype, h=height) / FOOT
    exact = [h / (0.177 + 0.000823 * h) ** 1.2 for h in MIL_F_8785C]
    np.testing.assert_allclose(got, [exact, list(MIL_F_8785C)], rtol=10 * tolerance(dtype))
    np.testing.assert_allclose(got[0], [along for along, _ in MIL_F_8785C.values()], rtol=1e-3)


@BOTH
def test_the_standards_intensities(dtype: str) -> None:
    # moderate: 30 knots at 20 feet; at 1000 feet turbulence is the same in all directions
    got = compiled(lambda h: [*intensities(h[0], 30.0 * KNOT)], dtype, h=np.array([[10.0, 1000.0, 9999.0]]) * FOOT)
    up = 0.1 * 30.0 * KNOT
    wanted = [[up / (0.177 + 0.00823) ** 0.4, up, up], [up, up, up]]
    np.testing.assert_allclose(got, wanted, rtol=10 * tolerance(dtype))
    assert dryden.SPEED_AT_20_FEET_M_S["severe"] == pytest.approx(45.0 * KNOT, rel=1e-5)


def series(count: int, step_s: float, seed: int = 0, airspeed: float = 5.0) -> np.ndarray:
    """Return (4096 steps, 3, count) of turbulence at 30 m with W = 10 m/s."""
    rng = np.random.default_rng(seed)
    state, out = stationary(rng.standard_normal((5, count))), np.empty((4096, 3, count))
    for row in out:
        state = advance(state, rng.standard_normal((5, count)), step_s, airspeed, 30.0)
        row[:] = gust(state, 30.0, 10.0)
    return out


@pytest.mark.parametrize("step_s", [0.01, 0.5, 30.0])
def test_the_variance_is_the_standards_at_any_time_step(step_s: float) -> None:
    found = series(400, step_s).std(axis=(0, 2))
    along, up = intensities(30.0, 10.0)
    np.testing.assert_allclose(found, [along, along, up], rtol=0.06 if step_s < 0.1 else 0.02)


def test_the_spectra_are_drydens() -> None:
    # one-sided, in rad/s: sigma^2 2 L / (pi V) / (1 + (L w / V)^2), and
    # sigma^2 L / (pi V) (1 + 3 (L w / V)^2) / (1 + (L w / V)^2)^2
    step_s, speed = 0.05, 5.0
    found = series(300, step_s, airspeed=speed)
    window = np.hanning(len(found))[:, None, None]
    power = (np.abs(np.fft.rfft(found * window, axis=0)) ** 2).mean(axis=2)
    power *= 2.0 * step_s / (2.0 * np.pi * (window**2).sum())
    w = 2.0 * np.pi * np.fft.rfftfreq(len(found), step_s)
    (along, up), (long, short) = intensities(30.0, 10.0), lengths(30.0)
    band = (w > 0.15) & (w < 6.0)  # from where the window resolves to a tenth of what is sampled

    def lateral(sigma: float, length: float) -> np.ndarray:
        x = (length * w / speed) ** 2
        return sigma**2 * length / (np.pi * speed) * (1.0 + 3.0 * x) / (1.0 + x) ** 2

    wanted = [along**2 * 2.0 * long / (np.pi * speed) / (1.0 + (long * w / speed) ** 2)]
    wanted += [lateral(along, long), lateral(up, short)]
    for got, exact in zip(power.T, wanted):
        ratio = np.array([part.mean() for part in np.array_split(got[band] / exact[band], 12)])
        np.testing.assert_allclose(ratio, 1.0, atol=0.06)


@BOTH
def test_the_filters_compile(dtype: str) -> None:
    rng = np.random.default_rng(0)
    state, noise = rng.standard_normal((5, 20)), rng.standard_normal((5, 20))

    def step(state: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return gust(advance(state, noise, 0.1, 5.0, 30.0), 30.0, 10.0)

    got = compiled(lambda state, noise: step(state, noise), dtype, state=state, noise=noise)
    np.testing.assert_allclose(got, step(state, noise), rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-3)


def field(count: int = 3, seed: int = 0, turbulence: str = "moderate") -> WindField:
    return WindField(Wind(velocity_m_s=(3.0, 4.0, 0.0), turbulence=turbulence), count, seed)  # type: ignore[arg-type]


def flown(air: WindField, count: int = 3, steps: int = 600, step_s: float = 0.05) -> np.ndarray:
    position, still = np.tile([[0.0], [0.0], [2.0]], count), np.zeros((3, count))
    return np.stack([air.advance(step_s, position, still) for _ in range(steps)])


def test_a_seed_gives_the_same_wind_and_robots_have_their_own() -> None:
    one, again, other, more = flown(field()), flown(field()), flown(field(seed=1)), flown(field(7), 7)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1
    np.testing.assert_array_equal(more[:, :, :3], one)
    assert abs(np.corrcoef(one[:, 0, 0], one[:, 0, 1])[0, 1]) < 0.9 and np.abs(one[:, :, 0] - one[:, :, 1]).max() > 0.1


def test_a_reset_begins_other_turbulence_for_that_robot_alone() -> None:
    whole, part = flown(field()), field()
    before = flown(part, steps=300)
    part.reset(1)
    after = flown(part, steps=300)
    np.testing.assert_array_equal(np.concatenate([before, after])[:, :, [0, 2]], whole[:, :, [0, 2]])
    assert np.abs(after[:, :, 1] - whole[300:, :, 1]).max() > 0.1


def test_the_mean_and_the_directions() -> None:
    assert (flown(field(turbulence="none"), steps=2) == np.array([3.0, 4.0, 0.0])[:, None]).all()
    air = flown(field(200), 200, steps=50, step_s=5.0)
    np.testing.assert_allclose(air.mean(axis=(0, 2)), [3.0, 4.0, 0.0], atol=0.2)
    along, up = intensities(2.0, 30.0 * KNOT)
    assert air[:, 2].std() == pytest.approx(up, rel=0.05)
    assert (air[:, 0] * 0.6 + air[:, 1] * 0.8).std() == pytest.approx(along, rel=0.05)


def test_wind_pushes_by_the_drag() -> None:
    robot = crazyflie()
    force, _ = force_and_torque(robot, air=(2.0, 0.0, 0.0), switches={"wind": True})
    assert force[0] == pytest.approx(2.0 * 5.57e-3, rel=1e-12)
    along, _ = force_and_torque(robot, air=(2.0, 0.0, 0.0), velocity=(2.0, 0.0, 0.0), switches={"wind": True})
    assert math.isclose(along[0], 0.0, abs_tol=1e-15)

"""A quadrotor that differs from its file is found from a bag of its flight, and the new file flies as it does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags")
pytest.importorskip("mujoco")

from rlstack import cli
from rlstack.control.hover import HoverController, HoverGains
from rlstack.errors import UserError
from rlstack.identification.identify import check, gap_report, identify, read_all
from rlstack.identification.motion_model import Estimate
from rlstack.identification.page import gap_table
from rlstack.identification.recorded import Recorded, Track
from rlstack.kinds.quadrotor.identification import IDENTIFICATION
from rlstack.kinds.quadrotor.identification_parameters import quadrotor_parameters, thrust_coefficients
from rlstack.kinds.quadrotor.identification_rotors import MeasuredRotors, RotorHistory, commanded_range
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import load_robot
from rlstack.robots.frames import from_rotation_vector, rotate
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from tests.identification.conftest import Floats, write_flight

MASS_KG, DELAY_S, LAGS_S = 0.0305, 0.007, (0.12, 0.18)
INERTIA, THRUST, SHIFT_M, SPIN_INERTIA = (1.15, 1.2, 0.85), 1.15, 0.001, 3e-8


def true_robot(robot: Quadrotor) -> Quadrotor:
    body, model = robot.body, robot.rotor_model
    inertia = tuple(float(moment * k) for moment, k in zip(body.inertia_kg_m2, INERTIA))
    rotors = tuple(
        dataclasses.replace(rotor, position_m=(rotor.position_m[0] - SHIFT_M, *rotor.position_m[1:]))
        for rotor in robot.rotors
    )
    return dataclasses.replace(
        robot,
        body=dataclasses.replace(body, mass_kg=MASS_KG, inertia_kg_m2=inertia),
        rotors=rotors,
        rotor_model=dataclasses.replace(
            model,
            thrust_coefficients=(0.0, 0.0, THRUST * model.thrust_coefficients[2]),
            rise_time_constant_s=LAGS_S[0],
            fall_time_constant_s=LAGS_S[1],
            spin_inertia_kg_m2=SPIN_INERTIA,
        ),
    )


def record(path: Path, seconds: float, *, varies_s: float = 0.0) -> Path:
    """Fly the true robot in MuJoCo to goals that step, by a controller that suits it.

    Commands take effect after times that vary by up to ``varies_s``, of which the bag says nothing; the rotors are then
    measured.
    """
    robot = true_robot(load_quadrotor("crazyflie"))
    flown = SimulatedRobot(Simulation(MujocoEngine, [robot], gyroscopic=True), noise_seed=0)
    flown.connect()
    flown.perturb(dataclasses.replace(Perturbation.none(1), delay_s=np.array([DELAY_S])))
    controller = HoverController(robot, HoverGains.for_robot(robot, latency_s=0.05, speed_m_s=1.5))
    controller.reset()
    flown.reset({"position": [0.0, 0.0, 1.0], "rotor_speed": np.full(4, 1480.0)})
    rng, goal, yaw = np.random.default_rng(3), np.array([0.0, 0.0, 1.0]), 0.0
    rows: list[dict[str, Any]] = []
    for k in range(round(100 * seconds)):
        if k % 80 == 40:
            goal, yaw = rng.uniform([-1.0, -1.0, 0.7], [1.0, 1.0, 1.8]), rng.uniform(-1.5, 1.5)
        seen = flown.read().signals
        velocity = rotate(seen["orientation"], seen["linear_velocity"])
        state = (seen["position"], seen["orientation"], velocity, seen["angular_velocity"])
        rows.append({**seen, "sent": controller.command(*state, goal, yaw, 0.01)})
        late_s = round(1000.0 * rng.uniform(0.0, varies_s)) / 1000.0
        flown.step(late_s)
        flown.write({"rotor_speed": rows[-1]["sent"]})
        flown.step(0.01 - late_s)
    flown.close()
    names = ("position", "orientation", "linear_velocity", "angular_velocity", "sent", "measured_rotor_speed")
    motion = {name: np.array([row[name] for row in rows]) for name in names}
    sent, measured = motion.pop("sent"), motion.pop("measured_rotor_speed")
    return write_flight(path, 0.01 * np.arange(len(rows)), motion, sent, measured=measured if varies_s else None)


@pytest.mark.integration
def test_a_flight_tells_what_the_robot_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag, new = record(tmp_path / "bag", 10.0), tmp_path / "my_drone.yaml"
    words = ["--robot", "crazyflie", "--out", str(new), "--known", f"mass={MASS_KG}", "--residual"]
    status = cli.main(["identify", str(bag), *words])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "It is not used" in said and not new.with_suffix(".residual.onnx").exists(), (
        "MuJoCo's forces are the model's"
    )
    assert "What physics leaves over" in (tmp_path / "my_drone.html").read_text()
    file, found = load_quadrotor("crazyflie"), load_quadrotor(new)
    truth = true_robot(file)
    assert found.name == "my_drone" and found.body.mass_kg == MASS_KG
    np.testing.assert_allclose(found.body.inertia_kg_m2, truth.body.inertia_kg_m2, rtol=0.02)
    speeds = np.array([1200.0, 1480.0, 1800.0])
    np.testing.assert_allclose(found.rotor_model.thrust(speeds), truth.rotor_model.thrust(speeds), rtol=0.01)
    lags = found.rotor_model.rise_time_constant_s, found.rotor_model.fall_time_constant_s
    np.testing.assert_allclose(lags, LAGS_S, rtol=0.02)
    assert found.rotor_model.spin_inertia_kg_m2 == pytest.approx(SPIN_INERTIA, rel=0.05)
    np.testing.assert_allclose(found.rotor_positions, truth.rotor_positions, atol=2e-5)
    low, high = found.randomisation["delay_s"]
    assert low < DELAY_S < high < DELAY_S + 0.003
    text = new.read_text()
    assert "90% interval" in text and str(bag) in text and "the file had 0.15" in text
    assert (tmp_path / "my_drone.html").read_text().count("<img") == 2
    _, gap = gap_report(found, read_all(found, [bag]), {"spin_inertia": SPIN_INERTIA})
    assert gap.errors["position"][-1] < 0.15, "m after 1 s; it was 3.8, and the delay is not in the file"
    assert "randomisation" not in found.identity() and load_robot("crazyflie").sha256 == file.sha256


@pytest.mark.integration
def test_measured_rotor_speeds_tell_what_commands_at_unknown_times_do_not(tmp_path: Path) -> None:
    file = load_quadrotor("crazyflie")
    recordings = read_all(file, [record(tmp_path / "bag", 8.0, varies_s=0.008)])
    found = identify(file, recordings, {"mass": MASS_KG})
    truth = true_robot(file)
    for axis, moment in zip("xyz", truth.body.inertia_kg_m2):
        assert found.estimates[f"inertia_{axis}"].value == pytest.approx(moment, rel=0.005)
    assert found.estimates["rise"].value == pytest.approx(LAGS_S[0], rel=0.02)
    assert found.estimates["delay"].value == pytest.approx(DELAY_S + 0.004, abs=0.002)
    assert found.driven is not None and found.driven[1].errors["position"][-1] < 0.02, "m after 1 s"
    assert "rotor_speed" in found.after.errors and "rotor_speed" not in found.driven[1].errors
    rows = gap_table(found.gaps)
    assert "before, from measured rotor speeds" in rows and "after, from commands" in rows
    assert any("commands took effect" in note for note in found.notes)
    assert found.model.alternatives(found.values) == (), "the speeds were measured without noise"
    assert list(check(file, recordings, {})) == ["crazyflie, from measured rotor speeds", "crazyflie, from commands"]


def hovering(seconds: float) -> Recorded:
    """Return what a Crazyflie that hovers exactly would record."""
    robot, rng = load_quadrotor("crazyflie"), np.random.default_rng(0)
    time_s = np.arange(0.0, seconds, 0.01)
    noise = {name: 0.002 * rng.normal(size=(len(time_s), 3)) for name in ("position", "turn", "linear", "angular")}
    motion = {
        "position": noise["position"] + [0.0, 0.0, 1.0],
        "orientation": from_rotation_vector(noise["turn"]),
        "linear_velocity": noise["linear"],
        "angular_velocity": noise["angular"],
    }
    sent = {"rotor_speed": np.full((len(time_s), 4), robot.hover_speed_rad_s)}
    return Recorded(Path("hover"), {"odom": Track("odom", time_s, motion), "cmd/rotors": Track("cmd", time_s, sent)})


@pytest.mark.integration
def test_a_hover_tells_little_and_says_so() -> None:
    robot = load_quadrotor("crazyflie")
    found = identify(robot, [hovering(8.0)])
    thrust = found.estimates["thrust"]
    assert thrust.verdict == "told" and thrust.why == "in proportion to mass, which is the file's"
    assert thrust.value == pytest.approx(robot.weight_n / 4, rel=0.01)
    kept = {name: one.why for name, one in found.estimates.items() if one.verdict == "kept"}
    assert set(kept) >= {"mass", "inertia_x", "inertia_z", "torque", "rise", "fall", "delay", "drag_x"}
    assert "weigh the robot" in kept["mass"] and "flights at 2.1 m/s along x" in kept["drag_x"]
    assert "apart from inertia_z" in kept["torque"]
    with pytest.raises(UserError, match=r"parameter for --known 'weight'"):
        identify(robot, [hovering(8.0)], {"weight": 0.03})
    with pytest.raises(UserError, match=r"--known mass=-1 is not allowed: must be above 0 kg"):
        identify(robot, [hovering(8.0)], {"mass": -1.0})


def test_rotor_speeds_follow_commands_by_lag_and_delay() -> None:
    time_s = np.array([0.0, 0.01, 0.021, 0.03])
    command = np.array([[1000.0], [1500.0], [800.0], [900.0]])
    at = np.array([[0.005, 0.016, 0.0275, 0.05]])
    lags, delay = np.array([[0.05, 0.02], [0.05, 0.02], [0.1, 0.02]]), np.array([0.0, 0.004, 0.0])
    found = RotorHistory(time_s, command).speeds(at, lags, delay)
    for k in range(3):
        speed, fine, step = 1000.0, [], 1e-5
        for t in np.arange(0.0, 0.0501, step):
            sent = command[max(int(np.searchsorted(time_s, t - delay[k] + 1e-9, side="right")) - 1, 0), 0]
            fine.append(speed)
            speed += step * (sent - speed) / lags[k, 0 if sent > speed else 1]
        np.testing.assert_allclose(found[k, 0, :, 0], [fine[round(t / step)] for t in at[0]], rtol=2e-4)


def stepping(noise: float) -> tuple[MeasuredRotors, Floats]:
    """Return rotors that were measured with noise, rad/s, while their commands came 3 ms late, and their speeds."""
    rng, lag = np.random.default_rng(0), 0.05
    time_s = 0.01 * np.arange(1000)
    command = 1500.0 + np.repeat(rng.uniform(-400.0, 400.0, (100, 4)), 10, axis=0)
    lags, late = np.array([[lag, lag]]), np.array([0.003])
    speeds = RotorHistory(time_s, command).speeds(time_s, lags, late)[0]
    return MeasuredRotors(RotorHistory(time_s, command), time_s, speeds + rng.normal(0.0, noise, speeds.shape)), speeds


def test_measured_speeds_are_followed_as_far_as_they_are_better_than_the_commands() -> None:
    lags, at_once, late = np.array([[0.05, 0.05]]), np.zeros(1), np.array([0.003])
    exact, speeds = stepping(0.0)
    np.testing.assert_allclose(exact.speeds(exact.time_s[10:-10], lags, at_once)[0], speeds[10:-10], atol=1.0)
    noisy, _ = stepping(10.0)

    def error(delay: Floats) -> float:
        return float(np.std(noisy.speeds(noisy.time_s[10:-10], lags, delay)[0] - speeds[10:-10]))

    assert error(late) < 1.0, "the commands are right"
    assert error(at_once) < 0.8 * min(
        10.0, float(np.std(noisy.history.speeds(noisy.time_s, lags, at_once)[0] - speeds))
    )


def test_large_steps_tell_when_commands_took_effect() -> None:
    for noise, off in ((0.0, 3e-4), (2.0, 5e-4)):
        found = stepping(noise)[0].delays(np.array([0.05, 0.05]), 0.0)
        assert len(found) > 50 and np.median(found) == pytest.approx(0.003, abs=off)


def test_moments_of_no_body_are_not_told_and_those_of_a_flat_one_are() -> None:
    robot = load_quadrotor("crazyflie")
    model = IDENTIFICATION.model(robot, [hovering(8.0)])
    names = [one.name for one in model.parameters]
    values = np.array([one.value for one in model.parameters])
    assert model.impossible(values) == ()
    values[names.index("inertia_z")] = 1.02 * sum(robot.body.inertia_kg_m2[:2])
    assert model.impossible(values) == (), "within what a fit may be off"
    estimates = {one.name: Estimate(one, float(value), None, "told") for one, value in zip(model.parameters, values)}
    moments = [
        one.value for one in IDENTIFICATION.edits(robot, estimates, str) if one.place[:2] == ("body", "inertia_kg_m2")
    ]
    assert moments[2] == pytest.approx(moments[0] + moments[1])
    values[names.index("inertia_z")] *= 100.0
    assert model.impossible(values) == ("inertia_x", "inertia_y", "inertia_z")


def test_a_curve_has_the_thrust_and_power_that_are_asked_for_and_keeps_its_form_otherwise() -> None:
    for name in ("crazyflie", "crazyflie_brushless"):
        robot = load_quadrotor(name)
        speed, file = robot.hover_speed_rad_s, np.array(robot.rotor_model.thrust_coefficients)
        thrust = robot.weight_n / 4
        slope = float(file[1] + 2 * file[2] * speed)
        same = thrust_coefficients(robot, np.array(1.2 * thrust), np.array(slope * speed / thrust))
        np.testing.assert_allclose(same, 1.2 * file, atol=1e-20)
        c0, c1, c2 = thrust_coefficients(robot, np.array(0.12), np.array(2.3))
        assert c0 + speed * (c1 + speed * c2) == pytest.approx(0.12)
        assert c1 + 2 * c2 * speed == pytest.approx(2.3 * 0.12 / speed)


def test_the_rotors_range_is_the_files_unless_commands_show_another_one() -> None:
    rng = np.random.default_rng(0)
    within = rng.uniform(600.0, 2200.0, (2000, 4))
    assert commanded_range([within], 0.0, 2272.6) == (0.0, 2272.6), "no command reached a limit"
    limited = np.clip(within, 900.0, 2000.0)
    assert commanded_range([within, limited[:500]], 0.0, 2272.6) == (0.0, 2272.6)
    assert commanded_range([limited], 0.0, 2272.6) == (900.0, 2000.0)
    assert commanded_range([np.clip(1.3 * within, 0.0, 2272.6)], 0.0, 2272.6) == (0.0, 2272.6)
    assert commanded_range([within, np.full((1, 4), 2400.0)], 0.0, 2272.6) == (0.0, 2400.0)


def test_a_robot_that_takes_rates_is_refused() -> None:
    with pytest.raises(UserError, match="takes rates and thrust"):
        IDENTIFICATION.check(load_quadrotor("crazyflie_rates"))


@pytest.mark.parametrize(("power", "falls"), [(2.003, False), (2.3, True)])
def test_a_power_just_above_two_is_that_of_a_square(power: float, falls: bool) -> None:
    robot = load_quadrotor("crazyflie")
    thrust, interval = (
        float(robot.rotor_model.thrust(np.array(robot.hover_speed_rad_s))),
        (power - 0.004, power + 0.004),
    )
    found = {}
    for one in quadrotor_parameters(robot):
        value = {"thrust": thrust, "thrust_power": power}.get(one.name, one.value)
        told = one.name in ("thrust", "thrust_power")
        ends = interval if one.name == "thrust_power" else (value, value)
        found[one.name] = Estimate(one, value, ends if told else None, "told" if told else "kept")
    (edit,) = IDENTIFICATION.edits(robot, found, str)
    assert isinstance(edit.value, list) and (edit.value[1] < -1e-12) == falls

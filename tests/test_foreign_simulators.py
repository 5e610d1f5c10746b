"""benchmarks/foreign_simulators: a policy file run with numpy and onnxruntime alone does what rlstack's runner does."""

from __future__ import annotations

import ast
import math
import sys
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy, robot_inputs
from rlstack.robots import frames
from tests.support.benchmarks import FOLDER, load_benchmark

SCRIPTS = FOLDER / "foreign_simulators"
SHIPPED = FOLDER.parent / "policies" / "quadrotor_foundation" / "policy.onnx"


@pytest.fixture(scope="module")
def scripts() -> Any:
    """The folder's modules that need no simulator."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        import delays
        import flights
        import policy_file
        import reaches
        import recording
        import scans

        yield {module.__name__: module for module in (policy_file, flights, delays, scans, reaches, recording)}
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def benchmark() -> Any:
    """The benchmark, whose folder is on the path as where it runs."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield load_benchmark("foreign_simulators")
    finally:
        sys.path.remove(str(FOLDER))


def signals(rng: np.random.Generator, count: int) -> dict[str, Any]:
    turn = rng.normal(size=(count, 4))
    return {
        "position": rng.normal(size=(count, 3)),
        "orientation": turn / np.linalg.norm(turn, axis=1, keepdims=True),
        "linear_velocity": rng.normal(size=(count, 3)),
        "angular_velocity": rng.normal(size=(count, 3)),
        "path_time": np.tile([0.0, 1.0], (count, 1)),
        "path_position": rng.normal(size=(count, 2, 3)),
        "path_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 2, 1)),
    }


def test_the_runner_equals_rlstacks_own_over_a_recurrent_flight(scripts: Any) -> None:
    robot, rng, count = load_quadrotor("crazyflie"), np.random.default_rng(5), 3
    theirs, ours = scripts["policy_file"].PolicyFile(SHIPPED), load_policy(SHIPPED, robot=robot)
    constants = {name: np.tile(value, (count, *[1] * value.ndim)) for name, value in robot_inputs(robot).items()}
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    for _ in range(2):  # the second flight begins without memory of the first
        theirs.reset(count)
        ours.reset(count)
        for _ in range(20):
            seen = signals(rng, count)
            found = theirs.step({**seen, **constants})["rotor_speed"]
            np.testing.assert_array_equal(np.clip(found, low, high), ours.step(seen)["rotor_speed"])
    assert theirs.rate_hz == ours.contract.rate_hz


def test_an_input_that_nobody_gives_or_of_another_shape_is_named(scripts: Any) -> None:
    policy = scripts["policy_file"].PolicyFile(SHIPPED)
    policy.reset(2)
    seen = signals(np.random.default_rng(0), 2)
    with pytest.raises(ValueError, match="'rotor_position'"):
        policy.step(seen)
    with pytest.raises(ValueError, match=r"'position' has the shape \(1, 3\)"):
        policy.step({**seen, "position": np.zeros((1, 3))})


def test_nothing_of_rlstack_is_imported_where_the_file_is_run() -> None:
    for script in SCRIPTS.glob("*.py"):
        for node in ast.walk(ast.parse(script.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "rlstack" for name in names), script.name


def test_rotations_and_the_odometry_are_in_the_files_conventions(scripts: Any) -> None:
    flights, rng = scripts["flights"], np.random.default_rng(1)
    q, v = rng.normal(size=(2, 20, 4))
    q, v = q / np.linalg.norm(q, axis=1, keepdims=True), v[:, :3]
    np.testing.assert_allclose(flights.into_body(q, v), frames.rotate_inverse(q, v), atol=1e-12)
    np.testing.assert_allclose(flights.multiply(q, q[::-1]), frames.multiply(q, q[::-1]), atol=1e-12)
    quiet = dict.fromkeys(("position", "orientation", "linear_velocity", "angular_velocity"), 0.0)
    seen = flights.sensed((v, q, v, v), quiet, rng)
    np.testing.assert_allclose(seen["linear_velocity"], frames.rotate_inverse(q, v), atol=1e-12)
    np.testing.assert_allclose(seen["orientation"], q, atol=1e-12)


def test_rotors_are_matched_by_place_and_refused_if_they_turn_the_other_way(scripts: Any, benchmark: Any) -> None:
    job = benchmark.flights("quadrotor_hover", 2)
    rotors = job["robot"]["rotors"]
    place = np.array([rotor["position_m"] for rotor in rotors])
    sign = np.array([rotor["yaw_torque_sign"] for rotor in rotors])
    order = np.array([2, 0, 3, 1])
    found = scripts["flights"].motor_order(place[order], sign[order], job["robot"])
    np.testing.assert_array_equal(found, order)
    with pytest.raises(ValueError, match="are not those of"):
        scripts["flights"].motor_order(place, -sign, job["robot"])


def test_a_recording_has_the_commands_in_the_files_order(scripts: Any, benchmark: Any) -> None:
    job, order = benchmark.flights("quadrotor_hover", 1), np.array([2, 0, 3, 1])
    rotors, taken = job["robot"]["rotors"], []

    class Still:
        rotor_position = np.array([rotor["position_m"] for rotor in rotors])[order]
        rotor_yaw_sign = np.array([rotor["yaw_torque_sign"] for rotor in rotors])[order]
        speed_range, thrust = (100.0, 2000.0), job["robot"]["thrust_coefficients"]

        def reset(self, starts: Any) -> None:
            assert set(starts) == set(job["starts"])

        def state(self) -> Any:
            return np.array([[0.3, 0.0, 1.0]]), np.array([[0.0, 0.0, 0.0, 1.0]]), np.zeros((1, 3)), np.zeros((1, 3))

        def turning(self) -> Any:
            return np.array([[1.0, 2.0, 3.0, 4.0]])

        def step(self, speed: Any) -> None:
            taken.append(speed)

    policy = scripts["policy_file"].PolicyFile(SHIPPED)
    job |= {"seed": 0, "seconds": 0.1, "goals": [[0.0, 0.0, 0.0, 1.0, 0.2], [0.05, 1.0, 1.0, 1.0, 0.0]]}
    found = scripts["recording"].record(policy, Still(), job)
    sent = np.array(found["signals"]["rotor_speed"])
    assert found["period_s"] == 0.01 and found["lost_s"] is None and np.ptp(sent[-1]) > 1.0
    np.testing.assert_array_equal(sent[:, order], np.concatenate(taken))
    assert np.array(found["signals"]["measured_rotor_speed"])[0, order].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_flights_count_by_the_tasks_criterion(scripts: Any, benchmark: Any) -> None:
    criteria = benchmark.flights("quadrotor_hover", 2)["criteria"]
    error = np.full((800, 4), 0.01)
    error[350, 1] = 0.15  # outside 0.1 m in the window
    error[100, 2] = 1.9  # far before the window
    error[700:, 3] = math.inf
    found = scripts["flights"].figures(error, np.zeros_like(error), criteria, 100.0)
    assert (found["success"], found["within_0_1"], found["lost"], found["stable"]) == (0.75, 0.5, 0.25, 0.75)


def test_what_is_late_is_of_that_many_periods_ago(scripts: Any) -> None:
    late = scripts["delays"].Delay(0.02, 0.01)
    assert [late({"x": k})["x"] for k in range(5)] == [0, 0, 0, 1, 2]
    with pytest.raises(ValueError, match="no multiple"):
        scripts["delays"].Delay(0.015, 0.01)


def test_scans_are_filled_as_the_policy_node_fills_them(scripts: Any) -> None:
    from rlstack.interfaces.scan_messages import finite_ranges

    scan = {
        "rays": 360,
        "angle_min_rad": 0.0,
        "angle_increment_rad": math.radians(1.0),
        "range_min_m": 0.16,
        "range_max_m": 8.0,
    }
    rng = np.random.default_rng(2)
    ranges = rng.uniform(0.1, 9.0, 360)
    ranges[rng.random(360) < 0.3] = np.nan
    ranges[50:80] = np.nan
    ranges[rng.random(360) < 0.1] = np.inf
    expected = finite_ranges(ranges, increment_rad=math.radians(1.0), range_min_m=0.16, range_max_m=8.0, turns=True)
    rules = scripts["scans"].rules({"inputs": [{"name": "scan", "scan": scan}]}, "scan")
    np.testing.assert_array_equal(scripts["scans"].finite(ranges, scan, rules), expected)
    rules = scripts["scans"].rules(
        {"inputs": [{"name": "scan", "scan": scan}], "envelope": {"scans": {"scan": {"no_return_m": 9.0}}}}, "scan"
    )
    assert scripts["scans"].finite(np.full(360, np.inf), scan, rules).tolist() == [9.0] * 360
    beams = np.linspace(-math.pi, math.pi, 361)
    chosen = scripts["scans"].nearest(beams, scan)
    off = (beams[chosen] - np.radians(np.arange(360)) + math.pi) % (2.0 * math.pi) - math.pi
    assert np.abs(off).max() < 1e-9


def test_reaching_is_judged_to_the_end(scripts: Any) -> None:
    job = {"tolerance_m": 0.01, "hold_s": 0.25}
    distance = np.full((3, 100), 0.005)
    distance[1, 95] = 0.02  # lets go at the end
    distance[2] = 0.02
    found = scripts["reaches"].figures(distance, job, 20.0)
    assert found["success"] == pytest.approx(2 / 3) and found["held"] == pytest.approx(1 / 3)


def test_every_simulator_has_a_script_and_pinned_versions(benchmark: Any) -> None:
    for name, simulator in benchmark.SIMULATORS.items():
        assert name == benchmark.HOME or (SCRIPTS / simulator.script).is_file(), name
        assert all("==" in package for package in (benchmark.RUNTIME, *simulator.packages)), name
        assert simulator.kind in benchmark.JOBS and simulator.kind in benchmark.DELAYS_S


def test_every_vehicle_that_is_identified_is_in_a_simulator(benchmark: Any) -> None:
    vehicles = load_benchmark("identify_foreign").VEHICLES
    assert {name for name, _, _ in vehicles.values()} < set(benchmark.SIMULATORS)


def test_a_table_shows_shares_millimetres_and_degrees(benchmark: Any) -> None:
    rows = [{"policy": "p", "delay_s": 0.01, "success": 0.995, "error_m": 0.0042, "yaw_error_rad": math.pi / 2}]
    assert "| p | 10 ms | 99.5% | 4.2 | 90.0 |" in benchmark.table(rows)

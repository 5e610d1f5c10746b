"""Quadrotor: the shipped file is good and sourced; bad files are refused with key, value and what is allowed."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.kinds import find_kind
from rlstack.kinds.quadrotor.spec import Quadrotor, RotorModel, load_quadrotor
from rlstack.robots import robot_names
from rlstack.robots.spec import robot_files

FILE = robot_files()["crazyflie"]
GOOD: dict[str, Any] = yaml.safe_load(FILE.read_text())


def refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> str:
    """Return the message with which the Crazyflie's file after ``change`` is refused, without its path."""
    data = copy.deepcopy(GOOD)
    change(data)
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError) as caught:
        load_quadrotor(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(f"{path}: ")


# ---- the good file


def test_the_crazyflie_is_what_the_paper_says() -> None:
    robot = load_quadrotor("crazyflie")
    assert robot.rotor_names == ("m1", "m2", "m3", "m4")
    assert robot.body.mass_kg == 0.027
    assert robot.thrust_to_weight == pytest.approx(2.25, abs=0.01)
    np.testing.assert_array_equal(robot.yaw_torque_signs, [-1, 1, -1, 1])
    np.testing.assert_array_equal(robot.rotor_positions[0], [0.028, -0.028, 0.0])
    assert 4 * robot.rotor_model.thrust(np.array(robot.hover_speed_rad_s)) == pytest.approx(robot.weight_n)
    # rpm of the paper against rad/s of the file, to the digits that the file keeps
    assert robot.rotor_model.speed_max_rad_s == pytest.approx(21702 * 2 * np.pi / 60, rel=1e-4)
    assert robot.rotor_model.thrust_coefficients[2] == pytest.approx(3.16e-10 * (60 / (2 * np.pi)) ** 2, rel=1e-4)


@pytest.mark.parametrize("name", robot_names("quadrotor"))
def test_every_line_with_a_number_cites_a_source_of_the_header(name: str) -> None:
    text = robot_files()[name].read_text()
    sources = set(re.findall(r"^#\s+\[(\d+)\]", text, flags=re.MULTILINE))
    assert sources
    uncited, block = [], ""
    for line in text.splitlines():
        if line.startswith(("#", "name:", "kind:", "description:")) or not line.strip():
            continue
        content, _, comment = line.partition("#")
        cited = set(re.findall(r"\[(\d+)\]", comment))
        assert cited <= sources, f"a source that the header does not list: {line}"
        if not line.startswith((" ", "-")):
            block = ""
        if content.rstrip().endswith(":"):  # a heading's comment speaks for the list below it
            block = comment if cited else ""
        elif re.search(r"(?<![a-z_\d])-?\d", content) and not cited and not re.search(r"\[\d+\]", block):
            uncited.append(line)
    assert not uncited


def test_a_path_loads_like_a_name() -> None:
    assert load_quadrotor(FILE) == load_quadrotor(str(FILE)) == load_quadrotor("crazyflie")


# ---- bad files


def test_an_unknown_robot_lists_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown robot 'crazyfly'. Nearest: crazyflie, .*. Known: crazyflie, .*x500"):
        load_quadrotor("crazyfly")


def test_a_file_that_is_not_there_or_is_no_yaml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the robot file .*none\.yaml: No such file"):
        load_quadrotor(tmp_path / "none.yaml")
    path = tmp_path / "bad.yaml"
    path.write_text("body: [1, 2")
    with pytest.raises(UserError, match=r"bad\.yaml is not valid YAML"):
        load_quadrotor(path)
    path.write_text("- 1\n- 2\n")
    with pytest.raises(UserError, match=r"bad\.yaml: the file must be a mapping"):
        load_quadrotor(path)


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    message = refused(tmp_path, lambda d: d["body"].update(mas_kg=d["body"].pop("mass_kg")))
    assert "'body.mas_kg'" in message
    assert "Nearest: body.mass_kg" in message


def test_a_missing_key_is_refused_with_its_unit(tmp_path: Path) -> None:
    assert "the key 'body.mass_kg' is missing (unit: kg)" in refused(tmp_path, lambda d: d["body"].pop("mass_kg"))


CASES: list[tuple[str, Callable[[dict[str, Any]], Any], list[str]]] = [
    ("text for a number", lambda d: d["body"].update(mass_kg="heavy"), ["body.mass_kg: 'heavy'", "must be a number"]),
    ("boolean for a number", lambda d: d["body"].update(mass_kg=True), ["body.mass_kg: True", "must be a number"]),
    ("number for text", lambda d: d.update(name=7), ["name: 7", "must be text"]),
    ("number for a list", lambda d: d["body"].update(inertia_kg_m2=1.0), ["inertia_kg_m2: 1.0", "must be a list"]),
    ("short list", lambda d: d["body"].update(inertia_kg_m2=[1e-6, 1e-6]), ["inertia_kg_m2", "must be a list of 3"]),
    ("list for a mapping", lambda d: d.update(body=[1]), ["body must be a mapping", "[1]"]),
    ("NaN", lambda d: d["body"].update(mass_kg=float("nan")), ["body.mass_kg: nan", "must be a finite number"]),
    ("infinity", lambda d: d["limits"].update(tilt_rad=float("inf")), ["limits.tilt_rad: inf", "finite"]),
    (
        "NaN in a list",
        lambda d: d["rotors"][1].update(position_m=[0.0, float("nan"), 0.0]),
        ["rotors[1].position_m[1]"],
    ),
    ("no mass", lambda d: d["body"].update(mass_kg=0.0), ["body.mass_kg: 0.0", "must be above 0.0 kg"]),
    ("negative inertia", lambda d: d["body"].update(inertia_kg_m2=[1e-6, -1e-6, 1e-6]), ["-1e-06", "above 0.0 kg m^2"]),
    ("tilt past 180", lambda d: d["limits"].update(tilt_rad=4.0), ["limits.tilt_rad: 4.0", "must be at most 3.14"]),
    (
        "inertia triangle",
        lambda d: d["body"].update(inertia_kg_m2=[1e-6, 1e-6, 3e-6]),
        ["body: inertia_kg_m2: [1e-06, 1e-06, 3e-06]", "no moment may exceed the sum of the other two"],
    ),
    ("three rotors", lambda d: d["rotors"].pop(), ["rotors: 3 rotors", "a quadrotor has 4"]),
    ("twin names", lambda d: d["rotors"][1].update(name="m1"), ["rotors: ['m1', 'm1'", "a name of its own"]),
    (
        "yaw sign 2",
        lambda d: d["rotors"][0].update(yaw_torque_sign=2),
        ["rotors[0].yaw_torque_sign: 2", "one of -1, 1"],
    ),
    ("all turn alike", lambda d: [r.update(yaw_torque_sign=1) for r in d["rotors"]], ["yaw_torque_sign", "one half"]),
    ("too heavy", lambda d: d["body"].update(mass_kg=0.08), ["lift 0.76 times the weight", "must be above 1"]),
    (
        "slow rotors",
        lambda d: d["rotor_model"].update(speed_min_rad_s=3000.0),
        ["2272.6", "above speed_min_rad_s (3000.0)"],
    ),
    ("fence inside out", lambda d: d["limits"].update(geofence_max_m=[3.0, -4.0, 3.0]), ["geofence_max_m", "[-3.0"]),
    ("another kind", lambda d: d.update(kind="boat"), ["kind: 'boat'", "one of manipulator, quadrotor"]),
    ("silent sensor", lambda d: d["sensors"]["odom"].update(rate_hz=0), ["sensors.odom.rate_hz: 0", "above 0.0 Hz"]),
    (
        "thrust that pulls down",
        lambda d: d["rotor_model"].update(thrust_coefficients=[-0.01, 0.0, 2.9e-8]),
        ["thrust_coefficients: [-0.01, 0.0, 2.9e-08]", "speed_min_rad_s (0.0) the thrust is -0.01 N", "at least 0 N"],
    ),
    (
        "thrust that falls",
        lambda d: d["rotor_model"].update(thrust_coefficients=[0.0, 1e-4, -2.9e-8]),
        ["thrust_coefficients: [0.0, 0.0001, -2.9e-08]", "must rise with the speed all the way"],
    ),
    (
        "no thrust",
        lambda d: d["rotor_model"].update(thrust_coefficients=[0.1, 0.0, 0.0]),
        ["thrust_coefficients: [0.1, 0.0, 0.0]", "must rise with the speed"],
    ),
    (
        "no time constant",
        lambda d: d["rotor_model"].update(rise_time_constant_s=0),
        ["rise_time_constant_s: 0", "above"],
    ),
]


@pytest.mark.parametrize(("change", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_bad_value_is_refused_with_key_value_and_what_is_allowed(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: list[str]
) -> None:
    message = refused(tmp_path, change)
    for part in said:
        assert part in message


# ---- properties


@settings(deadline=None, max_examples=50)
@given(
    mass=st.floats(0.005, 0.05),
    ratio=st.tuples(st.floats(1.0, 1.9), st.floats(1.0, 1.9)),
    size=st.floats(1e-7, 1e-4),
    arm=st.floats(0.01, 0.5),
    names=st.lists(
        st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), min_size=4, max_size=4, unique=True
    ),
)
def test_to_data_and_back_is_the_same_robot(
    mass: float, ratio: tuple[float, float], size: float, arm: float, names: list[str]
) -> None:
    data = copy.deepcopy(GOOD)
    data["body"].update(mass_kg=mass, inertia_kg_m2=[size, size * ratio[0], size * min(ratio[1], ratio[0] + 0.99)])
    for rotor, name in zip(data["rotors"], names):
        rotor.update(name=name, position_m=[arm, -arm, 0.0])
    robot = schema.load(Quadrotor, data, "here")
    again = schema.load(Quadrotor, yaml.safe_load(yaml.safe_dump(schema.to_data(robot))), "there")
    assert again == robot
    assert robot.rotor_names == tuple(names)


@settings(deadline=None)
@given(
    start=st.floats(0.0, 2.0),
    slopes=st.tuples(st.floats(1e-5, 1e-2), st.floats(1e-5, 1e-2)),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
)
def test_a_fit_that_is_negative_at_rest_holds_from_its_least_speed_on(
    start: float, slopes: tuple[float, float], shares: list[float]
) -> None:
    # Any parabola that rises from ``start`` N at 400 rad/s: the slope goes from one value to another up to 3000 rad/s.
    low, high = 400.0, 3000.0
    c2 = (slopes[1] - slopes[0]) / (2.0 * (high - low))
    c1 = slopes[0] - 2.0 * c2 * low
    model = RotorModel(
        speed_min_rad_s=low,
        speed_max_rad_s=high,
        thrust_coefficients=(start - low * (c1 + low * c2) + 1e-9, c1, c2),
        torque_per_thrust_m=0.01,
        rise_time_constant_s=0.1,
        fall_time_constant_s=0.1,
        radius_m=0.02,
    )
    speeds = low + np.array(shares) * (high - low)
    np.testing.assert_allclose(model.speed_for_thrust(model.thrust(speeds)), speeds, rtol=1e-4)
    assert model.speed_for_thrust(np.array(1e9)) == high
    assert model.speed_for_thrust(np.array(-1.0)) == low
    assert np.all(model.thrust(np.linspace(0.0, high, 50)) >= 0.0)


@settings(deadline=None)
@given(
    c1=st.floats(0.0, 1e-3),
    c2=st.floats(1e-9, 1e-4),
    speeds=st.lists(st.floats(100.0, 2000.0), min_size=1, max_size=6),
)
def test_speed_for_thrust_undoes_thrust(c1: float, c2: float, speeds: list[float]) -> None:
    model = RotorModel(
        speed_min_rad_s=0.0,
        speed_max_rad_s=2500.0,
        thrust_coefficients=(0.01, c1, c2),
        torque_per_thrust_m=0.01,
        rise_time_constant_s=0.1,
        fall_time_constant_s=0.1,
        radius_m=0.02,
    )
    np.testing.assert_allclose(model.speed_for_thrust(model.thrust(np.array(speeds))), speeds, rtol=1e-6)
    assert model.speed_for_thrust(np.array(1e9)) == 2500.0
    assert model.speed_for_thrust(np.array(-1.0)) == 0.0


def leaves(data: object, at: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Yield the path to every number in plain data."""
    if isinstance(data, (dict, list)):
        for key, item in data.items() if isinstance(data, dict) else enumerate(data):
            yield from leaves(item, (*at, key))
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield at


BEYOND = (1e308, -1e308, 1e15, 1e400, math.nan, 10**400)


@pytest.mark.parametrize("name", ["crazyflie", "turtlebot3_burger", "panda", "go1"])
def test_no_robot_has_a_number_beyond_this_world(name: str) -> None:
    data = yaml.safe_load(robot_files()[name].read_text())
    kind = find_kind(data["kind"]).load("spec")
    for turn, path in enumerate(leaves(data)):
        for number in BEYOND if name == "crazyflie" else (BEYOND[turn % len(BEYOND)],):
            changed = copy.deepcopy(data)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = number
            with pytest.raises(UserError, match=r"mine\.yaml: "):
                schema.load(kind, changed, "mine.yaml")


def test_a_rate_loop_must_leave_room_below_the_limit_of_the_guard(tmp_path: Path) -> None:
    loop = {
        "time_constant_s": 0.03,
        "yaw_time_constant_s": 0.08,
        "rates_max_rad_s": [6.0, 6.0, 20.0],
        "rate_change_rad_s2": 600.0,
        "thrust_change_m_s3": 1000.0,
    }
    message = refused(tmp_path, lambda data: data.update(rate_loop=loop))
    assert (
        "rates_max_rad_s: [6.0, 6.0, 20.0] is not allowed: must be below limits.angular_velocity_rad_s (20" in message
    )

"""The guard's limits as ROS parameters, before and during a flight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_srvs.srv import SetBool

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.guard import GuardNode
from rlstack.robots import load_robot
from tests.support.guarded import Flight
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", ["crazyflie", "turtlebot3_burger", "panda", "go1"])
def test_the_limits_in_force_are_what_tools_read(listener: Listener, name: str) -> None:
    node = GuardNode({"robot": name}, context=listener.context)
    try:
        node.start()
        own = type(node.guard.config).limits_of(load_robot(name))
        assert own
        for limit, value in own.items():
            if node.has_parameter(limit):
                shown = node.get_parameter(limit).value
                assert (tuple(shown) if isinstance(value, tuple) else shown) == value, limit
        assert node.describe_parameter("recover_after_s").read_only
        node.on_cleanup(None)
        node.on_configure(None)  # what was shown is not taken for what was asked for
        assert node.failure is None
    finally:
        node.stop()
        node.destroy_node()


def test_a_params_file_for_a_group_tightens_limits(listener: Listener, tmp_path: Path) -> None:
    group = tmp_path / "group.yaml"
    group.write_text(
        "/**:\n  ros__parameters:\n    tilt_rad: 0.5\n    exposure: 3\n"
        "/lab/guard:\n  ros__parameters:\n    geofence_max_m: [1.0, 1.0, 1.5]\n"
    )
    given = ["--ros-args", "--params-file", str(group)]
    node = GuardNode(namespace="/lab", context=listener.context, cli_args=given)
    try:
        node.start()
        assert node.guard.config.tilt_rad == 0.5 and node.guard.config.geofence_max_m == (1.0, 1.0, 1.5)
        assert list(node.get_parameter("geofence_max_m").value) == [1.0, 1.0, 1.5]
    finally:
        node.stop()
        node.destroy_node()
    group.write_text("/**:\n  ros__parameters:\n    tilt_rad: 2.0\n")
    wide = GuardNode(context=listener.context, cli_args=given)
    try:
        with pytest.raises(UserError, match=r"tilt_rad: 2\.0 is wider than robot 'crazyflie' allows"):
            wide.start()
    finally:
        wide.destroy_node()


def test_parameters_of_other_kinds_in_a_shared_file_are_ignored_and_said(
    listener: Listener, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    group = tmp_path / "group.yaml"
    group.write_text(
        "/**:\n  ros__parameters: {takeoff_height_m: 2.0, tool_velocity_m_s: 9.0, linear_velocity_m_s: 0.1}\n"
        "/lab/guard:\n  ros__parameters: {clearence_m: 0.1}\n"
    )
    given = ["--ros-args", "--params-file", str(group)]
    node = GuardNode({"robot": "turtlebot3_burger"}, namespace="/lab", context=listener.context, cli_args=given)
    try:
        node.start()
        assert node.guard.config.linear_velocity_m_s == 0.1
        assert not node.has_parameter("takeoff_height_m") and node.has_parameter("linear_jerk_m_s3")
        node.on_cleanup(None)
        node.on_configure(None)
        assert node.failure is None
    finally:
        node.stop()
        node.destroy_node()
    said = capfd.readouterr().err
    ignored = "Ignored parameters: tool_velocity_m_s, takeoff_height_m (the guard of turtlebot3_burger, a wheeled_base,"
    assert ignored in said
    assert "The parameter 'clearence_m' is ignored: this node has none of that name. Nearest: clearance_m" in said


@pytest.fixture
def flight(listener: Listener) -> Iterator[Flight]:
    made = Flight(listener)
    yield made
    made.close()


def test_parameters_set_in_flight_are_taken_or_refused_and_never_end_it(flight: Flight, listener: Listener) -> None:
    guard = flight.guard.guard
    listener.until(lambda: guard.in_a_row > 20, "observations", 20.0)
    assert listener.call(SetBool, topics.ARM, SetBool.Request(data=True)).success
    listener.until(lambda: str(guard.mode) == "policy", "the policy's flight", 20.0)

    def put(name: str, **value: Any) -> Any:
        number = ParameterValue(**value)
        request = SetParameters.Request(parameters=[Parameter(name=name, value=number)])
        (result,) = listener.call(SetParameters, "guard/set_parameters", request).results
        return result

    double, text = ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_STRING
    for tilt_rad in (0.6, 0.7):
        assert put("tilt_rad", type=double, double_value=tilt_rad).successful and guard.config.tilt_rad == tilt_rad
        assert flight.guard.get_parameter("tilt_rad").value == tilt_rad
    corner = [2.0, 2.0, 2.0]
    assert put("geofence_max_m", type=ParameterType.PARAMETER_DOUBLE_ARRAY, double_array_value=corner).successful
    assert guard.config.geofence_max_m == (2.0, 2.0, 2.0)
    for name, value, words in (
        (
            "tilt_rad",
            {"type": double, "double_value": 1.3},
            "1.3 is wider than the 1.2 that the guard was started with",
        ),
        ("tilt_rad", {"type": double, "double_value": float("nan")}, "must be a finite number"),
        ("tilt_rad", {"type": double, "double_value": -1.0}, "between 0 and 3.15"),
        ("tilt_rad", {"type": text, "string_value": "much"}, "must be a number"),
        ("geofence_max_m", {"type": double, "double_value": 1.0}, "must be a list"),
        ("rotor_acceleration_rad_s2", {"type": double, "double_value": 1.0}, "read-only"),
        ("hold_before_parking_s", {"type": double, "double_value": 1.0}, "declared"),  # an arm's
        ("robot", {"type": text, "string_value": "panda"}, "read-only"),
        ("policy_timeout_s", {"type": double, "double_value": 1e9}, "600"),
        ("no_such_limit", {"type": double, "double_value": 1.0}, "declared"),
    ):
        refused = put(name, **value)
        assert not refused.successful and words in refused.reason, (name, refused.reason)
    flight.tilt_rad = 0.4
    listener.until(lambda: guard._seen.tilt_rad > 0.3, "the tilt", 20.0)
    assert put("tilt_rad", type=double, double_value=0.2).successful  # below where it is: it is turned back
    listener.until(lambda: str(flight.guard._shown.mode) == "return", "the turn-back", 20.0)
    assert "over 0.20 rad, which was set in flight" in guard.reason and guard.interventions == 1
    flight.tilt_rad = 0.0
    listener.until(lambda: str(guard.mode) == "policy", "the policy's flight", 20.0)

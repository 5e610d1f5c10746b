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
        assert node.describe_parameter("staleness_s").read_only
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
    assert put("tilt_rad", type=double, double_value=0.6).successful and guard.config.tilt_rad == 0.6
    assert flight.guard.get_parameter("tilt_rad").value == 0.6
    for name, value, words in (
        ("tilt_rad", {"type": double, "double_value": 0.7}, "wider than the limit in force (0.6)"),
        ("tilt_rad", {"type": double, "double_value": float("nan")}, "wider than the limit in force (0.6)"),
        ("tilt_rad", {"type": double, "double_value": -1.0}, "between 0 and 3.15"),
        ("tilt_rad", {"type": text, "string_value": "much"}, "must be a number"),
        ("geofence_max_m", {"type": double, "double_value": 1.0}, "read-only"),
        ("robot", {"type": text, "string_value": "panda"}, "read-only"),
        ("policy_timeout_s", {"type": double, "double_value": 1e9}, "600"),
        ("no_such_limit", {"type": double, "double_value": 1.0}, "declared"),
    ):
        refused = put(name, **value)
        assert not refused.successful and words in refused.reason, (name, refused.reason)
    flight.tilt_rad = 0.4
    listener.until(lambda: guard._seen.tilt_rad > 0.3, "the tilt", 20.0)
    refused = put("tilt_rad", type=double, double_value=0.2)
    assert not refused.successful and "the robot is beyond that limit now (tilt 0.40 rad" in refused.reason
    listener.spin(0.3)
    assert str(guard.mode) == "policy" and guard.interventions == 0 and guard.config.tilt_rad == 0.6

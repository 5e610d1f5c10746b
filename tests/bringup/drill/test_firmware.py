from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rlstack.bringup.drill.faults import FAULTS
from rlstack.bringup.drill.firmware import FAILSAFE_S, firmware_faults, is_down


def flown(*heights_m: float) -> Any:
    return SimpleNamespace(heights=[(float(k), height) for k, height in enumerate(heights_m)])


def test_an_airframe_is_down_by_its_own_pose_whatever_the_robot_node_says():
    assert is_down(flown(1.3, 0.6, 0.04)) == ""
    assert "1.30 m high" in is_down(flown(0.0, 1.3))
    assert "nan" in is_down(flown())


def test_faults_that_leave_the_autopilot_alone_are_watched_until_its_failsafe_has_stopped_the_motors():
    by_name = {fault.name: fault for fault in firmware_faults(FAULTS)}
    assert set(by_name) == {*(fault.name for fault in FAULTS), "robot_frozen"}
    for name in ("robot_frozen", "robot_killed"):
        assert by_name[name].watch_s == FAILSAFE_S and by_name[name].answer == "robot gone"
        assert "high" in by_name[name].check(flown(1.3))

from __future__ import annotations

from dataclasses import replace

from rlstack.bringup.robot_commands.robot_state import RobotState, describe

WELL = RobotState(
    robot="crazyflie",
    kind="quadrotor",
    mode="policy",
    reason="at the take-off height",
    armed=True,
    interventions=0,
    observations={"topic": "odom", "rate_hz": 99.96, "age_s": 0.0021},
    battery={"voltage_v": 3.912, "percentage": 0.8},
    policy={"policy": "quadrotor_hover", "sha256": "3f2a"},
    goal=(0.5, 1.0, 1.2),
    distance_m=0.0023,
    reached=True,
)


def test_a_robots_state_as_lines() -> None:
    assert describe("/fleet/cf1", WELL).splitlines() == [
        "fleet/cf1 (crazyflie, quadrotor)",
        "  mode           policy: at the take-off height",
        "  armed          yes",
        "  interventions  0",
        "  observations   odom 100.0 Hz, 2 ms old",
        "  battery        3.91 V, 80%",
        "  policy         quadrotor_hover, sha256 3f2a",
        "  goal           0.50 1.00 1.20 m, 0.002 m away, reached",
    ]


def test_what_is_wrong_is_listed_and_makes_the_robot_unwell() -> None:
    assert WELL.is_well and replace(WELL, mode="disarmed").is_well
    two = replace(WELL, publishers={"cmd/rotors": ["/cf1/guard", "/cf1/other"]})
    assert "  publishers     cmd/rotors has 2: /cf1/guard, /cf1/other" in describe("/cf1", two) and not two.is_well
    bad = replace(WELL, malformed={"guard: /cf1/odom": 3}, warnings={"guard": "the policy gave no answer"})
    assert "  malformed      3 on guard: /cf1/odom" in describe("/cf1", bad) and not bad.is_well
    assert "  warning        guard: the policy gave no answer" in describe("/cf1", bad)
    assert not replace(WELL, mode="estop").is_well
    assert not RobotState().is_well and "unknown: its guard says nothing" in describe("/cf1", RobotState())

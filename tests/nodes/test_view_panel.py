from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.nodes.view_panel import RobotPanel, state_html


def robot(**more: Any) -> Any:
    usual = {
        "mode": "policy",
        "reason": "armed",
        "distance_m": 0.25,
        "reached": False,
        "command": {"m1": 1000.0, "m2": 500.0},
        "missing": [],
        "seen_at": 99.5,
        "delays": {},
        "joint_ranges": lambda: [],
        "pushable": False,
        "mass_kg": 0.03,
    }
    return SimpleNamespace(**{**usual, **more})


def test_it_shows_mode_reason_distance_and_commands() -> None:
    shown = state_html(robot(), 100.0)
    assert ">policy</span>" in shown and "armed" in shown and "0.250 m from the goal" in shown
    assert "width:100%;height" in shown and "width:50%;height" in shown
    assert "silent" not in shown and "reached" not in shown


def test_a_robot_that_is_not_heard_any_more_is_silent() -> None:
    assert "silent" in state_html(robot(), 101.0)


def test_nothing_that_others_send_becomes_part_of_the_page() -> None:
    shown = state_html(robot(mode="<b>", reason="<script>", command={"<i>": 1.0}, missing=["<u>"]), 100.0)
    assert not any(tag in shown for tag in ("<b>", "<script>", "<i>", "<u>"))


def test_without_goal_commands_and_guard_there_is_little_to_say() -> None:
    shown = state_html(robot(mode="", reason="", distance_m=float("nan"), command={}), 100.0)
    assert "no guard" in shown and "goal" not in shown


def test_commands_that_are_no_numbers_are_left_out() -> None:
    shown = state_html(robot(command={"m1": float("nan"), "m2": float("inf"), "m3": 5.0}), 100.0)
    assert "m3" in shown and "m1" not in shown and "m2" not in shown
    assert "m1" not in state_html(robot(command={"m1": float("nan")}), 100.0)


def test_joints_are_shown_between_their_limits_and_delays_by_name() -> None:
    ranges = [("elbow", 0.0, -1.0, 3.0), ("<i>", 2.99, -1.0, 3.0)]
    shown = state_html(robot(joint_ranges=lambda: ranges, delays={"commands": 1.234}), 100.0)
    assert "left:calc(25% - 2px)" in shown and "elbow" in shown and ">0.00<" in shown
    assert shown.count("#e03131") == 1 and "<i>" not in shown  # the second is near its limit
    assert "commands 1.2 ms" in shown


def test_a_push_is_a_share_of_the_weight_and_comes_with_a_simulators_topic() -> None:
    viser = pytest.importorskip("viser")
    pushed: list[Any] = []
    commands: Any = SimpleNamespace(push=lambda *what: pushed.append(what))
    viewed = robot(name="cf", space="/cf", cameras=[], instructed=False)
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    try:
        panel = RobotPanel(server.gui, viewed, commands)
        panel.draw()
        assert not server.gui._gui_input_handle_from_uuid
        viewed.pushable = True
        panel.draw()
        panel.draw()
        handles = {part.label: part for part in server.gui._gui_input_handle_from_uuid.values()}
        assert list(handles) == ["Share of weight", "Towards", "Pushes"]
        handles["Share of weight"].value, handles["Towards"].value = 0.5, "-y"
        (clicked,) = handles["Pushes"]._impl.update_cb
        clicked(SimpleNamespace(target=SimpleNamespace(value="Gust")))
        ((who, force, for_s),) = pushed
        assert who is viewed and for_s == 2.0 and force == pytest.approx((0.0, -0.5 * 0.03 * 9.81, 0.0))
    finally:
        server.stop()


def test_buttons_come_with_their_services_and_images_are_sent_while_somebody_looks() -> None:
    viser = pytest.importorskip("viser")
    watched: list[str] = []

    def watch(camera: str, callback: Any) -> Any:
        watched.append(camera)
        return lambda: watched.remove(camera)

    asked: list[tuple[Any, ...]] = []
    viewed = robot(name="cf", space="/cf", cameras=["front"], instructed=False, watch=watch)
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    try:
        panel = RobotPanel(server.gui, viewed, SimpleNamespace(ask=lambda *what: asked.append(what)))  # type: ignore[arg-type]

        def labels() -> list[str]:
            return [part.label for part in server.gui._gui_input_handle_from_uuid.values()]

        panel.offer({"/other/estop", "/cf/odom"})
        assert labels() == []
        panel.offer({"/cf/estop"})  # it was described before its guard was there
        panel.offer({"/cf/estop", "/cf/reset"})
        panel.draw()
        assert labels() == ["Emergency stop", "Guard", "Reset", "Camera front"]
        box = list(server.gui._gui_input_handle_from_uuid.values())[-1]
        box.value = True
        panel.draw()
        assert watched == ["front"]
        panel.rest()
        assert watched == []
        panel.draw()
        assert watched == ["front"]
        box.value = False
        panel.draw()
        assert watched == []
    finally:
        server.stop()

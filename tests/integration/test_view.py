"""The browser view in a real browser, beside nodes that publish what a robot's do."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.robots import load_robot
from rlstack.robots.urdf import to_urdf
from rlstack.view.server import ViewServer
from tests.support.ros import Listener, NodeProcess, nodes

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SOFTWARE = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]

pytestmark = [pytest.mark.integration, pytest.mark.skipif(BROWSER is None, reason="this machine has no Chromium")]


@pytest.fixture
def page() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=SOFTWARE)
        yield browser.new_page(viewport={"width": 800, "height": 600})
        browser.close()


class Robot:
    """Publishes what a quadrotor's nodes do, and answers their services."""

    def __init__(self, node: Any) -> None:
        from std_srvs.srv import SetBool, Trigger

        self.called: list[tuple[str, Any]] = []
        self.goals: list[Any] = []

        def publisher(topic: str, use: topics.Quality) -> Any:
            return node.create_publisher(topics.type_of(topic), f"/cf/{topic}", topics.quality(use))

        def answer(name: str) -> Any:
            def callback(request: Any, response: Any) -> Any:
                self.called.append((name, getattr(request, "data", None)))
                response.success, response.message = True, f"{name} done"
                return response

            return callback

        self._odom, self._kept = publisher(topics.ODOM, "sensor_out"), []
        latched = [
            (topics.ROBOT_DESCRIPTION, to_urdf(load_robot("crazyflie"))),
            (topics.GUARD_REASON, "a reason of its own"),
            (topics.GUARD_MODE, "policy"),
        ]
        for topic, data in latched:
            self._kept.append(publisher(topic, "latched"))
            self._kept[-1].publish(topics.type_of(topic)(data=data))
        goal = topics.type_of(topics.GOAL_ACTIVE)()
        goal.pose.position.z, goal.pose.orientation.w = 1.2, 1.0
        goal.header.frame_id = "odom"
        self._kept.append(publisher(topics.GOAL_ACTIVE, "latched"))
        self._kept[-1].publish(goal)
        node.create_service(Trigger, f"/cf/{topics.ESTOP}", answer(topics.ESTOP))
        node.create_service(SetBool, f"/cf/{topics.ARM}", answer(topics.ARM))
        node.create_subscription(
            topics.type_of(topics.GOAL), f"/cf/{topics.GOAL}", self.goals.append, topics.quality("command")
        )

    def move(self, x: float) -> None:
        message = topics.type_of(topics.ODOM)()
        message.pose.pose.position.x, message.pose.pose.position.z = x, 1.0
        message.pose.pose.orientation.w = 1.0
        self._odom.publish(message)


def test_a_robot_moves_in_the_browser_which_stops_and_arms_it(listener: Listener, page: Any) -> None:
    robot = Robot(listener.node)
    with nodes(NodeProcess("view", port=18180)) as processes:
        view = processes["view"]
        listener.until(lambda: "Open http" in view.output, "the address")
        page.goto(view.output.partition("Open ")[2].split()[0])

        def seen(what: str) -> bool:
            robot.move(0.0)
            return page.get_by_text(what).count() > 0

        listener.until(lambda: seen("a reason of its own"), "the guard's reason")
        listener.until(lambda: seen("a reason of its own") and not page.get_by_text("silent").count(), "odometry")

        def picture() -> Any:
            from io import BytesIO

            from PIL import Image

            clip = {"x": 0, "y": 200, "width": 500, "height": 400}
            return np.asarray(
                Image.open(BytesIO(page.screenshot(clip=clip, timeout=90_000))).convert("RGB"), dtype=float
            )

        before = picture()

        def moved() -> bool:
            robot.move(0.15)
            return bool(np.abs(picture() - before).max(axis=2).__gt__(40).sum() > 50)

        listener.until(moved, "the robot at another place")
        page.get_by_text("Emergency stop").click()
        listener.until(lambda: (topics.ESTOP, None) in robot.called, "the emergency stop")
        page.get_by_text("Arm", exact=True).click()
        listener.until(lambda: (topics.ARM, True) in robot.called, "arming")
        listener.until(lambda: page.get_by_text("arm done").count() > 0, "its answer")


def test_a_browser_without_webgl_has_the_panel(page: Any) -> None:
    server = ViewServer(port=18190)
    button = server.viser.gui.add_button("A button")
    pressed: list[Any] = []
    button.on_click(pressed.append)
    browser = page.context.browser.browser_type.launch(
        executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-3d-apis"]
    )
    try:
        blind = browser.new_page()
        blind.goto(server.url)
        blind.get_by_text("A button").click(timeout=60_000)
        deadline = time.monotonic() + 30.0
        while not pressed and time.monotonic() < deadline:
            blind.wait_for_timeout(50)
        assert pressed and blind.get_by_text("has no WebGL").count() == 1
    finally:
        browser.close()
        server.close()

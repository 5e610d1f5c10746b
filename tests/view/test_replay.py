from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import viser

from rlstack.view.recording import ReplayedTrial
from rlstack.view.replay import ReplayScene, replay_page
from tests.view.test_film import recording


@pytest.fixture(scope="module")
def scene() -> Iterator[Any]:
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield server.scene
    server.stop()


def test_one_trial_is_shown_at_a_time_from_its_start_to_its_end(scene: Any) -> None:
    trials = [ReplayedTrial("Best", (recording(),)), ReplayedTrial("Worst", (recording(success=False),))]
    shown = ReplayScene(scene, trials)
    robot, trail = (scene.get_handle_by_name(f"/replay/0/0/{name}") for name in ("robot", "trail50"))
    shown.show(0, 99.0)
    assert robot.position[0] == pytest.approx(1.0) and trail.visible
    assert scene.get_handle_by_name("/replay/0/0/robot/ending").visible
    shown.show(1, 0.0)
    assert not scene.get_handle_by_name("/replay/0").visible and scene.get_handle_by_name("/replay/1").visible
    shown.show(0, 0.0)
    assert np.allclose(robot.position, [0.0, 0.0, 1.0]) and not trail.visible


def test_a_page_needs_nothing_from_elsewhere() -> None:
    page = replay_page([ReplayedTrial("Best", (recording(),))], rate_hz=5.0)
    assert "__VISER_EMBED_DATA__" in page and 500_000 < len(page) < 1_500_000
    assert 'src="http' not in page and 'href="http' not in page

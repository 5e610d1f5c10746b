"""A human intervenes in learning over topics: whoever publishes teleop/twist and teleop/intervene leads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.teleop import teleop_device
from rlstack.data.replay import ReplayReader
from rlstack.interfaces import topics
from rlstack.interfaces.topics import INTERVENE, TELEOP_TWIST, TELEOP_TYPES
from rlstack.training import run
from rlstack.training.hindsight_replay import INTERVENTIONS
from rlstack.training.recipe import recipe_from_data
from tests.support.ros import PATIENCE_S, Listener

pytestmark = pytest.mark.integration

SETTINGS = {
    "task_settings": {"rewards": "sparse"},
    "algorithm_settings": {
        **{"hidden": [16], "batch": 16, "demonstrations": 1, "critics": 2, "updates": 0.1, "warm_up": 0, "rollout": 2},
        "intervener": {"kind": "hand", "teleop": "topic", "namespace": "arm"},
    },
}


@contextmanager
def repeated(what: object, period_s: float = 0.02) -> Iterator[None]:
    """Publish something all the time, beside what goes on."""
    over = threading.Event()

    def publish() -> None:
        while not over.wait(period_s):
            what()  # type: ignore[operator]

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_hand_on_topics_corrects_a_policy_that_learns(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run._Run, "_evaluate", lambda self: self.best.update(actor={}, rank=[], step=0, figures={}))
    monkeypatch.setattr(run._Run, "export", lambda self, path: path)
    twist_type, flag_type = (topics.message_type(TELEOP_TYPES[topic]) for topic in (TELEOP_TWIST, INTERVENE))
    twist = listener.node.create_publisher(twist_type, f"/arm/{TELEOP_TWIST}", topics.quality("command"))
    flag = listener.node.create_publisher(flag_type, f"/arm/{INTERVENE}", topics.quality("latched"))
    to_the_left = twist_type()
    to_the_left.twist.linear.y = 0.1  # of 0.4 m/s
    data = {"name": "led", "task": "arm_reach", "robot": "panda", "algorithm": "hil_serl", "steps": 100_000, "envs": 1}
    recipe = recipe_from_data({**data, "selection": {"episodes": 1, "after": 1.0}, **SETTINGS}, "it")
    led: list[int] = []
    begun = threading.Event()  # a twist alone leads, too, until somebody says intervene
    until = time.monotonic() + PATIENCE_S

    def watch(progress: run.Progress) -> None:
        """Take over after a while, and hand back; then end."""
        led.append(len(ReplayReader(tmp_path / "run" / INTERVENTIONS)))
        assert time.monotonic() < until, led
        if len(led) == 3:
            assert led[-1] == 0, "the policy acts until somebody takes over"
            flag.publish(flag_type(data=True))
            begun.set()
        if led[-1] >= 12:
            flag.publish(flag_type(data=False))
        if len(led) > 4 and led[-4] == led[-1] >= 12:
            raise KeyboardInterrupt

    with repeated(lambda: begun.is_set() and twist.publish(to_the_left)):
        result = run.start(recipe, tmp_path / "run", watch, teleop_device)
    assert not result.finished
    kept = ReplayReader(tmp_path / "run" / INTERVENTIONS)
    done = kept.gather(kept.indices())["action"]
    shares = np.unique(done.round(4), axis=0)
    assert 12 <= len(done) == led[-1] < result.steps
    assert {tuple(row) for row in shares.tolist()} <= {(0.0, 0.25, 0.0), (0.0, 0.0, 0.0)}, "it may have come late"
    assert (done[:, 1] == 0.25).mean() > 0.5

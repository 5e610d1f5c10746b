"""A path followed over real topics, and the same in the batch simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.flight import fly_over_topics
from rlstack.bringup.parallel import fly_in_parallel
from rlstack.evaluation.metrics import score
from rlstack.evaluation.rollout import rollout
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.tasks.criteria import Criteria
from tests.support.paths import circles
from tests.support.policies import write_tracking_policy

pytestmark = pytest.mark.integration

ROBOT = load_robot("crazyflie")
QUIET = replace(ROBOT, sensors={})
CRITERIA = Criteria(radius_m=0.3, from_s=1.0, to_s=4.0, duration_s=4.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    return write_tracking_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", ROBOT)


def test_a_path_is_followed_over_topics_as_in_the_batch_simulator(policy):
    flights = circles(ROBOT, 3).shifted(np.array([0.0, 0.0, 2.5]))
    topics = fly_over_topics(policy, flights, ROBOT, duration_s=4.0, seed=None)
    batch = rollout(load_policy(policy), flights, QUIET, 4.0)
    np.testing.assert_array_equal(topics.goal_position, batch.goal_position)
    assert topics.moving
    over, inside = score(topics, CRITERIA), score(batch, CRITERIA)
    assert over.success == inside.success == 1.0 and over.lost == over.interventions == 0
    assert 0.01 < inside.rmse_m < 0.2  # it follows, and is no better than it can be
    assert over.rmse_m == pytest.approx(inside.rmse_m, rel=0.02)
    assert np.linalg.norm(topics.position - batch.position, axis=-1).max() < 0.02
    # The first command is already on the new episode's path, at its beginning.
    np.testing.assert_allclose(topics.command[0], batch.command[0], rtol=1e-5, atol=1e-2)


def test_paths_do_not_depend_on_the_workers_nor_on_the_episode_before(policy):
    flights = circles(ROBOT, 3).shifted(np.array([0.0, 0.0, 2.5])).take(np.array([0, 2, 0]))
    one = fly_over_topics(policy, flights, ROBOT, duration_s=1.0, seed=None)
    np.testing.assert_array_equal(one.position[:, 0], one.position[:, 2])
    two = fly_in_parallel(policy, flights, ROBOT, duration_s=1.0, seed=None, workers=2)
    np.testing.assert_array_equal(one.position, two.position)
    np.testing.assert_array_equal(one.goal_position, two.goal_position)

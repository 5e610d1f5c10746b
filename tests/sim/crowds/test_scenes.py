"""Of :mod:`rlstack.sim.crowds.scenes`."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.sim.crowds.scenes import HALL_M, Hall, circle_crossing, halls
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH


def people_of(scenes):
    return scenes.people.reshape(len(scenes), -1, 5), scenes.persons.reshape(len(scenes), -1, PERSON_WIDTH)


def test_on_the_circle_everybody_is_apart_and_crosses():
    people, persons = people_of(circle_crossing(np.random.default_rng(0), 200))
    place = people[..., :2]
    away = np.linalg.norm(place, axis=2)
    assert (away > 4.0 - 0.71).all() and (away < 4.0 + 0.71).all()
    np.testing.assert_allclose(persons[..., PERSON["waypoints"]][..., :2], -place)
    for k in range(5):
        others = np.concatenate([place[:, :k], -place[:, :k], np.tile([[0.0, -4.0], [0.0, 4.0]], (200, 1, 1))], axis=1)
        assert np.linalg.norm(place[:, k : k + 1] - others, axis=2).min() >= 0.8 - 1e-5
    assert not persons[..., PERSON["sees_robot"]].any()


def test_halls_have_ways_room_at_the_start_and_as_many_people_as_asked_for():
    hall = Hall(walking=(3, 5), standing=(0, 2), sees_robot=0.5)
    scenes = halls(np.random.default_rng(1), 12, 8, hall, 0.2)
    people, persons = people_of(scenes)
    for floor, there, who in zip(scenes.maps, people, persons):
        straight = np.linalg.norm(floor.goal[:2] - floor.start[:2])
        assert 5.0 <= straight <= 6.0 and straight - 0.15 <= floor.shortest_m < 20.0
        assert floor.distance(np.stack([floor.start[:2], floor.goal[:2]])).min() > 0.4
        assert 8 <= len(floor.boxes) - 4 <= 12
        here = there[:, 2] > 0.1
        assert 3 <= here.sum() <= 7
        assert np.abs(there[here, :2]).max() < HALL_M - 0.25
        assert floor.distance(there[here, :2]).min() > 0.25
        assert np.linalg.norm(there[here, :2] - floor.start[:2], axis=1).min() > 0.45
        assert (np.abs(there[~here, :2]) > 100.0).any(axis=1).all()
        stands = here & (who[:, PERSON["stays"]][:, 0] > 0.5)
        assert stands.sum() <= 2
    share = persons[..., PERSON["sees_robot"]].sum() / (persons[..., PERSON["stays"]] < 0.5).sum()
    assert 0.2 < share < 0.8


def test_scenes_come_from_their_random_numbers_and_need_places():
    one, other = (halls(np.random.default_rng(5), 2, 11, Hall(), 0.2) for _ in range(2))
    np.testing.assert_array_equal(one.people, other.people)
    np.testing.assert_array_equal(one.maps[1].boxes, other.maps[1].boxes)
    with pytest.raises(UserError, match="6 slots are too few"):
        halls(np.random.default_rng(0), 1, 6, Hall(), 0.2)

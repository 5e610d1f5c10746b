from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession

from rlstack.control.navigation.grid_frontier import distances, grown
from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.grids.simulator import MOVES, allowed_moves
from rlstack.sim.grids.terrain import Floors, Terrain
from rlstack.tasks.catalog.base_exploration import ExplorationObservation, ExplorationTask
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.tasks.wheeled_base.exploration.environment import ExplorationEnvironment
from rlstack.tasks.wheeled_base.exploration.pipeline import ExplorationPipeline
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting

ROBOT = load_robot("turtlebot3_burger")


def environment(count: int = 16, **settings: object) -> ExplorationEnvironment:
    task = ExplorationTask(**settings)  # type: ignore[arg-type]
    return task.environment(ROBOT, task.pipeline(ROBOT), count, "cpu", 0)


def wandered(env: ExplorationEnvironment, steps: int, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    seen, _ = env.observe()
    for _ in range(steps):
        scores = torch.rand(env.count, len(MOVES), generator=generator) - 10.0 * seen[:, -4:]
        seen = env.step(scores).actor


def columns(env: ExplorationEnvironment, name: str) -> slice:
    term = next(term for term in env.pipeline.table() if term.name == name)
    return slice(term.start, term.start + term.size)


def test_the_observation_is_the_map_around_the_rover() -> None:
    env = environment()
    wandered(env, 25)
    seen = env.observe()[0].numpy()
    worlds, reach = env._worlds, env.task.observation.near
    near = seen[:, columns(env, "near")].reshape(env.count, 2, 2 * reach + 1, 2 * reach + 1)
    for n in range(env.count):
        row, column = divmod(int(worlds.cell[n]), worlds.columns)
        for down in range(-reach, reach + 1):
            for right in range(-reach, reach + 1):
                r, c = row + down, column + right
                inside = 0 <= r < worlds.rows and 0 <= c < worlds.columns
                known = worlds.map[n, r, c] if inside else 100.0
                assert near[n, :, down + reach, right + reach].tolist() == [known == -1.0, known == 100.0]
    far = seen[:, columns(env, "far")].reshape(env.count, 2, -1)
    # all that is unknown on the grid is within sight
    np.testing.assert_allclose(far[:, 0].sum(axis=1) * 3.0, (worlds.map < 0.0).sum(axis=(1, 2)), rtol=1e-5)


def test_the_way_is_that_of_a_search_over_the_map() -> None:
    env = environment(observation=ExplorationObservation(way_cells=12))
    wandered(env, 40)
    seen, worlds = env.observe()[0].numpy(), env._worlds
    unknown, free = worlds.map < 0.0, worlds.map == 0.0
    away = distances(free & grown(unknown, corners=True), free).reshape(env.count, -1)
    allowed = allowed_moves(free, worlds.cell)
    beside = np.where(allowed, worlds.cell[:, None] + np.array([x + 21 * y for x, y in MOVES]), 0)
    expected = np.where(allowed, np.maximum(12.0 - np.take_along_axis(away, beside, axis=1), 0.0) / 12.0, 0.0)
    way = seen[:, columns(env, "way")]
    np.testing.assert_allclose(way[:, :4], expected, atol=1e-6)
    np.testing.assert_array_equal(way[:, 4:] > 0, (expected > 0) & (expected == expected.max(axis=1, keepdims=True)))
    np.testing.assert_array_equal(seen[:, columns(env, "blocked")] > 0, ~allowed)


def on_rays(seen: np.ndarray, row: int, column: int) -> int:
    """Return the unknown cells on eight rays from a cell of a map, up to the first taken one."""
    count = 0
    for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
        r, c = row + down, column + right
        while 0 <= r < seen.shape[0] and 0 <= c < seen.shape[1] and seen[r, c] != 100.0:
            count += int(seen[r, c] < 0.0)
            r, c = r + down, c + right
    return count


def test_the_worth_is_that_of_the_frontiers_of_each_move() -> None:
    env = environment(observation=ExplorationObservation(worth=True))
    wandered(env, 30)
    seen, worlds = env.observe()[0].numpy()[:, columns(env, "worth")], env._worlds
    unknown, free = worlds.map < 0.0, worlds.map == 0.0
    allowed, told = allowed_moves(free, worlds.cell), 0
    for n in range(env.count):
        start = np.zeros((1, 21, 21), dtype=np.bool_)
        start.flat[worlds.cell[n]] = True
        away = distances(start, free[n : n + 1])[0]
        frontier = free[n] & grown(unknown[n : n + 1], corners=True)[0] & (away > 0) & (away < 32)
        gain = {cell: on_rays(worlds.map[n], *cell) for cell in map(tuple, np.argwhere(frontier))}
        worth, left = np.zeros(4), {}
        for k, (right, up) in enumerate(MOVES):
            if not allowed[n, k]:
                continue
            beside = np.zeros_like(start)
            beside.flat[worlds.cell[n] + right + 21 * up] = True
            left[k] = distances(beside, free[n : n + 1])[0]
            leads = [cell for cell in gain if left[k][cell] + 1 == away[cell]]  # by a shortest way
            worth[k] = max(((gain[cell] + 0.1) / away[cell] for cell in leads), default=0.0)
            for cell in leads:
                if np.isclose((gain[cell] + 0.1) / away[cell], worth[k]):
                    nearness, few = 1.0 - away[cell] / 32, min(gain[cell] / 40, 1.0)
                    told += int(np.allclose((seen[n, 8 + k], seen[n, 12 + k]), (nearness, few), atol=1e-5))
                    break
        best = worth.max()
        np.testing.assert_array_equal(seen[n, :4] > 0, (worth > 0) & np.isclose(worth, best))
        np.testing.assert_allclose(seen[n, 4:8], worth / max(best, 1e-6), atol=1e-5)
    assert told > 20  # of frontiers that are worth the same, another may be told


def test_a_policy_file_searches_as_training_does() -> None:
    env = environment(count=6, observation=ExplorationObservation(worth=True, way_cells=24))
    wandered(env, 25)
    inputs = signals(env)

    class Seen(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return env.pipeline.observe(env.pipeline.prepare(dict(zip(inputs, given)), {}), {})

    shapes = {"map": ("rows", "columns"), "map_resolution": (1,), "map_origin": (3,), "position": (3,)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = trace_to_onnx(Seen(), {name: shapes[name] for name in inputs}, {"seen": (env.pipeline.size,)})
    found = InferenceSession(graph.SerializeToString()).run(None, {k: v.numpy() for k, v in inputs.items()})[0]
    np.testing.assert_allclose(found, env.observe()[0].numpy(), atol=1e-6)


def signals(env: ExplorationEnvironment) -> dict[str, torch.Tensor]:
    return {k: torch.from_numpy(v.astype(np.float32)) for k, v in env.task.expedition.inputs(env._worlds).items()}


def test_the_command_is_the_middle_of_the_chosen_cell() -> None:
    env = environment()
    wandered(env, 10)
    pipeline, inputs = env.pipeline, signals(env)
    prepared = pipeline.prepare(inputs, pipeline.initial_memory(env.count))
    for k, (right, up) in enumerate(MOVES):
        scores = torch.zeros(env.count, 4)
        scores[:, k] = 1.0
        step = (pipeline.command(scores, prepared) - inputs["position"]) / env.task.expedition.cell_m
        np.testing.assert_allclose(step.numpy(), np.tile([right, up, 0.0], (env.count, 1)), atol=1e-4)


def test_after_seeing_nothing_new_for_long_it_goes_to_the_unknown() -> None:
    env = environment(observation=ExplorationObservation(patience=3))
    wandered(env, 10)
    pipeline, inputs = env.pipeline, signals(env)
    assert isinstance(pipeline, ExplorationPipeline)
    memory, taken = pipeline.initial_memory(env.count), []
    for _ in range(5):
        prepared = pipeline.prepare(inputs, memory)
        worst = -prepared["way"]  # who is asked to go away from the unknown
        taken.append(pipeline.command(worst, prepared))
        memory = pipeline.remember(prepared, memory, worst)
    best = pipeline.command(prepared["way"], prepared)
    differs = ~torch.isclose(taken[0], best).all(dim=1)
    assert differs.any()
    assert torch.equal(taken[2], taken[0])
    assert torch.equal(taken[3], best) and torch.equal(taken[4], best)
    inputs["map"][0, 20, 20] = 0.0 if inputs["map"][0, 20, 20] < 0.0 else -1.0
    memory["known"][0] -= 1.0  # something is new for one of them
    assert (pipeline.prepare(inputs, memory)["idle"][0] == 0.0).all()


def test_the_last_cells_are_seen_by_the_shortest_way() -> None:
    env = environment()
    wandered(env, 10)
    pipeline, inputs = env.pipeline, signals(env)
    assert isinstance(pipeline, ExplorationPipeline)
    prepared = pipeline.prepare(inputs, {})
    worst = -prepared["way"]
    late = {**prepared, "share": torch.where(prepared["share"] > prepared["share"].median(), 0.91, 0.89)}
    gone = (pipeline.command(worst, late) == pipeline.command(prepared["way"], prepared)).all(dim=1)
    assert gone[late["share"][:, 0] > 0.9].all() and not gone[late["share"][:, 0] < 0.9].all()
    cells = (inputs["map"] >= 0.0).flatten(1).float().mean(dim=1)
    torch.testing.assert_close(prepared["share"][:, 0], cells)


def test_the_map_may_be_of_any_size_and_the_robot_anywhere() -> None:
    pipeline = ExplorationTask().pipeline(ROBOT)
    for rows, columns_, place in ((2, 9, (50.0, 50.0)), (64, 3, (-50.0, 0.0)), (5, 5, (0.1, 0.1))):
        inputs = {
            "map": torch.zeros(1, rows, columns_),
            "map_resolution": torch.zeros(1, 1),  # which no map has
            "map_origin": torch.zeros(1, 3),
            "position": torch.tensor([[*place, 0.0]]),
        }
        prepared = pipeline.prepare(inputs, pipeline.initial_memory(1))
        assert pipeline.observe(prepared, {}).shape == (1, pipeline.size)
        low, high = pipeline.minimum, pipeline.maximum
        waypoint = pipeline.command(torch.zeros(1, 4), prepared)
        assert (waypoint >= low).all() and (waypoint <= high).all()


def test_new_cells_earn_and_the_end_restarts() -> None:
    env = environment(count=32, longest=30, short=5, short_share=0.25)
    reward = env.task.reward
    seen, done, timed_out = env.observe()[0], 0, 0
    for _ in range(60):
        before = env._worlds.known() / env._enough
        result = env.step(torch.rand(32, 4) - 10.0 * seen[:, -4:])
        going = ~result.done.numpy()
        after = env._worlds.known() / env._enough
        # the first cells are worth the most: the weight of each, between that of the last and of the first of them
        least, most = (env._enough * (after - before) * (1.0 + reward.early * (1.0 - s) ** 4) for s in (after, before))
        middle = env._enough * (after - before) * (1.0 + reward.early * (1.0 - 0.5 * (before + after)) ** 4)
        worth = (least + most + 4.0 * middle) / 6.0  # Simpson's rule
        expected = reward.new_cells * worth + reward.move
        np.testing.assert_allclose(result.reward.numpy()[going], expected[going], rtol=1e-3, atol=1e-4)
        done, timed_out = done + int(result.done.sum()), timed_out + int(result.timed_out.sum())
        assert not (result.terms["lost"] < 0).any()
        seen = result.actor
    assert done == timed_out
    assert 68 < done < 130  # in 60 steps there would be 64 of 30 each, or 384 of 5


def test_a_crash_is_a_loss() -> None:
    env = environment(count=4, wander=0)
    env.restart(torch.arange(4))
    against_x = torch.tensor([[0.0, 1.0, 0.0, 0.0]]).expand(4, 4)
    result = env.step(against_x)
    assert result.done.all() and not result.timed_out.any()
    assert (result.terms["lost"] == env.task.reward.lost).all()


def test_some_episodes_begin_elsewhere() -> None:
    env = environment(count=200, short=12, short_share=0.5, wander=6)
    env.restart(torch.arange(200))
    row, column = np.divmod(env._worlds.cell, 21)
    wandered_off, short = env._worlds.cell != 0, env._limit == 12
    assert short[wandered_off].all() and 60 < short.sum() < 140
    assert 0.5 < wandered_off[short].mean() < 1.0
    assert (row + column).max() <= 6 and (row + column).max() > 3
    assert not env._worlds.occupied[np.arange(200), env._worlds.cell].any()


def test_it_goes_on_exactly_from_its_state() -> None:
    one, other = environment(count=8), environment(count=8)
    wandered(one, 15, seed=1)
    other.load_state_dict(one.state_dict())
    wandered(one, 150, seed=2)
    wandered(other, 150, seed=2)
    np.testing.assert_array_equal(one._worlds.map, other._worlds.map)
    assert torch.equal(one.observe()[0], other.observe()[0])


def test_floors_are_explored_from_anywhere_in_them() -> None:
    expedition = ExplorationSetting(terrain=Terrain(side=32), floors=Floors(), range_cells=8, rays=24, cell_m=0.25)
    rng = np.random.default_rng(0)
    sites = expedition.training(rng, 24)
    rows = np.arange(24)
    assert not sites.occupied.reshape(24, -1)[rows, sites.start].any()
    assert len({start for start in sites.start.tolist()}) > 12
    assert sites.occupied[:, [0, -1]].all() and sites.occupied[:, :, [0, -1]].all()
    worlds = expedition.worlds(24)
    worlds.place(rows, sites.occupied, sites.start)
    for _ in range(60):
        worlds.move(np.where(worlds.allowed(), rng.random((24, 4)), -1.0).argmax(axis=1))
    assert (worlds.known() <= sites.total).all() and (sites.total <= 32 * 32).all()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UserError, match="cpu"):
        ExplorationTask().environment(ROBOT, ExplorationTask().pipeline(ROBOT), 2, "cuda", 0)
    with pytest.raises(ValueError, match="near"):
        ExplorationObservation(near=9, sight=8)
    with pytest.raises(UserError, match="gradients"):
        environment(count=2).rollout(4, 1.0)

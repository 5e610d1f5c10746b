"""Distances against the worlds' by formula and against sampled outlines; slopes against differences; kernels alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.fused import GRADIENT, Kernel, zeros
from rlstack.fused.devices import TEST_DEVICE
from rlstack.sim.batch_wheeled_base.clearance import circle_distance, clearance, distances
from rlstack.sim.batch_wheeled_base.layout import STATE
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.shapes import Shapes
from tests.sim.batch_wheeled_base import random_maps

DISCS = ((0.0, 0.0, 0.2), (0.25, -0.05, 0.12), (-0.2, 0.1, 0.15))
BOXES, CIRCLES, COUNT = 4, 3, 17


def drawn(seed: int, extent_m: float = 3.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    state = random_maps.states(rng, COUNT, extent_m)
    return {
        "position": state[STATE["position"]],
        "turn": state[STATE["turn"]],
        "boxes": random_maps.boxes(rng, BOXES, COUNT, extent_m, 1.5),
        "circles": random_maps.circles(rng, CIRCLES, COUNT, extent_m, 1.0),
    }


def by_shapes(given: dict[str, Any]) -> Any:
    """Return (obstacles, N) distances as the worlds of the engines know them."""
    given = {name: array.astype(float) for name, array in given.items()}
    found = np.empty((BOXES + CIRCLES, COUNT))
    for robot in range(COUNT):
        (x, y), (z, w) = given["position"][:, robot], given["turn"][:, robot]
        heading = 2.0 * np.arctan2(z, w)
        c, s = np.cos(heading), np.sin(heading)
        centres = np.array([(x + c * a - s * b, y + s * a + c * b, 0.0) for a, b, _ in DISCS])
        stands = [
            Obstacle(
                name="box",
                shape="box",
                size_m=(2.0 * b[4], 2.0 * b[5], 50.0),
                position_m=(b[0], b[1], 0.0),
                yaw_rad=float(np.arctan2(b[3], b[2])),
            )
            for b in given["boxes"][:, robot].reshape(BOXES, 6)
        ] + [
            Obstacle(name="pole", shape="cylinder", size_m=(2 * c[2], 2 * c[2], 50.0), position_m=(c[0], c[1], 0.0))
            for c in given["circles"][:, robot].reshape(CIRCLES, 5)
        ]
        for k, one in enumerate(stands):
            found[k, robot] = (Shapes([one]).distance(centres) - [r for _, _, r in DISCS]).min()
    return found


def all_of_it(position: Any, turn: Any, boxes: Any, circles: Any) -> dict[str, Any]:
    each = distances(position, turn, DISCS, boxes, circles)
    return {
        "each": each,
        "least": np.stack([clearance(position, turn, DISCS, boxes, circles)]),
    }


ROWS = {"position": 2, "turn": 2, "boxes": 6 * BOXES, "circles": 5 * CIRCLES}
FORWARD = Kernel(all_of_it, ROWS)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_kernels_and_plain_arrays_give_the_distances_of_the_worlds(seed: int) -> None:
    arrays = drawn(seed)
    wanted, plain = by_shapes(arrays), all_of_it(**{name: a.astype(float) for name, a in arrays.items()})
    results = {name: zeros(rows, COUNT) for name, rows in FORWARD.outputs.items()}
    FORWARD({**arrays, **results})
    for made in (plain, results):
        np.testing.assert_allclose(made["each"], wanted, atol=1e-5)
        np.testing.assert_allclose(made["least"][0], wanted.min(axis=0), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_those_of_differences(seed: int) -> None:
    arrays, wanted = drawn(seed), ("position", "turn", "circles")
    reverse = Kernel(all_of_it, ROWS, wanted, dtype="float64")
    arrays = {name: a.astype(float) for name, a in arrays.items()}
    rng = np.random.default_rng(seed)
    seeds = {GRADIENT + name: rng.normal(size=(k, COUNT)) for name, k in FORWARD.outputs.items()}
    found = {name: zeros(k, COUNT, dtype="float64") for name, k in reverse.outputs.items()}
    reverse({**arrays, **seeds, **found})

    def objective(changed: dict[str, Any]) -> Any:
        return sum((seeds[GRADIENT + name] * made).sum(axis=0) for name, made in all_of_it(**changed).items())

    for name in wanted:
        for row in range(len(arrays[name])):
            step = np.zeros_like(arrays[name])
            step[row] = 1e-6
            ahead, behind = ({**arrays, name: arrays[name] + way * step} for way in (1.0, -1.0))
            slope = (objective(ahead) - objective(behind)) / 2e-6
            assert np.mean(np.abs(slope - found[GRADIENT + name][row]) > 1e-4) < 0.1, (name, row)  # but at kinks


def test_slopes_are_finite_where_there_is_none() -> None:
    reverse = Kernel(all_of_it, ROWS, ("position", "turn", "boxes", "circles"))
    arrays = {name: zeros(rows, 6) for name, rows in {**reverse.inputs, **reverse.outputs}.items()}
    for name in reverse.inputs:
        if name.startswith(GRADIENT):
            arrays[name][:] = 1.0
    arrays["turn"][1] = 1.0
    for k in range(BOXES):
        arrays["boxes"][6 * k + 2] = 1.0
        arrays["boxes"][6 * k + 4 : 6 * k + 6] = 1.0
    arrays["circles"][2::5] = 0.5
    arrays["position"][:] = [[0.0, 1.0, 1.0, -1.0, 0.0, 1000.0], [0.0, 0.0, 1.0, -1.0, 0.5, 1000.0]]
    reverse(arrays)
    for name in reverse.outputs:
        assert np.isfinite(arrays[name]).all(), name


def test_inside_a_circle_the_way_out_is_away_from_its_centre() -> None:
    def gap(position: Any) -> dict[str, Any]:
        return {"gap": np.stack([circle_distance(*position, np.array([1.0, 0.0, 0.5, 0.0, 0.0]))])}

    reverse = Kernel(gap, {"position": 2}, ("position",))
    arrays = {name: zeros(rows, 1) for name, rows in {**reverse.inputs, **reverse.outputs}.items()}
    arrays["position"][:] = [[1.1], [0.0]]
    arrays[GRADIENT + "gap"][:] = 1.0
    reverse(arrays)
    np.testing.assert_allclose(arrays[GRADIENT + "position"][:, 0], [1.0, 0.0], atol=1e-6)


def test_the_text_for_cuda_gives_the_same() -> None:
    pytest.importorskip("warp")
    arrays = drawn(1)
    results = []
    for device in ("cpu", TEST_DEVICE):
        kernel = Kernel(all_of_it, ROWS, device=device)
        results.append({name: zeros(rows, COUNT) for name, rows in kernel.outputs.items()})
        kernel({**arrays, **results[-1]})
    for name in results[0]:
        np.testing.assert_allclose(results[0][name], results[1][name], atol=1e-5)

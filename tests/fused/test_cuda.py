"""The text for CUDA, run by Warp on the processor: the same numbers as the machine code of the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.fused import GRADIENT, Kernel, LoopKernel, check_device, zeros
from rlstack.fused.devices import TEST_DEVICE
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH, pack_parameters
from rlstack.sim.perturbation import Perturbation
from tests.fused.test_adjoint import function
from tests.fused.test_llvm_ir import everything
from tests.fused.test_loop_kernel import mixed, plainly

pytest.importorskip("warp")


def both(make: Any, arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what both kinds of code give."""
    results = []
    for device in ("cpu", TEST_DEVICE):
        kernel = make(device)
        count = arrays["x" if "x" in arrays else "state"].shape[1]
        results.append({name: zeros(rows, count) for name, rows in kernel.outputs.items()})
        kernel({**arrays, **results[-1]})
    return results[0], results[1]


def same(make: Any, arrays: dict[str, Any], tolerance: float) -> None:
    cpu, cuda = both(make, arrays)
    for name in cpu:
        size = np.abs(cpu[name]).max(axis=1, keepdims=True)
        assert (np.abs(cpu[name] - cuda[name]) <= tolerance * np.maximum(size, 1e-6)).all(), name
        assert cpu[name].any(), name


def random(seed: int = 0) -> Any:
    x = zeros(3, 101)
    x[:] = np.random.default_rng(seed).normal(size=x.shape)
    return x


def test_every_operation() -> None:
    same(lambda device: Kernel(everything, {"x": 3}, device=device), {"x": random()}, 1e-6)


def test_what_is_not_finite() -> None:
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 100.0, -100.0, 1e30]
    x = np.array(np.meshgrid(special, special, [1.0, np.nan]), np.float32).reshape(3, -1)
    with np.errstate(all="ignore"):
        cpu, cuda = both(lambda device: Kernel(everything, {"x": 3}, device=device), {"x": x})
    np.testing.assert_allclose(cuda["y"], cpu["y"], rtol=1e-6, atol=2e-38)


def test_constants() -> None:
    numbers = [0.1, -3.4028235e38, 1e39, -np.inf, np.nan, 1e-50, 1e-40]
    cpu, cuda = both(lambda d: Kernel(lambda x: {"y": numbers}, {"x": 3}, device=d), {"x": random()})
    np.testing.assert_array_equal(cuda["y"], cpu["y"])


def test_the_reverse_mode() -> None:
    arrays = {"x": random(), "p": random(1)[:1] + 3.0, GRADIENT + "y": random(2)[:2], GRADIENT + "z": random(3)}
    same(lambda device: Kernel(function, {"x": 3, "p": 1}, ("x", "p"), device), arrays, 3e-6)


@pytest.mark.parametrize("wanted", [None, ("state", "parameters", "command_0")])
def test_the_quadrotor(wanted: tuple[str, ...] | None) -> None:
    robot, count, rng = load_quadrotor("crazyflie"), 200, np.random.default_rng(0)
    model = QuadrotorModel(0.01, gyroscopic=True, max_delay_s=0.02)
    names = [f"command_{k}" for k in range(model.past_commands + 1)]

    def step(state: Any, parameters: Any, **commands: Any) -> dict[str, Any]:
        return {"next": advance(state, parameters, [commands[name] for name in names], model)}

    arrays = {"state": zeros(STATE_WIDTH, count), "parameters": zeros(PARAMETER_WIDTH, count)}
    arrays["state"][:] = rng.normal(size=(STATE_WIDTH, count))
    arrays["state"][STATE["elapsed"]] = 0.0
    arrays["parameters"][:] = pack_parameters(robot, Perturbation.none(count, 4)).T
    arrays["parameters"][-1] = rng.uniform(0, 0.02, count)
    arrays[GRADIENT + "next"] = zeros(STATE_WIDTH, count)
    arrays[GRADIENT + "next"][:] = rng.normal(size=(STATE_WIDTH, count))
    hover = robot.hover_speed_rad_s
    arrays["state"][STATE["rotor_speed"]] = hover * rng.uniform(0.8, 1.2, (4, count))
    for name in names:
        arrays[name] = zeros(4, count)
        arrays[name][:] = hover * rng.uniform(0.8, 1.2, (4, count))
    sizes = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, **dict.fromkeys(names, 4)}
    cpu, cuda = both(lambda device: Kernel(step, sizes, wanted, device), arrays)
    for name in cpu:
        size = np.abs(cpu[name]).max(axis=1, keepdims=True)
        assert (np.abs(cpu[name] - cuda[name]) <= 1e-4 * np.maximum(size, 1e-3)).all(), name


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_robots_and_prepared_launches(count: int) -> None:
    kernel = Kernel(lambda x: {"y": x + 1.0}, {"x": 2}, device=TEST_DEVICE)
    whole = np.full((2, count + 3), 7.0, np.float32)
    x = zeros(2, count)
    launch = kernel.prepare({"x": x, "y": whole[:, :count]})
    for value in (1.0, 2.0):
        x[:] = value
        launch()
        assert (whole[:, :count] == value + 1.0).all() and (whole[:, count:] == 7.0).all()


def test_warp_arrays_are_read() -> None:
    import warp as wp

    x = wp.array(np.arange(40, dtype=np.float32).reshape(2, 20), device="cpu")
    y = wp.zeros((2, 20), dtype=wp.float32, device="cpu")
    for device in ("cpu", TEST_DEVICE):
        Kernel(lambda x: {"y": x + 1.0}, {"x": 2}, device=device)({"x": x, "y": y})
        np.testing.assert_array_equal(y.numpy(), x.numpy() + 1.0)
    with pytest.raises(TypeError, match="'x' is an array of"):
        Kernel(lambda x: {"y": x}, {"x": 2})({"x": wp.zeros((2, 20), dtype=wp.float64, device="cpu"), "y": y})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Kernel(everything, {"x": 3}, device=TEST_DEVICE),
        lambda: LoopKernel(mixed, {"x": 2}, np.ones((3, 2)), {"v": 2}, device=TEST_DEVICE),
    ],
    ids=["kernel", "sweep"],
)
def test_it_compiles_for_a_gpu(make: Any, tmp_path: Path) -> None:
    import warp as wp

    kernel = make()
    compiled: Any = kernel._compiled
    made = wp.compile_aot_module(compiled._kernel.module, arch=90, module_dir=tmp_path)
    assert made and all(path.stat().st_size > 1000 for path in made)


def test_a_gpu_that_is_not_there() -> None:
    import warp as wp

    wp.init()
    there = [str(d) for d in wp.get_cuda_devices()]
    with pytest.raises(UserError, match=r"no device 'cuda:77' here: choose one of cpu"):
        Kernel(everything, {"x": 3}, device="cuda:77")
    if not there:
        with pytest.raises(UserError, match=r"no device 'cuda' here: choose one of cpu\."):
            check_device("cuda")


def test_without_warp_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstack.fused import cuda

    cuda.warp.cache_clear()
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[cuda\]'"):
        check_device("cuda:0")
    cuda.warp.cache_clear()


@pytest.mark.skipif("not __import__('torch').cuda.is_available()")
def test_on_a_gpu() -> None:
    import torch

    x = torch.randn(3, 5000, device="cuda:0")
    y = zeros(13, 5000, "cuda:0")
    with torch.cuda.stream(torch.cuda.Stream()):
        Kernel(everything, {"x": 3}, device="cuda:0")({"x": x, "y": y})
    torch.cuda.synchronize()
    wanted = zeros(13, 5000)
    Kernel(everything, {"x": 3})({"x": x.cpu(), "y": wanted})
    np.testing.assert_allclose(y.cpu().numpy(), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="'x' is on cpu; the kernel runs on cuda:0"):
        Kernel(everything, {"x": 3}, device="cuda:0")({"x": x.cpu(), "y": y})


@pytest.mark.skipif("not __import__('torch').cuda.is_available()")
def test_sweeps_on_a_gpu() -> None:
    import torch

    numbers = np.random.default_rng(0).normal(size=(5, 2))
    x, v = torch.randn(2, 5000, device="cuda:0"), torch.randn(10, 5000, device="cuda:0")
    sweep = LoopKernel(mixed, {"x": 2}, numbers, {"v": 2}, device="cuda:0")
    made = {name: zeros(rows, 5000, "cuda:0") for name, rows in sweep.outputs.items()}
    sweep({"x": x, "v": v, **made})
    torch.cuda.synchronize()
    for name, wanted in plainly(numbers, x.cpu().numpy(), v.cpu().numpy()).items():
        np.testing.assert_allclose(made[name].cpu().numpy(), wanted, rtol=1e-4, atol=1e-5, err_msg=name)

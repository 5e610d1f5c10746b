"""Kernels on arrays: any number of robots, any spacing of rows, and what is refused."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.fused import GRADIENT, Kernel, check_device, zeros
from rlstack.fused.llvm import host
from tests.support import docs


def swapped(x: Any, p: Any) -> dict[str, Any]:
    return {"y": np.stack([x[1] * p[0], x[0]]), "big": [x[0] > x[1]]}


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(swapped, {"x": 2, "p": 1})


def arrays_for(count: int, **given: Any) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    arrays = {"x": zeros(2, count), "p": zeros(1, count), "y": zeros(2, count), "big": zeros(1, count), **given}
    for name in ("x", "p"):
        arrays[name][:] = rng.normal(size=arrays[name].shape)
    return arrays


def check(arrays: dict[str, Any], count: int | None = None) -> None:
    x, p, y, big = (np.asarray(arrays[n])[:, :count] for n in ("x", "p", "y", "big"))
    np.testing.assert_allclose(y, np.stack([x[1] * p[0], x[0]]), rtol=1e-6)
    np.testing.assert_array_equal(big, (x[:1] > x[1:]).astype(np.float32))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 1000, 4096])
def test_any_number_of_robots(kernel: Kernel, count: int) -> None:
    arrays = arrays_for(count)
    kernel(arrays)
    check(arrays)


@pytest.mark.parametrize("count", [0, 1, 5, 16, 37, 50])
def test_the_first_robots_only(kernel: Kernel, count: int) -> None:
    arrays = arrays_for(50)
    arrays["y"][:], arrays["big"][:] = 7.0, 7.0
    kernel(arrays, count)
    check(arrays, count)
    assert (arrays["y"][:, count:] == 7.0).all() and (arrays["big"][:, count:] == 7.0).all()


@pytest.mark.parametrize("count", [3, 37])
def test_nothing_beside_the_robots_is_touched(kernel: Kernel, count: int) -> None:
    whole = np.full((5, count + 10), 7.0, np.float32)
    arrays = arrays_for(count, y=whole[1:5:2, 4 : 4 + count])
    kernel(arrays)
    check(arrays)
    arrays["y"][:] = 7.0
    assert (whole == 7.0).all()


@pytest.mark.parametrize("count", [5, 37])
def test_rows_may_lie_anyhow(kernel: Kernel, count: int) -> None:
    source = np.random.default_rng(0).normal(size=(4, count)).astype(np.float32)
    for x in (source[::2], source[::-1][:2], np.broadcast_to(source[:1], (2, count))):
        # a row may be there twice in an input
        arrays = {**arrays_for(count), "x": x}
        kernel(arrays)
        check(arrays)


@pytest.mark.parametrize("count", [1, 37])
def test_tensors_and_arrays_mix(kernel: Kernel, count: int) -> None:
    torch = pytest.importorskip("torch")
    arrays = arrays_for(count)
    mixed = {**arrays, "x": torch.from_numpy(arrays["x"]).requires_grad_(), "y": torch.zeros(2, count)}
    kernel(mixed)
    check({**arrays, "y": mixed["y"]})


def test_a_prepared_launch_sees_what_is_in_the_arrays(kernel: Kernel) -> None:
    for count in (3, 50):
        arrays = arrays_for(count)
        launch = kernel.prepare(arrays)
        for value in (1.0, 2.0):
            arrays["x"][:] = value
            launch()
            check(arrays)


def test_a_prepared_launch_keeps_its_arrays_and_its_code() -> None:
    def make() -> tuple[Any, Any]:
        kernel = Kernel(lambda x: {"y": x + 1.0}, {"x": 1})
        y = zeros(1, 100_000)
        return kernel.prepare({"x": np.ones((1, 100_000), np.float32), "y": y}), y

    launch, y = make()
    gc.collect()
    noise = [np.full((1, 100_000), 5.0, np.float32) for _ in range(5)]
    launch()
    assert (y == 2.0).all() and len(noise) == 5


def test_kernels_that_end_leave_the_others_alone() -> None:
    # a code generator that two shared was freed with the first
    kept = Kernel(lambda x: {"y": x + 0.5}, {"x": 1})
    for k in range(6):
        Kernel(lambda x, k=k: {"y": x + float(k)}, {"x": 1})
        gc.collect()
    last = Kernel(lambda x: {"y": x + 0.25}, {"x": 1})
    x, y = zeros(1, 20), zeros(1, 20)
    for kernel, value in ((kept, 0.5), (last, 0.25)):
        kernel({"x": x, "y": y})
        assert (y == value).all()


def test_threads_may_share_a_kernel(kernel: Kernel) -> None:
    sets = [arrays_for(1000 + k) for k in range(4)]

    def work(arrays: dict[str, Any]) -> None:
        for _ in range(200):
            kernel(arrays)

    threads = [threading.Thread(target=work, args=(arrays,)) for arrays in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for arrays in sets:
        check(arrays)


def test_many_sets_of_arrays_are_not_all_remembered(kernel: Kernel) -> None:
    kept = [arrays_for(20) for _ in range(300)]
    for arrays in kept:
        kernel(arrays)
        check(arrays)
    assert len(kernel._launches) <= 256


def test_a_function_without_inputs_or_rows() -> None:
    kernel = Kernel(lambda x: {"y": [1.0, np.float32(2.0), np.array(3.0)], "none": []}, {"x": 0})
    y = zeros(3, 20)
    kernel({"x": zeros(0, 20), "y": y, "none": zeros(0, 20)})
    assert (y == [[1.0], [2.0], [3.0]]).all()


def test_an_array_that_a_function_returns_stays_its_own() -> None:
    constant = np.array([1.0, 2.0], dtype=object)
    Kernel(lambda x: {"y": constant}, {"x": 1})
    assert constant.tolist() == [1.0, 2.0]


def test_wrong_arrays_are_refused(kernel: Kernel) -> None:
    good = arrays_for(40)
    for change, error, message in [
        ({"x": zeros(3, 40)}, ValueError, r"'x' has 3 rows; the function was compiled for 2"),
        ({"p": zeros(1, 41)}, ValueError, r"'p' is for 41 robots, 'x' for 40"),
        ({"x": np.zeros((2, 40))}, TypeError, r"'x' is an array of float64"),
        ({"y": np.zeros((40, 2), np.float32).T}, ValueError, r"'y' is an array whose robots are not side by side"),
        ({"y": good["x"]}, ValueError, r"'y' is written, and shares memory with 'x'"),
        ({"big": good["y"][1:]}, ValueError, r"'big' is written, and shares memory with 'y'"),
        ({"y": np.broadcast_to(zeros(1, 40), (2, 40))}, ValueError, r"'y' is written, and its rows share memory"),
        ({"p": None}, TypeError, r"'p' is a NoneType"),
    ]:
        for call in (kernel, kernel.prepare):
            with pytest.raises(error, match=message):
                call({**good, **change})
    del good["p"]
    for call in (kernel, kernel.prepare):
        with pytest.raises(KeyError, match=r"array 'p' is missing; needed: x, p, y, big"):
            call(good)


def test_halves_of_one_array_may_be_read_and_written(kernel: Kernel) -> None:
    whole = zeros(2, 80)
    whole[:, :40] = np.random.default_rng(0).normal(size=(2, 40))
    arrays = {**arrays_for(40), "x": whole[:, :40], "y": whole[:, 40:]}
    kernel(arrays)
    check(arrays)


@pytest.mark.parametrize("count", [-1, 41])
def test_more_robots_than_there_are_is_refused(kernel: Kernel, count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} robots were asked for; the arrays have 40"):
        kernel(arrays_for(40), count)


def test_an_output_needs_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"\['x'\] are inputs"):
        Kernel(lambda x: {"x": x}, {"x": 1})


def test_devices() -> None:
    assert check_device("cpu") == "cpu"
    with pytest.raises(UserError, match=r"no device 'tpu': choose cpu or cuda:0"):
        Kernel(swapped, {"x": 2, "p": 1}, device="tpu")


def test_without_llvmlite_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rlstack.fused.llvm", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[sim\]'"):
        Kernel(swapped, {"x": 2, "p": 1})


def test_the_pages_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    program, _ = docs.blocks("docs/fused.md", "python")  # the other: test_loop_kernel.py
    names: dict[str, Any] = {}
    exec(program, names)
    assert capsys.readouterr().out == "(3, 4096)\n"
    gradient = names["arrays"][GRADIENT + "command"]
    np.testing.assert_allclose(gradient[2], 1e-4, rtol=1e-6)


def test_the_host_has_lanes() -> None:
    assert host().lanes in (4, 8, 16)

"""What the generated code computes: exp and log over all floats, and the same on processors without AVX-512."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from rlstack.fused import Kernel, LoopKernel, clip, where, zeros
from rlstack.fused import llvm as backend
from rlstack.fused.expression import Scalar
from rlstack.fused.graph import Graph
from rlstack.fused.llvm_ir import IrWriter
from tests.fused.test_expression import one
from tests.fused.test_loop_kernel import mixed, plainly, swept

ALL_FLOATS = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
HOST = backend.host()
PROCESSORS = {
    "this one": HOST,
    "half of it": backend.Processor(HOST.name, HOST.features, max(HOST.lanes // 2, 4)),
    "x86-64": backend.Processor("x86-64", "", 4),
    "x86-64-v3": backend.Processor("x86-64-v3", "", 8),
}
FLAGS = llvm.get_host_cpu_features()


def runs_here(name: str) -> bool:
    if name == "x86-64-v3":
        return all(FLAGS.get(f) for f in ("avx2", "fma", "bmi2"))
    return name != "x86-64" or llvm.get_process_triple().startswith("x86_64")


@pytest.fixture(params=[name for name in PROCESSORS if runs_here(name)])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[backend.Processor]:
    chosen = PROCESSORS[request.param]
    monkeypatch.setattr(backend, "host", lambda: chosen)
    yield chosen


def units_off(got: Any, wanted: Any) -> Any:
    """Return by how many steps of float32 results are off."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.abs(np.float32(wanted))
        return np.abs(got - wanted) / np.spacing(np.maximum(single, np.float32(1.2e-38)))


@pytest.mark.usefixtures("processor")
def test_exp_is_right_to_two_units_for_all_floats() -> None:
    x = np.concatenate([ALL_FLOATS, np.linspace(-90, 90, 50_001, dtype=np.float32)])
    got = one(lambda x: [np.exp(np.array([x]))[0]], x)
    with np.errstate(all="ignore"):
        wanted = np.exp(x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    assert (got[wanted > 3.4028235e38] == np.inf).all()
    assert (got[x < -87.4] == 0.0).all()
    usual = (wanted > 1.8e-38) & (wanted < 3.4028e38)
    assert units_off(got[usual], wanted[usual]).max() <= 2.0
    assert (np.abs(got[(wanted <= 1.8e-38)]) <= 1.8e-38).all()


@pytest.mark.usefixtures("processor")
def test_log_is_right_to_two_units_for_all_floats() -> None:
    x = np.concatenate([ALL_FLOATS, np.linspace(0.5, 2, 50_001, dtype=np.float32), np.float32([0, -0.0, np.inf])])
    got = one(lambda x: [np.log(np.array([x]))[0]], x)
    with np.errstate(all="ignore"):
        wanted = np.log(x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    assert (got[x == 0.0] == -np.inf).all() and (got[x == np.inf] == np.inf).all()
    assert units_off(got[np.isfinite(wanted)], wanted[np.isfinite(wanted)]).max() <= 2.0


def test_the_limits_of_exp_and_log() -> None:
    x = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72, 88.73, -200.0, 1.0]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(one(lambda x: [x.exp()], x), np.exp(np.float32(x)), rtol=1e-6)
        np.testing.assert_allclose(one(lambda x: [x.log()], x), np.log(np.float32(x)), rtol=1e-6)
    ends = one(lambda x: [x.sigmoid()], [-100.0, 100.0, np.nan, -np.inf])
    np.testing.assert_allclose(ends, [0.0, 1.0, np.nan, 0.0], atol=1e-30)
    np.testing.assert_allclose(one(lambda x: [x.tanh()], [-100, 100, -1, 0]), [-1, 1, np.tanh(-1), 0], atol=1e-7)


@pytest.mark.usefixtures("processor")
def test_division_and_roots_at_their_limits() -> None:
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 4.0, 1e-38, 1e38])
    got = one(lambda x: [1.0 / x, x / 3.0, x.sqrt(), 2.0 / (x + 1.0), x / 0.0], x)
    with np.errstate(all="ignore"):
        wanted = [1 / x, x / 3, np.sqrt(x), 2 / (x + 1), x / np.float32(0.0)]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def everything(x: Any) -> dict[str, Any]:
    a, b, c = x
    values = [a + b, a - b, a * b, a / (b * b + 1.0), abs(a).sqrt(), a.exp(), (b * b + 1.0).log(), a.floor(), a.tanh()]
    holds = (a > b) & ~(b >= c) | (a == c)
    return {"y": [*values, clip(a, b, c), where(holds, a, b), holds, where(holds, 1.0, values[3]) * -c]}


def test_every_processor_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = zeros(3, 101)
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    results = []
    for name, chosen in PROCESSORS.items():
        if not runs_here(name):
            continue
        monkeypatch.setattr(backend, "host", lambda chosen=chosen: chosen)
        kernel = Kernel(everything, {"x": 3})
        results.append(zeros(kernel.outputs["y"], 101))
        kernel({"x": x, "y": results[-1]})
    assert len(results) > 1
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=3e-6, atol=1e-6)


def test_code_for_arm_uses_its_vector_registers() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this build of LLVM knows no other processor")
    graph = Graph()
    rows = np.array([Scalar(graph, graph.input("x", row)) for row in range(3)], dtype=object)
    written = [("y", row, entry.node) for row, entry in enumerate(everything(rows)["y"])]
    module = llvm.parse_assembly(IrWriter(graph, ["x", "y"], written, 4).text())
    machine = target.create_target_machine(cpu="cortex-a76", opt=3)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    text = machine.emit_assembly(module)
    for instruction in ("fmla\tv", "fsqrt\tv", "frintm\tv", "fdiv\tv", "fcmgt\tv"):
        assert instruction in text or instruction.replace("\tv", "\t.4s") in text, instruction
    assert "\tbl\t" not in text, "nothing is left to a library, one robot at a time"


@pytest.mark.usefixtures("processor")
def test_sweeps_on_other_processors() -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 2))
    sweep = LoopKernel(mixed, {"x": 2}, numbers, {"v": 2})
    for count in (3, 50):
        given, made = swept(sweep, count)
        for name, wanted in plainly(numbers, **given).items():
            np.testing.assert_allclose(made[name], wanted, rtol=1e-5, atol=1e-5, err_msg=name)

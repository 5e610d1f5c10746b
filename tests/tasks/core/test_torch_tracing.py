"""From torch to kernels: each rule against torch itself on random input, and what cannot be translated is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlstack.fused import Kernel
from rlstack.tasks.core import torch_tracing
from rlstack.tasks.core.torch_tracing import CannotTrace

ROBOTS, ROWS = 37, 6
A, B = (torch.randn(ROBOTS, ROWS, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))


def fused(function: Callable[..., Any], *arguments: Tensor) -> Tensor:
    """Return what ``function`` of (N, k) tensors gives, computed by a kernel."""
    shapes: list[tuple[int, ...]] = []

    def rows(**given: Any) -> dict[str, Any]:
        made = np.asarray(torch_tracing.trace_call(function, *given.values()), dtype=object)
        shapes.append(made.shape)
        return {"made": made.reshape(-1)}

    names = "abc"[: len(arguments)]
    kernel = Kernel(rows, {name: a.shape[1] for name, a in zip(names, arguments)})
    made = torch.zeros(kernel.outputs["made"], ROBOTS)
    kernel({**{name: a.T.contiguous() for name, a in zip(names, arguments)}, "made": made})
    return made.T.reshape(ROBOTS, *shapes[0])


def positive(a: Tensor) -> Tensor:
    return a * a + 0.1


CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "add, scaled": lambda a, b: torch.add(a, b, alpha=3),
    "add a number": lambda a, b: a + 2.5,
    "sub": lambda a, b: a - b,
    "sub, scaled": lambda a, b: torch.sub(a, b, alpha=0.5),
    "rsub": lambda a, b: 1.0 - a,
    "rsub, scaled": lambda a, b: torch.rsub(a, b, alpha=2.0),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / positive(b),
    "div by a number": lambda a, b: a / 3.0,
    "neg": lambda a, b: -a,
    "pow": lambda a, b: a**3,
    "square": lambda a, b: a.square(),
    "reciprocal": lambda a, b: positive(a).reciprocal(),
    "sqrt": lambda a, b: positive(a).sqrt(),
    "exp": lambda a, b: a.exp(),
    "log": lambda a, b: positive(a).log(),
    "tanh": lambda a, b: a.tanh(),
    "sigmoid": lambda a, b: a.sigmoid(),
    "rsqrt": lambda a, b: positive(a).rsqrt(),
    "abs": lambda a, b: a.abs(),
    "relu": lambda a, b: a.relu(),
    "clamp": lambda a, b: a.clamp(-0.5, 0.25),
    "clamp, one side": lambda a, b: torch.cat([a.clamp(min=0.1), b.clamp(max=0.1)], dim=1),
    "clamp_min": lambda a, b: torch.clamp_min(a, -0.2),
    "clamp_max": lambda a, b: torch.clamp_max(a, -0.2),
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "where": lambda a, b: torch.where(a < b, a * 2.0, b),
    "where with numbers": lambda a, b: torch.where(a < 0.0, 0.25, 4.0) * b,
    "lt": lambda a, b: (a < b).float(),
    "le": lambda a, b: (a <= 0.3).float(),
    "gt": lambda a, b: (a > b).float(),
    "ge": lambda a, b: (a >= 0.3).float(),
    "eq": lambda a, b: (a.clamp(min=0.0) == 0.0).float(),
    "and, or, not": lambda a, b: ((a < b) & ~(a < 0.0) | (b > 1.0)).float(),
    "logical": lambda a, b: torch.logical_or(torch.logical_and(a < b, a < 0.0), torch.logical_not(b < 0.5)).float(),
    "sum": lambda a, b: (a * b).sum(dim=-1),
    "sum, kept": lambda a, b: a - a.sum(dim=1, keepdim=True),
    "sum of two axes": lambda a, b: a.reshape(-1, 2, 3).sum(dim=(1, 2)),
    "mean": lambda a, b: a.mean(dim=-1),
    "mean, kept": lambda a, b: b - a.mean(dim=1, keepdim=True),
    "all": lambda a, b: (a < 1.0).all(dim=-1).float(),
    "any": lambda a, b: (a > 1.0).any(dim=1).float(),
    "amax": lambda a, b: a.amax(dim=-1),
    "amin": lambda a, b: a.amin(dim=1, keepdim=True) * b,
    "norm": lambda a, b: torch.linalg.vector_norm(a, dim=-1),
    "norm of a tensor": lambda a, b: a.norm(dim=1, keepdim=True) * b,
    "select": lambda a, b: a[:, 2],
    "slice": lambda a, b: a[:, 1:5:2],
    "slice from the end": lambda a, b: a[:, -3:],
    "unsqueeze": lambda a, b: a.unsqueeze(-1) * b.unsqueeze(1),
    "squeeze": lambda a, b: a[:, 1:2].squeeze(1),
    "view": lambda a, b: a.view(-1, 2, 3),
    "reshape": lambda a, b: a.reshape(-1, 3, 2).transpose(1, 2).reshape(-1, 6),
    "flatten": lambda a, b: a.reshape(-1, 3, 2).flatten(1),
    "expand": lambda a, b: a[:, :1].expand(-1, 6) * b,
    "permute": lambda a, b: a.reshape(-1, 2, 3).permute(0, 2, 1),
    "transpose": lambda a, b: a.reshape(-1, 2, 3).transpose(1, 2),
    "t": lambda a, b: (a[:, :2].t() * 2.0).t(),
    "linear": lambda a, b: nn.functional.linear(a, MATRIX.t(), torch.arange(4.0)),
    "linear of three axes": lambda a, b: nn.functional.linear(a.reshape(-1, 1, 6), MATRIX.t()),
    "addmm": lambda a, b: torch.addmm(b[:, :4], a, MATRIX, beta=0.5, alpha=2.0),
    "bitwise": lambda a, b: torch.bitwise_or(torch.bitwise_and(a < b, a < 0.0), torch.bitwise_not(b < 0.5)).float(),
    "cat": lambda a, b: torch.cat([a, b[:, :2]], dim=-1),
    "stack": lambda a, b: torch.stack([a, b], dim=-1),
    "unbind": lambda a, b: a.unbind(dim=-1)[3] * b.unbind(dim=1)[0],
    "split": lambda a, b: a.split(4, dim=-1)[1],
    "split in sizes": lambda a, b: a.split([1, 2, 3], dim=1)[2],
    "chunk": lambda a, b: a.chunk(3, dim=-1)[1] * b.chunk(3, dim=-1)[0],
    "bmm": lambda a, b: a.reshape(-1, 2, 3) @ b.reshape(-1, 3, 2),
    "mm": lambda a, b: a @ MATRIX,
    "clone": lambda a, b: a.clone() + b.detach() + torch.ops.aten.alias(a),
    "ones_like": lambda a, b: a + torch.ones_like(b),
    "zeros_like": lambda a, b: torch.cat([a, torch.zeros_like(b)], dim=1),
    "a constant tensor": lambda a, b: a * torch.arange(6.0) + torch.tensor(2.0),
    "a constant on its own": lambda a, b: torch.cat([a, torch.arange(6.0).sqrt().expand(a.shape[0], 6)], dim=1),
}
MATRIX = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", list(CASES))
def test_a_rule_gives_what_torch_gives(name: str) -> None:
    expected = CASES[name](A, B)
    torch.testing.assert_close(fused(CASES[name], A, B), expected, rtol=2e-6, atol=2e-6)


def test_inference_mode_changes_nothing() -> None:
    with torch.inference_mode():
        for name, case in CASES.items():
            torch.testing.assert_close(fused(case, A, B), case(A, B), rtol=2e-6, atol=2e-6, msg=name)


def test_every_rule_is_tried() -> None:
    tried: set[str] = set()
    rules = {name: _noting(name, rule, tried) for name, rule in torch_tracing._RULES.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_tracing, "_RULES", rules)
        for case in CASES.values():
            fused(case, A, B)
    assert not set(rules) - tried


def _noting(name: str, rule: Callable[..., Any], tried: set[str]) -> Callable[..., Any]:
    def noting(*args: Any, **kwargs: Any) -> Any:
        tried.add(name)
        return rule(*args, **kwargs)

    return noting


def test_a_module_with_buffers_and_nested_results() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.arange(1.0, 7.0))

        def forward(self, inputs: dict[str, Tensor]) -> dict[str, Any]:
            return {"one": inputs["x"] * self.scale, "pair": (inputs["x"].sum(dim=1), inputs["x"][:, :2])}

    scaled = Scaled()

    def rows(x: Any) -> dict[str, Any]:
        made = torch_tracing.trace_call(scaled, {"x": x})
        one, pair = made["one"], made["pair"]
        assert one.shape == (6,) and np.shape(pair[0]) == () and pair[1].shape == (2,)
        return {"one": one, "total": pair[0], "two": pair[1]}

    kernel = Kernel(rows, {"x": 6})
    made = {name: torch.zeros(count, ROBOTS) for name, count in kernel.outputs.items()}
    kernel({"x": A.T.contiguous(), **made})
    torch.testing.assert_close(made["one"].T, A * scaled.scale)
    torch.testing.assert_close(made["total"][0], A.sum(dim=1), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(made["two"].T, A[:, :2])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda a: a.cumsum(dim=1), r"torch\.cumsum has no rule for fused kernels; rules: .*add.*where"),
        (lambda a: torch.sin(a), r"torch\.sin has no rule"),
        (lambda a: a.norm(p=1, dim=1), r"the norm of order 1 has no rule .*: use order 2"),
        (lambda a: a.add_(1.0), r"torch\.add_ changes a tensor in place"),
        (lambda a: _assigned(a), r"torch\.\w+_ changes a tensor in place"),
        (lambda a: torch.zeros(1, 6).copy_(a), r"torch\.copy_ changes a tensor in place"),
        (lambda a: a * 2.0 if a.sum() > 0.0 else a, r"depends on a value .*torch\.where"),
        (lambda a: a * float(a[0, 0]), r"depends on a value .*torch\.where"),
        (lambda a: a[:, int(a[0, 0])], r"depends on a value .*torch\.where"),
        (lambda a: a[:, a[0] > 0.0], r"torch\.\w+ has no rule"),
        (lambda a: a + torch.randn(1, 6), r"torch\.randn is random"),
        (lambda a: a * torch.bernoulli(a), r"torch\.bernoulli is random"),
    ],
    ids=[
        "cumsum",
        "sin",
        "norm",
        "in place",
        "assigned",
        "copied into",
        "if",
        "float",
        "index",
        "mask",
        "random",
        "random of a tensor",
    ],
)
def test_what_cannot_be_fused_is_refused_by_name(function: Callable[[Tensor], Any], said: str) -> None:
    with pytest.raises(CannotTrace, match=said):
        fused(function, A)


def _assigned(a: Tensor) -> Tensor:
    b = a * 2.0
    b[:, 0] = 0.0
    return b


def test_an_array_of_another_call_is_refused() -> None:
    kept: list[Tensor] = []
    fused(lambda a: kept.append(a) or a * 2.0, A)
    # what was kept is only an example of a value, and has nothing to do with this call
    with pytest.raises(CannotTrace, match="of another call"):
        fused(lambda a: a + kept[0], A)

"""Trace torch modules into fused kernels, so that the exported modules are part of the training step.

A function of tensors (1, k) runs once on example values; each torch operation is repeated on arrays of expressions
(:mod:`rlstack.fused`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from rlstack.fused import expression
from rlstack.fused.expression import Rows, Scalar

_TRACED = WeakIdKeyDictionary()
"""Tensors that stand for expressions, over all calls."""


def trace_call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)`` with expressions in place of tensors.

    Args:
        function: Takes one robot's tensors with a leading batch axis of 1; they may be nested in dictionaries.
        arguments: Object arrays (k, ...) of expressions, or mappings of them, in place of tensors (1, k, ...).

    Returns:
        The function's result, with object arrays in place of tensors, without the batch axis.

    Raises:
        CannotTrace: It uses an operation that has no rule here, changes a tensor in place, branches on a value, draws
            random numbers, or uses a tensor from another call.
    """
    tracer = _Tracer()
    # in inference mode torch does not decompose its operations into those that have rules
    with torch.inference_mode(False), torch.no_grad(), tracer:
        result = function(*(_over(tracer.enter, argument) for argument in arguments))
    return _over(lambda tensor: tracer.read(tensor)[0], result)


def _over(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _over(function, entry) for name, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(_over(function, entry) for entry in value)
    return function(value)


class CannotTrace(RuntimeError):
    """A function cannot be traced into a fused kernel; not a TypeError, which torch would catch."""


class _Tracer(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch's compiler, which takes a second

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, Rows]] = {}

    def enter(self, rows: Rows) -> Tensor:
        example = torch.full((1, *rows.shape), 0.5)
        self._know(example, rows[None])
        return example

    def _know(self, tensor: Tensor, rows: Rows) -> None:
        self._known[id(tensor)] = (tensor, rows)
        _TRACED[tensor] = None

    def read(self, tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor
        if id(tensor) in self._known:
            return self._known[id(tensor)][1]
        return tensor.detach().numpy().astype(object)  # a constant

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = operation._schema.name.removeprefix("aten::")
        if torch.Tag.nondeterministic_seeded in operation.tags:
            raise CannotTrace(f"torch.{name} is random, and would give every robot the same value at every step")
        everything = [*args, *kwargs.values()]
        flat = [e for entry in everything for e in (entry if isinstance(entry, (list, tuple)) else (entry,))]
        known = [id(entry) in self._known for entry in flat]
        for entry, mine in zip(flat, known):
            if not mine and isinstance(entry, Tensor) and entry in _TRACED:
                raise CannotTrace(f"torch.{name} uses a tensor of another call: pass such tensors on as memory")
        if not any(known):
            return operation(*args, **kwargs)
        if name in ("_local_scalar_dense", "is_nonzero", "equal"):
            raise CannotTrace(
                "control flow depends on a value (an `if`, float() or int() of a tensor), which differs from robot to"
                " robot: use torch.where"
            )
        if operation._schema.is_mutable:
            raise CannotTrace(f"torch.{name} changes a tensor in place: use the operation that returns a new one")
        if name not in _RULES:
            raise CannotTrace(f"torch.{name} has no rule for fused kernels; rules: {', '.join(sorted(_RULES))}")
        result = operation(*args, **kwargs)
        given = [
            [self.read(e) for e in entry] if isinstance(entry, (list, tuple)) else self.read(entry) for entry in args
        ]
        shadows = _RULES[name](*given, **{k: self.read(v) for k, v in kwargs.items()})
        for tensor, rows in zip(*((result, shadows) if isinstance(result, (list, tuple)) else ([result], [shadows]))):
            rows = np.asarray(rows, dtype=object)
            if tuple(tensor.shape) != rows.shape:
                raise CannotTrace(f"torch.{name} returned the shape {tuple(tensor.shape)}, its rule {rows.shape}")
            self._know(tensor, rows)
        return result


def _reduce(function: Callable[[Any, Any], Any]) -> Callable[..., Rows]:
    reduction = np.frompyfunc(function, 2, 1).reduce

    def rule(a: Rows, dim: Any = None, keepdim: bool = False, **_: Any) -> Rows:
        axes = tuple(range(a.ndim)) if dim is None or dim == [] else tuple(np.atleast_1d(dim))
        for axis in sorted((axis % a.ndim for axis in axes), reverse=True):
            a = np.asarray(reduction(a, axis=axis, keepdims=keepdim), dtype=object)
        return a

    return rule


_SUM, _ALL, _ANY = _reduce(lambda a, b: a + b), _reduce(lambda a, b: a & b), _reduce(lambda a, b: a | b)


def _mean(a: Rows, dim: Any = None, keepdim: bool = False, **_: Any) -> Rows:
    total = _SUM(a, dim, keepdim)
    return total * (total.size / a.size)


def _norm(a: Rows, order: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Rows:
    if order != 2:
        raise CannotTrace(f"the norm of order {order} has no rule for fused kernels: use order 2")
    return _function("sqrt")(_SUM(a * a, dim, keepdim))


def _clamp(a: Rows, min: Any = None, max: Any = None) -> Rows:
    a = a if min is None else expression.maximum(a, min)
    return np.asarray(a if max is None else expression.minimum(a, max), dtype=object)


def _compare(relation: Callable[[Any, Any], Any]) -> Callable[[Rows, Any], Rows]:
    return lambda a, b: np.asarray(np.frompyfunc(relation, 2, 1)(a, b), dtype=object)


def _each(function: Callable[[Any], Any]) -> Callable[..., Rows]:
    return lambda a, *_, **__: np.asarray(np.frompyfunc(function, 1, 1)(a), dtype=object)


def _function(name: str) -> Callable[..., Rows]:
    # the function is a method of an expression; a constant is a float
    plain: dict[str, Callable[[float], float]] = {
        "sqrt": math.sqrt,
        "exp": math.exp,
        "log": math.log,
        "tanh": math.tanh,
        "sigmoid": lambda a: 1.0 / (1.0 + math.exp(-a)),
    }
    return _each(lambda a: getattr(a, name)() if isinstance(a, Scalar) else plain[name](a))


def _slice(a: Rows, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Rows:
    return a[(slice(None),) * (dim % a.ndim) + (slice(start, end, step),)]


def _expand(a: Rows, shape: list[int], **_: Any) -> Rows:
    lead = len(shape) - a.ndim
    return np.broadcast_to(a, [n if n != -1 else a.shape[k - lead] for k, n in enumerate(shape)])


def _split(a: Rows, sizes: Any, dim: int = 0) -> list[Rows]:
    sizes = sizes if isinstance(sizes, list) else [sizes] * -(-a.shape[dim] // sizes)
    return np.split(a, np.cumsum(sizes)[:-1].tolist(), axis=dim)


def _matmul(a: Rows, b: Rows) -> Rows:
    return np.asarray((a[..., :, :, None] * b[..., None, :, :]).sum(axis=-2), dtype=object)


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, alpha=1: a + (b if alpha == 1 else alpha * b),
    "sub": lambda a, b, alpha=1: a - (b if alpha == 1 else alpha * b),
    "rsub": lambda a, b, alpha=1: b - (a if alpha == 1 else alpha * a),
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": operator.pow,
    "reciprocal": lambda a: 1.0 / a,
    **{name: _function(name) for name in ("sqrt", "exp", "log", "tanh", "sigmoid")},
    "rsqrt": lambda a: 1.0 / _function("sqrt")(a),
    "abs": abs,
    "relu": lambda a: expression.maximum(a, 0.0),
    "clamp": _clamp,
    "clamp_min": lambda a, low: expression.maximum(a, low),
    "clamp_max": lambda a, high: expression.minimum(a, high),
    "minimum": expression.minimum,
    "maximum": expression.maximum,
    "where": expression.where,
    **{name: _compare(getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq")},
    **dict.fromkeys(("bitwise_and", "logical_and"), operator.and_),
    **dict.fromkeys(("bitwise_or", "logical_or"), operator.or_),
    **dict.fromkeys(("bitwise_not", "logical_not"), _each(lambda a: ~a if isinstance(a, Scalar) else not a)),
    "sum": _SUM,
    "mean": _mean,
    "all": _ALL,
    "any": _ANY,
    "amax": _reduce(expression.maximum),
    "amin": _reduce(expression.minimum),
    "linalg_vector_norm": _norm,
    "select": lambda a, dim, index: np.asarray(np.take(a, index, axis=dim), dtype=object),
    "slice": _slice,
    "unsqueeze": lambda a, dim: np.expand_dims(a, dim),
    "squeeze": lambda a, dim: np.squeeze(a, tuple(np.atleast_1d(dim))),
    **dict.fromkeys(("view", "_unsafe_view"), np.reshape),
    "expand": _expand,
    "permute": lambda a, order: a.transpose(order),
    "transpose": lambda a, first, second: a.swapaxes(first, second),
    "t": lambda a: a.T,
    "cat": lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, axis=dim),
    "unbind": lambda a, dim=0: list(np.moveaxis(a, dim, 0)),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    **dict.fromkeys(("mm", "bmm"), _matmul),
    "addmm": lambda c, a, b, beta=1, alpha=1: beta * c + alpha * _matmul(a, b),
    **dict.fromkeys(("clone", "detach", "alias", "_to_copy"), lambda a, *_, **__: a),
    "ones_like": lambda a, **_: np.full(a.shape, 1.0, dtype=object),
    "zeros_like": lambda a, **_: np.full(a.shape, 0.0, dtype=object),
}

"""torch's optimisers without its compiler, whose import takes two CPU-seconds."""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch


class _Eager:
    """An optimiser's methods without the decorators that import torch._dynamo."""

    add_param_group: Any = unwrap(torch.optim.Optimizer.add_param_group)
    load_state_dict: Any = unwrap(torch.optim.Optimizer.load_state_dict)
    state_dict: Any = unwrap(torch.optim.Optimizer.state_dict)
    zero_grad: Any = unwrap(torch.optim.Optimizer.zero_grad)


class Adam(_Eager, torch.optim.Adam):
    """:class:`torch.optim.Adam`, never compiled and never differentiated through."""

    step: Any = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(_Eager, torch.optim.AdamW):
    """:class:`torch.optim.AdamW`, never compiled and never differentiated through."""

    step: Any = torch.no_grad()(unwrap(torch.optim.AdamW.step))

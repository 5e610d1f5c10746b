"""torch's optimisers without its compiler, whose import takes two CPU-seconds."""

from __future__ import annotations

from collections.abc import Iterable
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


class FusedAdam(Adam):
    """The same steps to the bit, for parameters on one device that all have gradients; no further options of Adam's.

    Args:
        parameters: See :class:`torch.optim.Adam`.
        lr: Learning rate.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], lr: float) -> None:
        super().__init__(parameters, lr=lr, fused=True)

        self._held: tuple[list[torch.Tensor], ...] = ()

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from the state of another one."""
        super().load_state_dict(state_dict)
        self._held = ()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step."""
        (group,) = self.param_groups
        parameters = group["params"]
        if len(self.state) < len(parameters):  # the first one sets the averages up
            super().step()
            return
        if not self._held:
            self._held = tuple(
                [self.state[one][name] for one in parameters] for name in ("exp_avg", "exp_avg_sq", "step")
            )
        means, squares, counts = self._held
        torch._foreach_add_(counts, 1)
        torch._fused_adam_(
            parameters,
            [one.grad for one in parameters],
            means,
            squares,
            [],
            counts,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


class AdamW(_Eager, torch.optim.AdamW):
    """:class:`torch.optim.AdamW`, never compiled and never differentiated through."""

    step: Any = torch.no_grad()(unwrap(torch.optim.AdamW.step))

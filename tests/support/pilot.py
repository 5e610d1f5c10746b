"""Controllers of a few gains that fly and drive, written into the layers of other libraries' networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlstack.kinds.quadrotor.spec import Quadrotor
from tests.support.policies import hover_gains

Array = NDArray[np.float64]

TERMS: list[dict[str, Any]] = [
    {"signal": "goal_position", "relative_to": "position", "frame": "base_link", "clip": [-0.5, 0.5]},
    {"signal": "orientation", "form": "gravity", "elements": [0, 1]},
    {"signal": "linear_velocity"},
    {"signal": "angular_velocity"},
]
"""What it sees, as a mapping's terms: the way to the goal and gravity in the body, so that any heading will do."""

SIZE, HIDDEN = 11, 8
_SHIFT = 3.0
"""ELU and ReLU are the identity above 0: with this bias, above -3."""
_SURE = 30.0
"""A gate with this bias is open."""


def fill_layers(layers: Sequence[nn.Linear], gains: Array) -> None:
    """Make layers with ELU or ReLU between them compute ``gains @ observation`` where that is above -3."""
    with torch.no_grad():
        for layer in layers:
            layer.weight.zero_()
            layer.bias.zero_()
            layer.weight[: len(gains), : len(gains)] = torch.eye(len(gains))
        layers[0].weight.zero_()
        layers[0].weight[: len(gains)] = torch.tensor(gains, dtype=torch.float32)
        layers[0].bias[: len(gains)] = _SHIFT
        layers[-1].bias[: len(gains)] -= _SHIFT


def fill_pilot(gru: nn.GRU | nn.GRUCell, head: Sequence[nn.Linear], robot: Quadrotor, rotors: Sequence[str]) -> Tensor:
    """Make a GRU and layers above it an LQR with an estimate of the rotors' speeds; return its state at hover, (8,).

    The first half of the state follows the command as the rotors do, the second half is the command, -1 to 1, of
    ``rotors`` in their order.
    """
    names = [rotor.name for rotor in robot.rotors]
    places = [names.index(name) for name in rotors]
    gains = -hover_gains(robot)[places]
    gains[:, 13:] = gains[:, 13:][
        :, places
    ]  # of position error, orientation xyzw, velocities, departure from the hover speed
    half = 0.5 * (robot.rotor_model.speed_max_rad_s - robot.rotor_model.speed_min_rad_s)
    hover = (robot.hover_speed_rad_s - robot.rotor_model.speed_min_rad_s) / half - 1.0
    roll, pitch = gains[:, 3:4] / 2.0, gains[:, 4:5] / 2.0  # of small angles
    seen = np.hstack([-gains[:, :3], pitch, -roll, gains[:, 7:13]]) / half
    steep = 1.0 / (1.0 - hover**2)  # of atanh at hover
    lag = 1.0 - np.exp(-1.0 / robot.control_rate_hz / robot.rotor_model.rise_time_constant_s)
    count = len(rotors)
    weights = dict(gru.named_parameters())
    layer = "_l0" if isinstance(gru, nn.GRU) else ""
    with torch.no_grad():
        for parameter in weights.values():
            parameter.zero_()
        new = slice(2 * HIDDEN, 3 * HIDDEN)  # after the gates of reset and update
        inputs, states = weights[f"weight_ih{layer}"], weights[f"weight_hh{layer}"]
        bias = weights[f"bias_ih{layer}"]
        bias[:HIDDEN] = _SURE
        bias[HIDDEN : HIDDEN + count] = float(np.log((1.0 - lag) / lag))
        bias[HIDDEN + count : 2 * HIDDEN] = -_SURE
        inputs[new] = torch.tensor(np.vstack([seen, seen]) * steep, dtype=torch.float32)
        spin = gains[:, 13:] * steep
        states[new, :count] = torch.tensor(np.vstack([spin, spin]), dtype=torch.float32)
        offset = np.arctanh(hover) - spin.sum(axis=1) * hover
        bias[new] = torch.tensor(np.hstack([offset, offset]), dtype=torch.float32)
    fill_layers(head, np.eye(HIDDEN)[count:])
    return torch.full((HIDDEN,), hover)

"""Measurements of `rlstack bench`: each part is a function of plain data, run in its own process.

``python -m rlstack.training.measure PART OPTIONS FILE`` runs one (OPTIONS are its arguments as JSON) and writes its
result to FILE as JSON. Separate processes isolate CPU-seconds, memory and the threads of libraries.
"""

from __future__ import annotations

PARTS = {
    "simulator": "rlstack.training.measure.simulator:measure",
    "environment": "rlstack.training.measure.environment:measure",
    "policy": "rlstack.training.measure.policy:measure",
    "crazyflow": "rlstack.training.measure.peer_crazyflow:measure",
    "stable-baselines3": "rlstack.training.measure.peer_stable_baselines3:measure",
    "foundation-policy": "rlstack.training.measure.peer_foundation_policy:measure",
}
"""Module and name of each part's function."""

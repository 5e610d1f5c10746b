"""What `rlstack bench` measures: each part a function of plain numbers that returns plain data, in its own process.

``python -m rlstack.training.measure PART OPTIONS FILE`` runs one (OPTIONS are its arguments as JSON) and writes what it
returned to FILE as JSON. A process of its own makes CPU-seconds and memory those of that part alone, and keeps
libraries apart that would share threads.
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
"""Where each part's function is: module and name."""

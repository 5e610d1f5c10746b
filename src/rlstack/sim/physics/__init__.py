"""Models of what acts on a robot besides gravity and contact: each in a file of its own, shared by every simulator.

Formulas are written once, in numpy style, for :mod:`rlstack.fused`: the batch simulator computes them in float32 and
differentiates them, the engines' kernel in float64, and tests call them on plain arrays.
"""

from rlstack.sim.physics.models import Models, models_of

__all__ = ["Models", "models_of"]

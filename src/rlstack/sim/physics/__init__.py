"""Physics models besides gravity and contact, one file each, shared by every simulator.

Formulas are written once, in numpy style, for :mod:`rlstack.fused`: the batch simulator computes and differentiates
them in float32, the engines' kernel uses float64, and tests call them on plain arrays.
"""

from rlstack.sim.physics.models import Models, models_of

__all__ = ["Models", "models_of"]

"""Physics models besides gravity and contact, shared by every simulator.

Formulas are written once, in numpy style, for :mod:`rlstack.fused`: the batch simulator computes and differentiates
them in float32, the engines' kernel uses float64, and tests call them on plain arrays.
"""

"""Training: recipes, algorithms, the training loop, checkpoints, and export to a policy file."""

from rlstack.registry import Registry

ALGORITHMS = Registry("algorithm", "rlstack.training.algorithms", "ALGORITHM", "rlstack.algorithms", files=True)
"""Each entry is an :class:`rlstack.training.algorithm.Algorithm` class; its ``Settings`` is a dataclass."""

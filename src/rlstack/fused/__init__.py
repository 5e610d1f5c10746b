"""Per-robot functions, written once in numpy style and fused into one SIMD pass over all robots, with reverse mode."""

from rlstack.fused.devices import check_device
from rlstack.fused.expression import clip, greater, maximum, minimum, where
from rlstack.fused.kernel import GRADIENT, Kernel, LoopKernel
from rlstack.fused.memory_layout import zeros

__all__ = [
    "GRADIENT",
    "Kernel",
    "LoopKernel",
    "check_device",
    "clip",
    "greater",
    "maximum",
    "minimum",
    "where",
    "zeros",
]

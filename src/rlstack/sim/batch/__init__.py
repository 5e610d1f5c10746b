"""The batch simulator of quadrotors: thousands of robots in one fused step, on CPU or CUDA."""

from rlstack.sim.batch.layout import PARAMETERS, STATE, pack_parameters, pack_state
from rlstack.sim.batch.simulator import BatchSimulator

__all__ = ["PARAMETERS", "STATE", "BatchSimulator", "pack_parameters", "pack_state"]

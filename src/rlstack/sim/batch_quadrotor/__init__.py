"""The batch simulator of quadrotors: thousands of robots in one fused step, on CPU or CUDA."""

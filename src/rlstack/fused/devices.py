"""Names and checks of compute devices."""

from __future__ import annotations

from rlstack.errors import UserError

TEST_DEVICE = "warp:cpu"
"""CUDA source run by Warp on the CPU, for tests on machines without a GPU."""


def check_device(device: str) -> str:
    """Return the device's full name, such as ``"cpu"`` or ``"cuda:0"``; ``"cuda"`` is the first GPU.

    Raises:
        UserError: This machine has no such device, or a library for CUDA is not installed.
    """
    if device in ("cpu", TEST_DEVICE):
        return device
    if device != "cuda" and not device.startswith("cuda:"):
        raise UserError(f"There is no device '{device}': choose cpu or cuda:0.")
    from rlstack.fused.cuda import warp

    gpus = [str(d) for d in warp().get_cuda_devices()]
    if device == "cuda" and gpus:
        return gpus[0]
    if device not in gpus:
        raise UserError(f"There is no device '{device}' here: choose one of {', '.join(['cpu', *gpus])}.")
    return device

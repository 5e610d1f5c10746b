"""The program that the arm runs: it follows targets in RTDE's registers, and ends itself when they cease."""

from __future__ import annotations

from collections.abc import Sequence

SEQUENCE, TOKEN = "input_int_register_24", "input_int_register_25"
"""Counts commands up; the number of the program that may run, 0: none."""
TARGETS = tuple(f"input_double_register_{24 + k}" for k in range(6))
"""Targets of the joints, rad."""
RUNNING = "output_int_register_24"
"""The number of the program that runs, 0: none."""
STOP = "def rlstack_stop():\n  stopj(4.0)\nend\n"
"""Replaces whatever program runs, and brings the arm to rest."""

_FOLLOW = """\
def rlstack():
  rtde_set_watchdog("input_int_register_24", {least_hz:.6f}, "stop")
  fastest = {fastest}
  dt = get_steptime()
  goal = get_actual_joint_positions()
  wanted = [goal[0], goal[1], goal[2], goal[3], goal[4], goal[5]]
  silent = 0.0
  while (read_input_integer_register(25) != {token}) and (silent < {timeout_s:.6f}):
    silent = silent + dt
    sync()
  end
  seen = read_input_integer_register(24)
  silent = 0.0
  write_output_integer_register(24, {token})
  while (read_input_integer_register(25) == {token}) and (silent < {timeout_s:.6f}):
    now = read_input_integer_register(24)
    if now != seen:
      seen = now
      silent = 0.0
      k = 0
      while k < 6:
        wanted[k] = read_input_float_register(24 + k)
        k = k + 1
      end
    else:
      silent = silent + dt
    end
    k = 0
    while k < 6:
      step = wanted[k] - goal[k]
      most = fastest[k] * dt
      if step > most:
        step = most
      elif step < (0.0 - most):
        step = 0.0 - most
      end
      goal[k] = goal[k] + step
      k = k + 1
    end
    servoj(goal, 0, 0, dt, {lookahead_s:.6f}, {gain:.1f})
  end
  write_output_integer_register(24, 0)
  stopj(4.0)
end
"""


def follow(token: int, fastest: Sequence[float], timeout_s: float, lookahead_s: float, gain: float) -> str:
    """Return a program in URScript that follows the targets.

    Its set-point moves no faster than the joints may, so that a step of the target is no jump. It waits for its number,
    which comes over another connection than the program and may be the later one.

    Args:
        token: Its number, not 0.
        fastest: (6,) rad/s.
        timeout_s: Time without a command after which it brings the arm to rest and ends. The controller's own watchdog
            stops it after twice that, should it not.
        lookahead_s: ``servoj``'s smoothing, 0.03 to 0.2 s.
        gain: ``servoj``'s gain, 100 to 2000.
    """
    return _FOLLOW.format(
        token=token,
        fastest="[" + ", ".join(f"{speed:.6f}" for speed in fastest) + "]",
        timeout_s=timeout_s,
        least_hz=0.5 / timeout_s,
        lookahead_s=lookahead_s,
        gain=gain,
    )

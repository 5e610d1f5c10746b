"""Policies that another process steps, over LeRobot's asynchronous inference protocol."""

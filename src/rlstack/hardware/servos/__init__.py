"""Servos on a serial bus: the bus over its maker's library, kinds of servos, LeRobot's calibration files, arms of them.

A leader arm (:mod:`rlstack.hardware.devices.leader`) and the drivers ``feetech`` and ``dynamixel`` share them.
"""

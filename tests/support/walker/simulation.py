"""The walker in a simulation: joint targets in; odometry, IMU and joints out."""

from rlstack.sim.kind_simulation import JointTargetSimulation

SIMULATION = JointTargetSimulation

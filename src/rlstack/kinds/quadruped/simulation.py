"""Quadrupeds in a simulation: joint targets in; odometry, IMU and joints out."""

from rlstack.sim.robot_simulation import JointTargetSimulation

SIMULATION = JointTargetSimulation

"""What a robot is: its file, its frames, its actuators, and the models that simulators load."""

from rlstack.robots.spec import Limits, RigidBody, RobotSpec, Rotor, RotorModel, Sensor, load_robot, robot_names

__all__ = ["Limits", "RigidBody", "RobotSpec", "Rotor", "RotorModel", "Sensor", "load_robot", "robot_names"]

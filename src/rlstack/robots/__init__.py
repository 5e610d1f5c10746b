"""What a robot is: its file, its frames, its actuators, and the models that simulators load."""

from rlstack.robots.kinds.quadrotor import Limits, Quadrotor, RigidBody, Rotor, RotorModel, load_quadrotor
from rlstack.robots.sensing import Camera, Lidar, Sensor
from rlstack.robots.spec import RobotSpec, load_robot, robot_names

__all__ = [
    "Camera",
    "Lidar",
    "Limits",
    "Quadrotor",
    "RigidBody",
    "RobotSpec",
    "Rotor",
    "RotorModel",
    "Sensor",
    "load_quadrotor",
    "load_robot",
    "robot_names",
]

"""What a robot is: its file, its frames, its actuators, and the models that simulators load."""

from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kinds.manipulator import Manipulator
from rlstack.robots.kinds.quadrotor import Limits, Quadrotor, RigidBody, Rotor, RotorModel, load_quadrotor
from rlstack.robots.kinds.wheeled_base import WheeledBase
from rlstack.robots.sensing import Camera, Lidar, Sensor
from rlstack.robots.spec import RobotSpec, load_robot, robot_names

__all__ = [
    "Camera",
    "DrivenJoint",
    "Lidar",
    "Limits",
    "Manipulator",
    "Quadrotor",
    "RigidBody",
    "RobotSpec",
    "Rotor",
    "RotorModel",
    "Sensor",
    "WheeledBase",
    "load_quadrotor",
    "load_robot",
    "robot_names",
]

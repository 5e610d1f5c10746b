"""Robot descriptions: files, frames, actuators, and the models that simulators load."""

from rlstack.robots.joints import DrivenJoint
from rlstack.robots.sensing import Camera, Lidar, Sensor
from rlstack.robots.spec import RobotSpec, load_robot, robot_names

__all__ = ["Camera", "DrivenJoint", "Lidar", "RobotSpec", "Sensor", "load_robot", "robot_names"]

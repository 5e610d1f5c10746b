"""rlstack: train robot policies in simulation, verify them, and deploy them over ROS 2."""

__version__ = "0.1.0"

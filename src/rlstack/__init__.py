"""rlstack: train robot policies in simulation, prove them, and fly them over ROS 2."""

__version__ = "0.1.0"

"""Perception: from images, depth and scans to inputs of planners and policies, with OpenCV and Open3D, without ROS."""

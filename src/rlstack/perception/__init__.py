"""From images, depth and scans to what a planner or a policy uses, with OpenCV and Open3D; nothing here needs ROS."""

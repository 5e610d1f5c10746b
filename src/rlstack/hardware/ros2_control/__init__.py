"""What the driver of arms under ros2_control is made of."""

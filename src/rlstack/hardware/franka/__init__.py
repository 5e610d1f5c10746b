"""What the driver of Franka's arms is made of."""

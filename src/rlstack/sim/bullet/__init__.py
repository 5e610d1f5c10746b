"""What the ``pybullet`` backend is made of: its server, the robots in it, the world, rays and the camera."""

"""ROS 2 nodes: thin, no logic of their own; what can be pure lives on the floors below."""

"""The agent: makes a plan of skills from a sentence, checks it, and runs it on a robot; independent of ROS."""

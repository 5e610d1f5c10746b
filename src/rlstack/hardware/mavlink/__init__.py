"""MAVLink autopilots (PX4, ArduPilot): link, clock, frames, taking control. The driver is ``drivers/mavlink.py``."""

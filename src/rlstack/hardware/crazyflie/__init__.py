"""Bitcraze's Crazyflie over its protocol CRTP: links, session, clock. The driver is ``drivers/crazyflie.py``."""

"""Betaflight flight controllers: MSP, settings, rates and thrust as sticks. The driver is ``drivers/betaflight.py``."""

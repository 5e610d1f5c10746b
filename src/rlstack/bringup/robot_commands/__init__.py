"""The commands that operate running robots over their services and topics: estop, arm, disarm, goto and status."""

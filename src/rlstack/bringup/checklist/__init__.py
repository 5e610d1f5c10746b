"""`rlstack bringup`: walks through a real robot's checklist, ``hardware/<robot>/bringup.yaml``, and records it."""

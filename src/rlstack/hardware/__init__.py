"""Hardware: backends of real robots (none yet), teleoperation devices, intervention detection."""

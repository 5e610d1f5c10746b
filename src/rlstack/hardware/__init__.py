"""Hardware: drivers of real robots (none yet), teleoperation devices, intervention detection."""

"""Many small MuJoCo worlds with one arm and its objects, stepped together; see :mod:`rlstack.sim.batch_mujoco`."""

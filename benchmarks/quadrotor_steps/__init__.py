"""The step of rlstack.sim.batch_quadrotor.dynamics in other languages, each written the way that is usual there."""

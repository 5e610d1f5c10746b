"""The step of rlstack.sim.batch.dynamics in other languages, each written the way that is usual there."""

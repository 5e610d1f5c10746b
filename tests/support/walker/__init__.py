"""A kind of robot that rlstack does not have: a body on four legs, as another package would add it."""

"""One module for each kind of robot that can learn; see :mod:`rlstack.verification.examiner`."""

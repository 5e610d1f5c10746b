"""Many small MuJoCo worlds with one jointed robot each, stepped together; see :mod:`.worlds`."""

"""ROS 2 nodes: thin, no logic of their own; what can be pure lives on the floors below."""

import signal
import sys

if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # This process is a node that begins to load (``python -m rlstack.nodes.guard``; later argv has the module's path).
    # Ctrl-C ends it without a traceback out of its imports, until ``run_nodes`` has a handler for an orderly end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

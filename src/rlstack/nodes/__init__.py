"""ROS 2 nodes: thin wrappers around pure code in the layers below."""

import signal
import sys

if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # This process is a node that is starting (``python -m rlstack.nodes.guard``; later argv has the module's path).
    # Ctrl-C ends it without a traceback from its imports, until ``run_nodes`` installs a handler for an orderly exit.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

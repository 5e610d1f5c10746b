"""Runs a worker in a Python environment of its own; started by :mod:`.workers`, and needs no rlstack.

``python serve.py FILE FD`` makes the class ``Worker`` of FILE and answers commands on a connection: a tuple of a
method's name and its arguments, answered by ``(None, answer)``, or by an error's sentence.
"""

from __future__ import annotations

import runpy
import signal
import sys
import time
import traceback
import warnings
from multiprocessing.connection import Connection


def main() -> None:
    """Answer until the other end closes."""
    warnings.simplefilter("ignore")  # of packages of other times
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end decides
    file, descriptor = sys.argv[1:]
    connection, worker = Connection(int(descriptor)), runpy.run_path(file)["Worker"]()
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = time.process_time() if name == "cpu" else getattr(worker, name)(*arguments)
            connection.send((None, answer))
        except Exception as error:
            traceback.print_exc()
            connection.send((f"{type(error).__name__}: {error}", None))


if __name__ == "__main__":
    main()

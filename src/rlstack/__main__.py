"""Run the command line with `python -m rlstack`."""

import sys

from rlstack.cli import main

sys.exit(main())

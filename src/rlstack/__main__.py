"""`python -m rlstack` is `rlstack`."""

import sys

from rlstack.cli import main

sys.exit(main())

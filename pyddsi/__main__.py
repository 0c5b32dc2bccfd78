"""`python -m pyddsi`, the same program as `pyddsi`."""

from __future__ import annotations

import sys

from pyddsi.cli import main

sys.exit(main())

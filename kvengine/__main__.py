"""``python -m kvengine``."""

from __future__ import annotations

import sys

from kvengine.cli import main

if __name__ == "__main__":
    sys.exit(main())

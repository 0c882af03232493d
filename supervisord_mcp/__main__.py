"""``python -m supervisord_mcp`` is ``smcp``."""

from __future__ import annotations

import sys

from supervisord_mcp.cli import main

if __name__ == "__main__":
    sys.exit(main())

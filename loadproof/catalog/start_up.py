"""What a start takes, by order of magnitude: no published table tells these apart.

Their sum from zero for an 8B model, alarm included, is about the 9.4 minutes that a third party measured. Give your own
where you know them.
"""

from __future__ import annotations

from typing import Final

INSTANCE_START_S: Final = 240.0
IMAGE_PULL_S: Final = 120.0
WEIGHTS_GIB_PER_S: Final = 0.5
SERVER_START_S: Final = 60.0

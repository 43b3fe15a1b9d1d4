"""Where a reader can follow the sources of prices: pages that vendored rows name, and no others."""

from __future__ import annotations

import re
from functools import cache

from loadproof.catalog.readers import instances

_ADDRESS = re.compile(r"https://[\w./@%+-]+", re.ASCII)


@cache
def price_addresses() -> frozenset[str]:
    """The addresses in the sources of instances' prices. What else claims to be a source is not for following."""
    return frozenset(found for row in instances().values() for found in _ADDRESS.findall(row.price_source))

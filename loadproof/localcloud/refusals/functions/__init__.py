"""What Lambda refuses beyond its service model."""

from __future__ import annotations

from loadproof.localcloud.refusals.functions import making, mappings, using
from loadproof.localcloud.refusals.rules import Rule

FIRST: dict[str, Rule] = {**making.FIRST, **using.FIRST}
RULES: dict[str, Rule] = {**making.RULES, **using.RULES, **mappings.RULES}

"""What DynamoDB refuses beyond its service model, and moto takes or breaks at."""

from __future__ import annotations

from loadproof.localcloud.refusals.rules import Rule
from loadproof.localcloud.refusals.tables import items, making

RULES: dict[str, Rule] = {**making.RULES, **items.RULES}

"""What DynamoDB refuses beyond its service model, and moto takes or breaks at."""

from __future__ import annotations

from loadproof.localcloud.refusals.rules import Rule
from loadproof.localcloud.refusals.tables import items, making
from loadproof.localcloud.wire import AwsError, Caller, Params


def _partiql(caller: Caller, params: Params) -> None:
    """moto reads it by a package that is not here, and breaks."""
    raise AwsError("NotImplemented", "The local cloud does not provide this: DynamoDB's statements in PartiQL")


_PARTIQL = ("ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction")
RULES: dict[str, Rule] = {**making.RULES, **items.RULES, **dict.fromkeys(_PARTIQL, _partiql)}

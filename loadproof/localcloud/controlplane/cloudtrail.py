"""CloudTrail's event history, empty. The CDK CLI looks there after a failure; without it, it tries for 24 s."""

from __future__ import annotations

from typing import Any

from loadproof.localcloud.controlplane.wire import Caller, Params


class CloudTrailApi:
    """Nobody's calls are recorded here; trails are moto's."""

    def LookupEvents(self, caller: Caller, params: Params) -> dict[str, Any]:  # noqa: N802
        return {"Events": []}

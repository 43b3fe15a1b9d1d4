"""Faults that somebody asked for: the SSM parameter `/loadproof/local-cloud/bedrock/fault`, as JSON.

`{"error": "ServiceUnavailableException", "share": 0.3, "model": "meta.llama3-1-8b-instruct-v1:0", "when": "midway"}`:
only `error` must be there; `share` of the requests (1), to that model (every one), `before` or `midway` (before).
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from loadproof.localcloud.bedrock.errors import STATUS
from loadproof.localcloud.wire import Caller

log = logging.getLogger(__name__)
FAULT_PARAMETER = "/loadproof/local-cloud/bedrock/fault"


@dataclass(frozen=True, slots=True)
class Fault:
    """`midway`: after half of the answer, inside the stream where it streams."""

    error: str
    midway: bool


FaultOf = Callable[[Caller, str], Fault | None]


class ParameterFaults:
    """Reads the parameter anew for every request; what cannot be read is told once and does nothing."""

    def __init__(self, parameter: Callable[[Caller, str], str | None]) -> None:
        self._parameter = parameter
        self._random = random.Random(0)
        self._told = ""

    def __call__(self, caller: Caller, model_id: str) -> Fault | None:
        text = self._parameter(caller, FAULT_PARAMETER)
        if text is None:
            return None
        try:
            asked = json.loads(text)
            error, share = asked["error"], float(asked.get("share", 1.0))
            if error not in STATUS:
                raise ValueError(f"error is one of {', '.join(STATUS)}")
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            self._tell(text, problem)
            return None
        if asked.get("model") not in (None, model_id) or self._random.random() >= share:
            return None
        return Fault(error, asked.get("when") == "midway")

    def _tell(self, text: str, problem: Exception) -> None:
        if text != self._told:
            self._told = text
            log.warning("%s cannot be read (%s): %.200s", FAULT_PARAMETER, problem, text)

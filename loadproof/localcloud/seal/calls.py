"""What deployed functions ask AWS for: a line each in the cloud's log, where LOADPROOF_CALLS is set.

That is what their roles have to allow, and all that they have to.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Final
from urllib.parse import parse_qs

from aiohttp import web

log = logging.getLogger(__name__)
CALLER: Final = "AWS_SDK_UA_APP_ID"  # SDKs send it along; functions have their name there
WANTED: Final = bool(os.environ.get("LOADPROOF_CALLS"))
_APPLICATION: Final = re.compile(r"(?:^| )app/(\S+)")
_SERVICE: Final = re.compile(r"Credential=[^/]+/\d+/[^/]*/([^/]+)/")


def note(request: web.Request, body: bytes) -> None:
    """`asked: FUNCTION SERVICE OPERATION METHOD PATH`; `-` for the operation where method and path say it."""
    caller = _APPLICATION.search(request.headers.get("User-Agent", ""))
    service = _SERVICE.search(request.headers.get("Authorization", ""))
    if caller is None or service is None:
        return
    operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    if not operation and request.content_type == "application/x-www-form-urlencoded":
        operation = parse_qs(body.decode(errors="replace")).get("Action", [""])[0]
    log.info("asked: %s %s %s %s %s", caller[1], service[1], operation or "-", request.method, request.raw_path)

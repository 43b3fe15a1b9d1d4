"""boto3 clients that speak to this very local cloud, one for each service, account and region."""

from __future__ import annotations

import threading
from typing import Any

from emulator.controlplane.wire import Caller


class Clients:
    """`endpoint_url` is known only once the server listens, so it is set later."""

    def __init__(self) -> None:
        self.endpoint_url = ""
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str, str], Any] = {}

    def client(self, service: str, caller: Caller) -> Any:
        """The client of a service; made once for each account and region (making one takes ~50 ms)."""
        import boto3
        from botocore.config import Config

        with self._lock:
            known = self._made.get((service, caller.account, caller.region))
            if known is None:
                known = boto3.session.Session().client(
                    service,
                    region_name=caller.region,
                    endpoint_url=self.endpoint_url,
                    aws_access_key_id=caller.access_key or "loopback",
                    aws_secret_access_key="loopback",
                    config=Config(
                        retries={"total_max_attempts": 1},
                        s3={"addressing_style": "path"},
                        proxies={},
                        max_pool_connections=4,
                    ),
                )
                self._made[(service, caller.account, caller.region)] = known
            return known

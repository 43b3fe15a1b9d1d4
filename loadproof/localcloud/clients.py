"""boto3 clients that speak to this very local cloud, one for each service, account and region."""

from __future__ import annotations

import threading

import boto3
from botocore.client import BaseClient
from botocore.config import Config

from loadproof.localcloud.seal.keys import CloudKeys
from loadproof.localcloud.wire import Caller


class Clients:
    """`endpoint_url` is known only once the server listens, so it is set later."""

    def __init__(self, keys: CloudKeys) -> None:
        self.endpoint_url = ""
        self._keys = keys
        self._lock = threading.Lock()
        self._session = boto3.session.Session()  # one for all: each would read botocore's descriptions anew
        self._made: dict[tuple[str, str, str], BaseClient] = {}

    def client(self, service: str, caller: Caller) -> BaseClient:
        """The client of a service; made once for each account and region (making one takes ~50 ms)."""
        with self._lock:
            known = self._made.get((service, caller.account, caller.region))
            if known is None:
                known = self._session.client(
                    service,
                    region_name=caller.region,
                    endpoint_url=self.endpoint_url,
                    **self._keys.signing(caller.access_key),
                    config=Config(
                        retries={"total_max_attempts": 1},
                        s3={"addressing_style": "path"},
                        proxies={},
                        max_pool_connections=4,
                        read_timeout=900,  # a function's longest
                        inject_host_prefix=False,  # there is one name
                    ),
                )
                self._made[(service, caller.account, caller.region)] = known
            return known

"""moto's server on a port of its own, reached only through the front."""

from __future__ import annotations

import os
from typing import Any


def start_moto(account: str) -> tuple[Any, int]:
    """Start moto in threads of this process. Returns the server and its port on 127.0.0.1."""
    # Read by moto when its modules load: the account of unknown keys, AWS's own managed policies, no reset over HTTP.
    os.environ["MOTO_ACCOUNT_ID"] = account
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    os.environ["MOTO_ENABLE_ISO_REGIONS"] = "false"
    from moto.server import ThreadedMotoServer

    _keep_policies_unenforced()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return server, int(server.get_host_and_port()[1])


def _keep_policies_unenforced() -> None:
    """Bucket policies are kept but not enforced, like every other policy here.

    moto would enforce them without their conditions: CDK's own "deny when not TLS" then denies every upload.
    """
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    def neutral(self: Any, action: str, resource: str) -> Any:
        return PermissionResult.NEUTRAL

    bucket: Any = FakeBucket
    bucket.get_permission = neutral

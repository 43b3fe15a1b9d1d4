"""moto's server behind a socket in a folder of this user's: no port, so no page and no other user can reach it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.iam.access_control import PermissionResult
from moto.kms.models import KmsBackend
from moto.moto_server import threaded_moto_server
from moto.moto_server.werkzeug_app import DEFAULT_SERVICE_REGION, DomainDispatcherApplication
from moto.s3.models import FakeBucket
from moto.server import ThreadedMotoServer
from werkzeug.exceptions import NotFound

from loadproof.localcloud import owners
from loadproof.localcloud.account import subscriptions
from loadproof.localcloud.scratch import scratch_folder


@dataclass(frozen=True, slots=True)
class MotoHost:
    """A running server; `socket_path` is where the front reaches it."""

    socket_path: Path
    _server: ThreadedMotoServer

    def stop(self) -> None:
        self._server.stop()
        shutil.rmtree(self.socket_path.parent, ignore_errors=True)


class _Services(DomainDispatcherApplication):
    """moto's services by what a request is signed for, never by its path.

    moto's own API, which shows and resets everything, and the metadata of an instance are told by their paths alone:
    so they are not there, however a path is written, and a bucket may have their names.
    """

    _NOT_OF_AWS = frozenset({None, "moto_api", "moto_api._internal", "instance_metadata"})

    def get_application(self, environ: dict[str, Any]) -> Any:
        with self.lock:
            backend = self._backend_of(environ)
            if backend in self._NOT_OF_AWS:
                return NotFound()
            if backend not in self.app_instances:
                self.app_instances[backend] = self.create_app(backend)
            return self.app_instances[backend]

    def _backend_of(self, environ: dict[str, Any]) -> Any:
        """Whoever comes without a header was let in by a presigned address of S3."""
        host = None
        if "HTTP_AUTHORIZATION" in environ:
            try:
                host = self.infer_service_region_host(environ, environ.get("PATH_INFO", ""))
            except LookupError:  # DynamoDB without a target
                return None
        return self.get_backend_for_host(host or "{}.{}.amazonaws.com".format(*DEFAULT_SERVICE_REGION))


class _NotProvided(ServiceException):
    """Of this module, not of moto's: moto looks an exception of its own up among its package's service's errors."""

    code = "NotImplemented"


def start_moto() -> MotoHost:
    """Start moto in threads of this process, which `local` has started with moto's settings."""
    _read_descriptions_once()
    _keep_policies_unenforced()
    _know_keys_by_arn()
    _say_what_is_not_here()
    subscriptions.install()
    owners.install()
    moto_server: Any = threaded_moto_server
    moto_server.DomainDispatcherApplication = _Services
    socket_path = scratch_folder("moto") / "socket"
    server = ThreadedMotoServer(ip_address=f"unix://{socket_path}", port=0, verbose=False)
    server.start()
    return MotoHost(socket_path, server)


def _read_descriptions_once() -> None:
    """moto makes a session wherever it wants to know AWS's regions, and each would read botocore's files anew."""
    botocore.session.create_loader = cache(botocore.session.create_loader)


def _keep_policies_unenforced() -> None:
    """Bucket policies are kept but not enforced, like every other policy here.

    moto would enforce them without their conditions: CDK's own "deny when not TLS" then denies every upload.
    """

    def neutral(self: Any, action: str, resource: str) -> Any:
        return PermissionResult.NEUTRAL

    bucket: Any = FakeBucket
    bucket.get_permission = neutral


def _know_keys_by_arn() -> None:
    """AWS takes a key's id or its ARN. moto looks an ARN up as it is for these, and breaks."""
    backend: Any = KmsBackend
    for name in ("cancel_key_deletion", "disable_key", "enable_key", "schedule_key_deletion"):
        setattr(backend, name, _by_id(getattr(backend, name)))


def _say_what_is_not_here() -> None:
    """An operation that moto lacks is refused in the service's own protocol.

    moto breaks over it: a page of HTML and a 500, which SDKs try four times more and take for a fault of AWS's.
    """
    responses: Any = BaseResponse
    call_action = responses.call_action

    def told(self: Any) -> Any:
        try:
            return call_action(self)
        except (NotImplementedError, ImportError) as error:  # some need a package that moto leaves to its users
            return self.serialized(ActionResult(_NotProvided(f"The local cloud does not provide this: {error}")))

    responses.call_action = told


def _by_id(operation: Callable[..., Any]) -> Callable[..., Any]:
    def on_key(self: KmsBackend, key_id: str, *more: Any, **named: Any) -> Any:
        return operation(self, self.get_key_id(key_id), *more, **named)

    return on_key

"""How bytes reach a model: SageMaker's runtime (signed, event stream) or any HTTP model server."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypedDict
from urllib.parse import SplitResult, urlsplit

from loadproof.errors import InputError
from loadproof.invocation.connections import ConnectionPool, Receiver, Timeouts
from loadproof.invocation.credentials import CredentialSource, from_environment
from loadproof.invocation.eventstream import PayloadPartDecoder
from loadproof.invocation.sigv4 import Signer

_ENDPOINT_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9])*")
_PREFIX_AWARE_ID = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,62}[\x21-\x7e])?")
_HEADER_TEXT = re.compile(r"[\x20-\x7e]*")
_USER_AGENT = "loadproof/0.1.0"


class Unwrapper(Protocol):
    """Takes a transport's own framing off the body of a stream."""

    def usual_parts(self, reads: Sequence[bytes], at: int) -> tuple[list[bytes], list[int]]:
        """A short cut: what is inside the reads from `at` on, and of which read each part is.

        It ends before the first read that is anything but usual frames, all whole: `feed` that one.
        """
        ...

    def feed(self, data: bytes) -> Iterable[bytes]: ...

    @property
    def kept_bytes(self) -> int:
        """Of a frame that is not whole."""
        ...

    def finish(self) -> None: ...


class Transport(Protocol):
    """Sends one body and hands the answer to a receiver as it arrives. Retries nothing."""

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        """Returns when the answer is complete. Raises InvocationFault."""
        ...

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        """For the body of an answer with status 200; None where the payload comes bare."""
        ...

    async def warm(self, count: int, timeouts: Timeouts) -> None:
        """Open connections ahead of the first requests. Raises InvocationFault."""
        ...

    def hand_over(self) -> None:
        """Give the receivers all that was read."""
        ...

    def cancel_all(self) -> None: ...

    async def close(self) -> None: ...


class Reach(TypedDict, total=False):
    """How SageMaker's runtime is reached, where that is not botocore's and the system's to say."""

    credentials: CredentialSource | None
    endpoint_url: str | None
    tls: ssl.SSLContext | None
    kernel_times: bool


class PooledTransport:
    """What all transports share: one pool of connections to one host."""

    def __init__(self, url: SplitResult, tls: ssl.SSLContext | None, kernel_times: bool) -> None:
        secure = url.scheme == "https"
        assert url.hostname is not None
        port = url.port or (443 if secure else 80)
        self._host = url.netloc
        self._base_path = url.path.rstrip("/")
        context = (tls or trusted_tls()) if secure else None
        self._pool = ConnectionPool(url.hostname, port, context, kernel_times=kernel_times)

    async def warm(self, count: int, timeouts: Timeouts) -> None:
        await self._pool.warm(count, timeouts)

    def hand_over(self) -> None:
        self._pool.hand_over()

    def cancel_all(self) -> None:
        self._pool.cancel_all()

    async def close(self) -> None:
        self._pool.close()


class SageMakerTransport(PooledTransport):
    """`InvokeEndpoint` and `InvokeEndpointWithResponseStream` of one endpoint (and component)."""

    def __init__(
        self,
        endpoint: str,
        *,
        region: str,
        component: str | None = None,
        prefix_aware_id: str | None = None,
        credentials: CredentialSource | None = None,
        endpoint_url: str | None = None,
        tls: ssl.SSLContext | None = None,
        kernel_times: bool = True,
    ) -> None:
        """`prefix_aware_id`: where routing is PREFIX_AWARE, alike prompts of one id go to the same instance.

        `credentials` None: what botocore finds. `kernel_times` False: reads are stamped by us, as on other systems.

        Raises InputError (names, URL), CouldNotRunError (credentials).
        """
        for what, name in (("endpoint", endpoint), ("component", component)):
            if name is not None and not (_ENDPOINT_NAME.fullmatch(name) and len(name) <= 63):
                raise InputError(f"{what} name {name!r}: expected 1 to 63 letters, digits and inner hyphens")
        check_prefix_aware_id(prefix_aware_id)
        url = parse_url(endpoint_url or f"https://runtime.sagemaker.{region}.{dns_suffix(region)}")
        super().__init__(url, tls, kernel_times)
        self._credentials = credentials or from_environment(endpoint_url)
        self._signer = Signer(region, "sagemaker")
        self._base = f"{self._base_path}/endpoints/{endpoint}"
        targets = {"inference-component": component, "prefix-aware-id": prefix_aware_id}
        self._targets = {f"x-amzn-sagemaker-{name}": value for name, value in targets.items() if value is not None}

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        path = f"{self._base}/invocations-response-stream" if stream else f"{self._base}/invocations"
        # The streaming operation keeps `Accept` for the event stream itself.
        accept_name = "x-amzn-sagemaker-accept" if stream else "accept"
        headers = {"host": self._host, "content-type": content_type, accept_name: accept, **self._targets}
        credentials = await self._credentials.current()
        headers.update(self._signer.sign("POST", path, headers, body, credentials))
        await self._pool.exchange(request_bytes(path, headers, body), receiver, timeouts)

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return PayloadPartDecoder() if stream else None


class HttpTransport(PooledTransport):
    """A model server's own URL: `/v1/chat/completions`, `/invocations`, `/generate`, ..."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        kernel_times: bool = True,
    ) -> None:
        """`headers` are sent with every request, for example an authorization. Raises InputError."""
        parts = parse_url(url, with_query=True)
        super().__init__(parts, tls, kernel_times)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        for name, value in self._headers.items():
            if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name) or not _HEADER_TEXT.fullmatch(value):
                raise InputError(f"header {name!r}: expected a token and printable ASCII")  # never echo the value

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        headers = {"host": self._host, "content-type": content_type, "accept": accept, **self._headers}
        await self._pool.exchange(request_bytes(self._target, headers, body), receiver, timeouts)

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return None


def request_bytes(target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A whole POST request."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {target} HTTP/1.1\r\n{lines}user-agent: {_USER_AGENT}\r\naccept-encoding: identity\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode("ascii") + body


def check_prefix_aware_id(found: str | None) -> None:
    """As the API's `PrefixAwareId` has it; a header loses a space at its end. Raises InputError."""
    if found is not None and not _PREFIX_AWARE_ID.fullmatch(found):
        raise InputError(
            f"prefix-aware id {found!r}: expected 1 to 64 printable ASCII characters, no space at its ends"
        )


def bearer(token: str) -> str:
    """The `authorization` of a bearer token. Raises InputError, which never shows it."""
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InputError("bearer token: expected printable ASCII without spaces")
    return f"Bearer {token}"


def parse_url(url: str, *, with_query: bool = False) -> SplitResult:
    """An absolute http(s) URL. Raises InputError, which shows no part that may be a credential."""
    if "@" in url:
        raise InputError("URL with a user or password: put credentials into a header instead")
    if "#" in url or ("?" in url and not with_query):
        raise InputError("URL with a query or a fragment, which is not sent: end it with its host or path")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not _HEADER_TEXT.fullmatch(url) or " " in url:
        raise InputError(f"URL {url!r}: expected http://HOST[:PORT]/PATH or https://…")
    return parts


def trusted_tls() -> ssl.SSLContext:
    """Trusts the system's authorities (SSL_CERT_FILE included) and botocore's AWS_CA_BUNDLE and REQUESTS_CA_BUNDLE.

    Raises InputError for a bundle that cannot be read.
    """
    context = ssl.create_default_context()
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        bundle = os.environ.get(name)
        if not bundle:
            continue
        try:
            folder = Path(bundle).is_dir()
            context.load_verify_locations(None if folder else bundle, bundle if folder else None)
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"{name}={bundle}: not a file of PEM certificates ({error.strerror or error})") from None
    return context


def dns_suffix(region: str) -> str:
    """Of AWS's names in a region. Raises InputError for what is no region."""
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
        raise InputError(f"region {region!r}: expected a name like us-east-1")
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"

"""SageMaker's asynchronous inference as a transport: a request is queued, its answer is an object in S3.

    transport = AsynchronousTransport("my-endpoint", region="us-east-1", input_uri="s3://my-bucket/requests/")
    invocation = await Invoker(transport, codec_for("tgi")).invoke(GenerationRequest("Once", 64, stream=False))

The answer comes whole, and `end_ns` is when it was found, up to a pause between two looks after it was there.
Sources: InvokeEndpointAsync of botocore's service model; SageMaker developer guide, "Asynchronous inference".
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Sequence
from typing import Protocol, Unpack

import orjson

from loadproof.errors import InputError
from loadproof.invocation.connections import Receiver, Timeouts
from loadproof.invocation.faults import CanceledFault, ConnectionFault, HttpProtocolFault, TimeoutFault
from loadproof.invocation.s3_uri import S3_URI
from loadproof.invocation.transports import Reach, SageMakerTransport, Unwrapper, request_bytes

MAX_INLINE_BYTES = 128_000
_SLOWEST_LOOK = 8  # times the first pause: an answer that takes long is looked for rarely
_STATUS = re.compile(r"error \((\d{3})\)")
_PREFIX = "x-amzn-sagemaker-"


class Objects(Protocol):
    """Objects in S3. Blocking; run in threads."""

    def read(self, uri: str) -> bytes | None:
        """The object, or None while there is none to be had. Raises OSError."""
        ...

    def write(self, uri: str, body: bytes) -> None:
        """Raises OSError."""
        ...


class AsynchronousTransport(SageMakerTransport):
    """`InvokeEndpointAsync` of one endpoint, and the wait for its object in S3. Unary requests only."""

    def __init__(
        self,
        endpoint: str,
        *,
        region: str,
        input_uri: str | None = None,
        ttl_s: int | None = None,
        invocation_timeout_s: int | None = None,
        look_every_s: float = 0.5,
        objects: Objects | None = None,
        **reach: Unpack[Reach],
    ) -> None:
        """`input_uri`: prefix for requests above 128,000 bytes, which cannot go inline (None: they are refused).

        `ttl_s` (60 to 21,600) is how long a request may wait, `invocation_timeout_s` (1 to 3,600) how long the model
        may take; None leaves them to SageMaker (6 h, 15 min). `look_every_s` is the first pause between two looks at
        S3; they grow to eight times that. Where the endpoint has no place for failures in S3, a failure is a time-out
        here. Raises InputError, CouldNotRunError (credentials).
        """
        super().__init__(endpoint, region=region, **reach)
        limits = {"requestttlseconds": (ttl_s, 60, 21_600), "invocationtimeoutseconds": (invocation_timeout_s, 1, 3600)}
        for name, (value, low, high) in limits.items():
            if value is not None and not low <= value <= high:
                raise InputError(f"asynchronous inference: {name} {value}: expected {low} to {high}")
        if input_uri is not None and not S3_URI.fullmatch(input_uri):
            raise InputError(f"input prefix {input_uri!r}: expected s3://BUCKET/PREFIX/")
        self._limits = {f"{_PREFIX}{name}": str(value) for name, (value, _, _) in limits.items() if value is not None}
        self._input_uri = f"{input_uri.rstrip('/')}/" if input_uri else None
        self._look_every_s = look_every_s
        self._objects = objects or _s3_objects(region, reach.get("endpoint_url"))
        self._canceled = asyncio.Event()

    async def send(
        self, body: bytes, *, stream: bool, content_type: str, accept: str, receiver: Receiver, timeouts: Timeouts
    ) -> None:
        if stream:
            raise InputError("asynchronous inference answers whole: ask with stream=False")
        canceled, deadline_s = self._canceled, time.monotonic() + timeouts.total_s
        headers = {"host": self._host, f"{_PREFIX}content-type": content_type, f"{_PREFIX}accept": accept}
        headers |= self._limits
        if len(body) > MAX_INLINE_BYTES:
            headers[f"{_PREFIX}inputlocation"] = await self._stored(body)
            body = b""
        path = f"{self._base}/async-invocations"
        credentials = await self._credentials.current()
        headers.update(self._signer.sign("POST", path, headers, body, credentials))
        accepted = _Accepted(receiver)
        await self._pool.exchange(request_bytes(path, headers, body), accepted, timeouts)
        if accepted.status != 202:
            _hand_over(receiver, accepted.status, accepted.headers, accepted.body)
            return
        status, headers, answer = await self._found(accepted.headers, canceled, deadline_s, timeouts.total_s)
        _hand_over(receiver, status, headers, answer)

    def unwrapper(self, stream: bool) -> Unwrapper | None:
        return None

    def cancel_all(self) -> None:
        """End all exchanges and waits; what is queued at SageMaker is answered there all the same."""
        super().cancel_all()
        self._canceled.set()
        self._canceled = asyncio.Event()

    async def close(self) -> None:
        self.cancel_all()
        await super().close()

    async def _stored(self, body: bytes) -> str:
        if self._input_uri is None:
            raise InputError(
                f"a request of {len(body)} bytes: at most {MAX_INLINE_BYTES} go inline; give an input_uri in S3"
            )
        uri = f"{self._input_uri}{uuid.uuid4()}"
        try:
            await asyncio.to_thread(self._objects.write, uri, body)
        except OSError as error:
            raise ConnectionFault("s3", f"the request could not be stored at {uri}: {error}") from error
        return uri

    async def _found(
        self, headers: dict[str, str], canceled: asyncio.Event, deadline_s: float, limit_s: float
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body that InvokeEndpoint would have answered with. Raises InvocationFault."""
        output, failure = headers.get(f"{_PREFIX}outputlocation"), headers.get(f"{_PREFIX}failurelocation")
        if output is None:
            raise HttpProtocolFault("a request was accepted without an OutputLocation")
        pause_s, complaint = self._look_every_s, None
        while True:
            try:
                if (answer := await asyncio.to_thread(self._objects.read, output)) is not None:
                    return 200, {}, answer
                if failure and (failed := await asyncio.to_thread(self._objects.read, failure)) is not None:
                    return 424, {"x-amzn-errortype": "ModelError"}, failure_body(failed)
                complaint = None
            except OSError as error:  # a look that failed costs nothing: look again
                complaint = error
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                if complaint is not None:
                    raise ConnectionFault("s3", f"the answer at {output} cannot be read: {complaint}") from complaint
                raise TimeoutFault("total", limit_s)
            if await _set_within(canceled, min(pause_s, left_s)):
                raise CanceledFault("ended by us before the answer was there")
            pause_s = min(pause_s * 1.5, self._look_every_s * _SLOWEST_LOOK)


def _s3_objects(region: str, endpoint_url: str | None) -> Objects:
    from loadproof.invocation.s3_objects import S3Objects  # noqa: PLC0415  a sender comes up without botocore

    return S3Objects(region, endpoint_url)


class _Accepted:
    """The answer to the request itself, which holds places but no text."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    def on_sent(self, now_ns: int) -> None:
        self._receiver.on_sent(now_ns)

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers

    def on_bodies(self, arrived_ns: Sequence[int], read_ns: Sequence[int], bodies: Sequence[bytes]) -> bool:
        self.body += b"".join(bodies)
        return False


def _hand_over(receiver: Receiver, status: int, headers: dict[str, str], body: bytes) -> None:
    now_ns = time.perf_counter_ns()
    receiver.on_head(status, headers)
    receiver.on_bodies((now_ns,), (now_ns,), (body,))


async def _set_within(event: asyncio.Event, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def failure_body(failure: bytes) -> bytes:
    """A failure's object, which is plain words, as the body of the error that InvokeEndpoint would have answered."""
    text = failure.decode("utf-8", "replace")
    found = _STATUS.search(text)
    return orjson.dumps({"Message": text} | ({"OriginalStatusCode": int(found[1])} if found else {}))

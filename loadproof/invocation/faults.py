"""What can go wrong with one answer, as types. The invoker turns each into an outcome; none reaches a user raw."""

from __future__ import annotations

from loadproof.errors import LoadproofError


class InvocationFault(LoadproofError):  # noqa: N818 (AWS names its own `…Failure`; ours are faults of the other side)
    """Base of every fault of an endpoint, a connection or a payload."""


SHORTAGE = "shortage"  # of a ConnectionFault: this machine has no descriptor, port or buffer left for one


class ConnectionFault(InvocationFault):
    """No connection, or one that broke: refused, reset, closed before the answer, TLS failure, `SHORTAGE`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TimeoutFault(InvocationFault):
    """A limit passed. `phase` is `connect`, `first_byte`, `idle` or `total`."""

    def __init__(self, phase: str, limit_s: float) -> None:
        super().__init__(f"{phase} time-out after {limit_s:g} s")
        self.phase = phase


class CanceledFault(InvocationFault):
    """We ended the request ourselves, for example when a drain deadline passed."""


class HttpProtocolFault(InvocationFault):
    """The peer does not speak HTTP/1.1 as RFC 9112 has it."""


class FrameError(InvocationFault):
    """An event-stream frame is damaged: a checksum, a length or a header is wrong."""


class PayloadError(InvocationFault):
    """Bytes arrived whole, but they are not what the protocol says."""


class BudgetFault(InvocationFault):
    """More than an answer may be. `code` says of what: see `budgets`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TruncatedStreamError(InvocationFault):
    """The answer ended before the model's end marker (or before the end its framing promised)."""


class InBandError(InvocationFault):
    """A stream or body with status 200 that carries an error instead of an answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ModelStreamError(InvocationFault):
    """The service's own: the model broke while it streamed.

    Codes are SageMaker's `ModelInvocationTimeExceeded` and `StreamBroken`, or the name of Bedrock's exception as its
    event has it (`throttlingException`). `original_status`: the model's own, where the service tells it.
    """

    def __init__(self, code: str, message: str, original_status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.original_status = original_status


class InternalStreamFailure(InvocationFault):
    """SageMaker's own: the service broke while it streamed."""

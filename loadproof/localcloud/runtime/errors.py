"""SageMaker runtime's errors on the wire: botocore reads the type from the header and the message from the body."""

from __future__ import annotations

import uuid

import orjson
from aiohttp import web

from loadproof.localcloud.wire import violation
from loadproof.wire.documents import Json

MAX_BODY_BYTES = 6_291_456
_STATUS = {
    "ValidationError": 400,
    "ThrottlingException": 400,
    "ModelError": 424,
    "ModelNotReadyException": 429,
    "InternalFailure": 500,
    "ServiceUnavailable": 503,
}


class InvokeError(Exception):
    """One modelled error of InvokeEndpoint. `fields` are members beside Message, as the API names them."""

    def __init__(self, error_type: str, message: str, **fields: Json) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.fields = fields

    @property
    def metrics(self) -> tuple[str, ...]:
        """The error metrics it counts in, once it has reached a container."""
        status = int(self.fields.get("OriginalStatusCode", 0))
        by_status = {4: ("Invocation4XXErrors",), 5: ("Invocation5XXErrors",)}.get(status // 100, ())
        return ("InvocationModelErrors", *by_status)

    def response(self) -> web.Response:
        return web.Response(
            status=_STATUS[self.error_type],
            body=orjson.dumps({"Message": self.message, **self.fields}),
            content_type="application/json",
            headers={"x-amzn-ErrorType": self.error_type, "x-amzn-RequestId": str(uuid.uuid4())},
        )


def endpoint_not_found(name: str, account: str) -> InvokeError:
    return InvokeError("ValidationError", f"Endpoint {name} of account {account} not found.")


def endpoint_not_in_service(name: str, status: str) -> InvokeError:
    return InvokeError("ValidationError", f"Endpoint {name} is not InService (it is {status}) and takes no requests.")


def asynchronous_only(name: str) -> InvokeError:
    return InvokeError("ValidationError", f"Endpoint {name} is asynchronous: it takes InvokeEndpointAsync only.")


def variant_not_found(endpoint: str, variant: str) -> InvokeError:
    return InvokeError("ValidationError", f"Variant {variant} is not found for endpoint {endpoint}.")


def model_header_not_allowed(endpoint: str) -> InvokeError:
    return InvokeError(
        "ValidationError",
        f"Endpoint {endpoint} is not a multi-model endpoint and does not support target model header.",
    )


def container_header_not_allowed(endpoint: str) -> InvokeError:
    return InvokeError(
        "ValidationError", f"Endpoint {endpoint} is not a multi-container endpoint with direct invocation."
    )


def header_refused(field: str, found: list[str]) -> InvokeError:
    place = f"{field[0].lower()}{field[1:]}"
    return InvokeError("ValidationError", violation([one.replace("at ''", f"at '{place}'") for one in found]))


def component_missing() -> InvokeError:
    return InvokeError(
        "ValidationError",
        "Inference Component Name header is required for endpoints to which you plan to deploy inference components. "
        "Please include Inference Component Name header or consider using SageMaker models.",
        ErrorCode="INFERENCE_COMPONENT_NAME_MISSING",
    )


def component_not_allowed(endpoint: str) -> InvokeError:
    return InvokeError(
        "ValidationError",
        f"Inference Component Name header is not allowed: endpoint {endpoint} hosts a model, no components.",
    )


def component_not_found(name: str, endpoint: str) -> InvokeError:
    return InvokeError("ValidationError", f"Inference Component {name} of endpoint {endpoint} not found.")


def no_capacity() -> InvokeError:
    return InvokeError(
        "ValidationError",
        "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress (if "
        "configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API.",
    )


def body_too_large() -> InvokeError:
    return InvokeError(
        "ValidationError",
        "1 validation error detected: Value at 'body' failed to satisfy constraint: "
        f"Member must have length less than or equal to {MAX_BODY_BYTES}",
    )


def model_error(status: int, message: str, log_stream_arn: str) -> InvokeError:
    """The container answered anything but 2xx. `status` 0: no answer at all."""
    kind = "client" if 400 <= status < 500 else "server"
    return InvokeError(
        "ModelError",
        f'Received {kind} error ({status}) from primary with message "{message}". '
        f"See {log_stream_arn} for more information.",
        OriginalStatusCode=status,
        OriginalMessage=message,
        LogStreamArn=log_stream_arn,
    )


TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for "
    "each container in Amazon CloudWatch, resolve the issue, and try again."
)

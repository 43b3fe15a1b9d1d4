"""One message: invoke the model, store the answer. Whoever runs it decides about batches and the queue."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from .answer import AnswerBuilder, StreamError, streaming_request
from .message import MalformedMessageError, Message, read_message

# A model's 4xx that time can heal; any other means that this request will never be served.
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})


class RetryLaterError(Exception):
    """Not answered this time; the message should come back."""


class NeverError(Exception):
    """This message can never be answered, however often it comes back."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where requests go and where answers go. `component` is None for a plain variant."""

    endpoint: str
    component: str | None
    protocol: str
    revision: str
    bucket: str
    prefix: str
    timeout_s: float

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> Settings:
        """From the function's environment (stacks/buffer/infrastructure.py writes it)."""
        return cls(
            endpoint=variables["ENDPOINT_NAME"],
            component=variables.get("COMPONENT_NAME"),
            protocol=variables["PROTOCOL"],
            revision=variables["MODEL_REVISION"],
            bucket=variables["RESULTS_BUCKET"],
            prefix=variables["RESULTS_PREFIX"],
            timeout_s=float(variables["INVOCATION_TIMEOUT_S"]),
        )


class Worker:
    """Serves messages one at a time with the clients it is given."""

    def __init__(
        self, settings: Settings, *, runtime: Any, s3: Any, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._s3 = s3
        self._clock_s = clock_s

    def serve(self, body: str, *, message_id: str, time_left_s: float) -> str:
        """Answer one body and return its result's key in the bucket.

        A result that is there already costs no generation. Raises RetryLaterError or NeverError.
        """
        try:
            message = read_message(body, revision=self._settings.revision)
        except MalformedMessageError as error:
            raise NeverError(str(error)) from None
        place = f"{self._settings.prefix}{message.key}.json"
        if not self._stored(place):
            limit_s = min(self._settings.timeout_s, time_left_s)
            if limit_s <= 0:
                raise RetryLaterError("no time left in this run of the function")
            started_s = self._clock_s()
            answer = self._answer(message, deadline_s=started_s + limit_s)
            self._store(place, message, answer, message_id, duration_s=self._clock_s() - started_s)
        return place

    def _answer(self, message: Message, *, deadline_s: float) -> dict[str, Any]:
        target = {"InferenceComponentName": self._settings.component} if self._settings.component else {}
        payload = streaming_request(message.request, self._settings.protocol)
        try:
            response = self._runtime.invoke_endpoint_with_response_stream(
                EndpointName=self._settings.endpoint,
                ContentType="application/json",
                Body=json.dumps(payload).encode(),
                **target,
            )
            return self._assembled(response["Body"], deadline_s)
        except ClientError as error:
            raise _judged(error) from error
        except (RetryLaterError, NeverError):
            raise
        except StreamError as error:
            raise RetryLaterError(str(error)) from error
        except Exception as error:
            # botocore lets struct.error, KeyError and urllib3's own errors through on damaged streams.
            raise RetryLaterError(f"the invocation broke ({type(error).__name__})") from error

    def _assembled(self, events: Iterable[Mapping[str, Any]], deadline_s: float) -> dict[str, Any]:
        builder = AnswerBuilder()
        try:
            for event in events:
                if "PayloadPart" not in event:
                    raise StreamError(f"the stream broke ({', '.join(event) or 'empty event'})")
                builder.feed(event["PayloadPart"]["Bytes"])
                if self._clock_s() > deadline_s:
                    raise RetryLaterError("the answer took longer than the invocation timeout")
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()
        return builder.finish()

    def _stored(self, place: str) -> bool:
        try:
            self._s3.head_object(Bucket=self._settings.bucket, Key=place)
        except ClientError as error:
            if _status(error) == 404:
                return False
            raise RetryLaterError(f"the results bucket answered {_status(error)}") from error
        return True

    def _store(
        self, place: str, message: Message, answer: dict[str, Any], message_id: str, *, duration_s: float
    ) -> None:
        """The conditional put decides between two consumers that answered the same request: the first one stays."""
        result = {
            "schema_version": 1,
            "key": message.key,
            "message_id": message_id,
            "endpoint": self._settings.endpoint,
            "component": self._settings.component,
            "model_revision": self._settings.revision,
            "duration_ms": round(duration_s * 1000, 3),
            "answer": answer,
        }
        try:
            self._s3.put_object(
                Bucket=self._settings.bucket,
                Key=place,
                Body=json.dumps(result).encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            if _status(error) != 412:
                raise RetryLaterError(f"the results bucket answered {_status(error)}") from error


def _judged(error: ClientError) -> RetryLaterError | NeverError:
    """The cause behind SageMaker's answer; 424 only wraps what the container said."""
    code = error.response["Error"].get("Code", "unknown")
    original = error.response.get("OriginalStatusCode")
    if code == "ModelError" and isinstance(original, int) and 400 <= original < 500:
        if original not in _PASSING_STATUSES:
            return NeverError(f"the model refused the request ({original})")
        return RetryLaterError(f"the model is busy ({original})")
    return RetryLaterError(f"the endpoint answered {code}")


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

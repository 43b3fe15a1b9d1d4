"""A message for the buffer, as its producer makes it: what the consumer would refuse is not sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from loadproof.errors import InputError
from loadproof.wire import message as wire
from loadproof.wire.message import MalformedError, request_json


class MessageError(MalformedError, InputError):
    """A message that no consumer would take. `problems` are all there are; none quotes what was to be sent."""


@contextmanager
def _refused() -> Iterator[None]:
    """What is malformed is, on this side, an error of the caller's input."""
    try:
        yield
    except MalformedError as error:
        raise MessageError(*error.problems) from None


read_object = _refused()(wire.read_object)
read_request = _refused()(wire.read_request)


@dataclass(frozen=True, slots=True)
class Message(wire.Message):
    """One request to a model, its fields those of `loadproof.wire.message.Message`. Raises MessageError.

    Its payload was made in Python, so it is read once as the consumer will read it.
    """

    def __post_init__(self) -> None:
        with _refused():
            wire.Message.__post_init__(self)

    def _problems(self) -> Iterator[str]:
        if isinstance(self.request, Mapping) and (refused := _unsendable(self.request)):
            yield f"`request`: {refused}"
        yield from wire.Message._problems(self)


@_refused()
def read_message(body: str) -> Message:
    """A message out of its JSON. Raises MessageError."""
    return Message(**wire.read_fields(body))


def _unsendable(request: Mapping[str, object]) -> str | None:
    """Why a payload made in Python is not what strict JSON can carry; None where it is."""
    try:
        wire.read_object(request_json(request))
    except MalformedError as error:
        return error.problems[0]
    except RecursionError:
        return "nested too deeply"
    except (TypeError, ValueError) as error:
        # Names of types only: a value may be what somebody asked in confidence.
        return "NaN and infinities are not JSON" if isinstance(error, ValueError) else "holds what JSON has no form for"
    return None

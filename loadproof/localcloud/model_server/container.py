"""What stands behind a copy: anything that answers `POST /invocations`, such as the twin or an HTTP model server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The bytes SageMaker hands to `/invocations`, untouched."""

    body: bytes
    content_type: str = "application/json"
    accept: str = "*/*"
    custom_attributes: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerResponse:
    """Status, type and the body as it is produced. Closing `parts` cancels the generation behind it."""

    status: int
    content_type: str
    parts: AsyncGenerator[bytes, None]


class ContainerDiedError(Exception):
    """The container went away before its answer was whole."""


class CannotStartError(Exception):
    """The container cannot start; the text becomes the component's FailureReason."""


class Container(Protocol):
    """One running container (one copy)."""

    async def invoke(self, request: ContainerRequest) -> ContainerResponse:
        """Raises ContainerDiedError when no answer can be had at all."""
        ...

    async def close(self) -> None:
        """Stop at once; running generations end with ContainerDiedError."""
        ...


async def whole(body: bytes) -> AsyncGenerator[bytes, None]:
    """A body that is ready at once, as the stream of one part."""
    yield body

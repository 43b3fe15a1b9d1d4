"""Trying several inputs before complaining, so that one run of a command tells all that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from loadproof.errors import InputError

T = TypeVar("T")


class Complaints:
    """Collects the complaints of what is attempted; `finish` raises them together."""

    def __init__(self) -> None:
        self._complaints: list[str] = []

    def attempt(self, make: Callable[[], T], otherwise: T) -> T:
        """What `make` gives, or `otherwise` after an InputError."""
        try:
            return make()
        except InputError as error:
            self.complain(str(error))
            return otherwise

    def complain(self, complaint: str) -> None:
        self._complaints.append(complaint)

    def finish(self) -> None:
        """Raises InputError with every complaint, a line each."""
        if self._complaints:
            raise InputError("\n".join(self._complaints))

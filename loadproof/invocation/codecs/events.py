"""What decoders of streams of JSON events share: the short cut, what was counted, what is kept."""

from __future__ import annotations

from abc import abstractmethod

import orjson

from loadproof.invocation.budgets import PLAIN_BYTES
from loadproof.invocation.codecs.types import StreamDecoder
from loadproof.invocation.sse import Splitter


class EventDecoder(StreamDecoder):
    """A decoder of JSON events out of a splitter. It counts the tokens, and how long their text is."""

    __slots__ = ("_counted", "_splitter", "_text_length")

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter
        self._counted = 0
        self._text_length = 0

    @property
    @abstractmethod
    def _ended(self) -> bool:
        """The end marker came: what follows is no part of the answer."""

    @staticmethod
    @abstractmethod
    def _usual_text(event: dict[str, object]) -> str | None:
        """What an event says, where it says something and nothing else; None: it is for `feed`."""

    def usual_texts(self, data: bytes) -> list[str] | None:
        if self._ended:
            return None
        texts = []
        for payload in self._splitter.usual_payloads(data) or ():
            try:
                event = orjson.loads(payload) if len(payload) <= PLAIN_BYTES else None
            except orjson.JSONDecodeError:
                return None
            if not isinstance(event, dict) or event.get("error") or event.get("object") == "error":
                return None  # those are for `load_object` and `refuse_error`
            text = self._usual_text(event)
            if text is None:
                return None
            texts.append(text)
        if not texts:
            return None
        self._counted += len(texts)
        self._text_length += sum(map(len, texts))
        return texts

    @property
    def kept_bytes(self) -> int:
        return self._splitter.kept_bytes

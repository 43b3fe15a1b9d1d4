"""What decoders of streams of JSON events share: the short cut, what was counted, what is kept."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence

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

    def usual_texts(self, parts: Sequence[bytes], at: int) -> tuple[list[str], list[int]]:
        texts: list[str] = []
        if self._ended:
            return texts, []
        payloads, of = self._splitter.usual_payloads(parts, at)
        usual_text, loads = self._usual_text, orjson.loads
        for payload in payloads:
            try:
                event = loads(payload) if len(payload) <= PLAIN_BYTES else None
            except orjson.JSONDecodeError:
                break
            # What is no object and what is an error are for `load_object` and `refuse_error`.
            if type(event) is not dict or event.get("error") or event.get("object") == "error":
                break
            text = usual_text(event)
            if text is None:
                break
            texts.append(text)
        if len(texts) < len(of):  # of a part all or nothing
            whole = bisect_left(of, of[len(texts)])
            del texts[whole:], of[whole:]
        self._counted += len(texts)
        self._text_length += sum(map(len, texts))
        return texts, of

    @property
    def kept_bytes(self) -> int:
        return self._splitter.kept_bytes

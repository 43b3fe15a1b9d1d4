"""How many tokens a text is: by the model's own tokenizer where its file is given, else estimated by words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from loadproof.errors import InputError

# Of English prose, in the vocabularies of Llama, Qwen and GPT models; for foreign texts, which words do not count.
TOKENS_PER_WORD = 1.33
FEWEST_ANYWHERE, FEWEST_INSIDE = 128, 64  # words, so that texts of them are not all alike
CountedBy = Literal["words", "tokenizer"]


class Counter(Protocol):
    """Counts tokens, and picks the words that are one token each."""

    @property
    def counted_by(self) -> CountedBy: ...

    def count(self, text: str) -> int:
        """Tokens of a whole prompt, special ones that the tokenizer adds included."""
        ...

    def count_prose(self, text: str) -> int:
        """Tokens of a text that is not made of our own words."""
        ...

    def usable(self, words: Sequence[str]) -> tuple[str, ...]:
        """Those of the words that are one token each after a space; all of them where too few are."""
        ...


class WordCounter:
    """One token a word: near the truth for our own common words, and what the local cloud's twin counts."""

    counted_by: CountedBy = "words"

    def count(self, text: str) -> int:
        return len(text.split())

    def count_prose(self, text: str) -> int:
        return max(1, round(TOKENS_PER_WORD * len(text.split())))

    def usable(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(words)


class TokenizerCounter:
    """A `tokenizer.json` of Hugging Face's `tokenizers` library, read from a local file; no network."""

    counted_by: CountedBy = "tokenizer"

    def __init__(self, path: Path) -> None:
        """Raises InputError without the library, for a missing file or one that is no tokenizer."""
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415  an extra
        except ImportError:
            raise InputError(
                "a tokenizer needs the `tokenizers` library: pip install 'loadproof[tokenizers]', "
                "or leave the tokenizer out and have tokens estimated by words"
            ) from None
        if path.is_dir():
            path = path / "tokenizer.json"
        if not path.is_file():
            raise InputError(f"{path}: no such tokenizer file; give the model's tokenizer.json or its folder")
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path}: not a tokenizer.json ({error}); give the one beside the model") from None

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def count_prose(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def usable(self, words: Sequence[str]) -> tuple[str, ...]:
        """One token each after another word; of those, where they are enough, the ones that can begin a text as one."""
        base = self.count_prose("a")
        inside = tuple(word for word in words if self.count_prose(f"a {word}") == base + 1)
        anywhere = tuple(word for word in inside if self.count_prose(word) == 1)
        if len(anywhere) >= FEWEST_ANYWHERE:
            return anywhere
        return inside if len(inside) >= FEWEST_INSIDE else tuple(words)


def counter_of(tokenizer: str | None) -> Counter:
    return WordCounter() if tokenizer is None else TokenizerCounter(Path(tokenizer))

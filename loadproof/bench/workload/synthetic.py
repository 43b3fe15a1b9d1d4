"""Texts of N tokens, the same for the same seed and salt, no two alike unless that is asked for.

A text of N tokens is N common English words: such a word with the space before it is one token in the vocabularies of
Llama, Qwen and GPT models, and exactly one token to the local cloud's twin. Without the model's own tokenizer that is
an *estimate*, and reports call it so. With it, words that it has as one token are used where there are enough, and each
text is counted and cut until it has the tokens asked for, special ones included.

Each prompt begins with the request's number spelled in words (after the shared prefix, if there is one), mixed with the
run's salt: a server that caches prefixes finds nothing to reuse from another request, nor from an earlier run. A
recorded block is words too, which spell its id mixed with salt and level: each prompt of a level that has the block has
those words, whichever process sends it.
"""

from __future__ import annotations

import hashlib
import math
import random
from itertools import accumulate
from pathlib import Path

from loadproof.bench.spec import REQUESTS_APART, WorkloadSpec
from loadproof.bench.workload.blocks import Blocks
from loadproof.bench.workload.counting import Counter

# Short, frequent and distinct. 256 of them, so that a number is spelled one byte a word.
WORDS = tuple(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())
CORPUS_WORDS = 32_768
NUMBERS = 256**6  # more requests than any run sends: six words
SAMPLE_WORDS = 512
MOST_CUTS = 4


class SyntheticTexts:
    """Makes any text on its own, in microseconds: bodies are slices of one seeded text."""

    def __init__(self, workload: WorkloadSpec, counter: Counter) -> None:
        self._counter = counter
        self._seed = workload.seed
        self._words = counter.usable(WORDS)
        self._corpus = words = random.Random(f"corpus {workload.seed}").choices(self._words, k=CORPUS_WORDS)
        self._text = " ".join(words)
        self._starts = [0, *accumulate(len(word) + 1 for word in words)]
        self._shared: dict[str, list[str]] = {}
        sample = words[:SAMPLE_WORDS]
        self._tokens_per_word = counter.count(" ".join(sample)) / len(sample)
        one = counter.count(sample[0])
        self._whole_words = counter.count(" ".join([sample[0], *sample])) == one + len(sample)  # each is one token
        self._salt_text = workload.salt
        self._salt = int.from_bytes(hashlib.sha256(workload.salt.encode()).digest()[:4], "big")

    def first(self, number: int, tokens: int, *, unique: bool, shared: int = 0, of: str = "") -> tuple[str, int]:
        """(text, its tokens) of a prompt: shared prefix, the number in words where it is to be unique, then body.

        `shared` tokens begin all prompts `of` one class alike.
        """
        head = [*self._prefix(shared, of), *(self._spelled(number) if unique else ())]
        return self._cut(head, number, tokens)

    def _prefix(self, tokens: int, of: str) -> list[str]:
        if tokens and of not in self._shared:
            named = f" {of}" if of else ""
            self._shared[of] = random.Random(f"shared {self._seed}{named}").choices(self._words, k=tokens)
        return self._shared[of] if tokens else []

    def of_blocks(self, number: int, tokens: int, blocks: Blocks, *, unique: bool) -> tuple[str, int]:
        """(text, its tokens) of a prompt that begins with these blocks; what they leave of it is its own.

        Special tokens that a tokenizer adds are part of the first block. Without `unique` neither salt nor level is in
        the blocks, so that other levels and runs have them too.
        """
        level = f"{self._seed} {self._salt_text} {number // REQUESTS_APART}" if unique else f"{self._seed}"
        head, size = list[str](), blocks.block_tokens
        for place, block in enumerate(blocks.ids[: -(-tokens // size)]):
            head += self._block(f"{level} {block}", min(size, tokens - place * size), first=place == 0)
        return self._cut([*head, *(self._spelled(number) if unique else ())], number, tokens)

    def _block(self, named: str, tokens: int, *, first: bool) -> list[str]:
        """Words of so many tokens: the name's hash spelled, then some of the corpus. The `first` of a prompt."""
        digest, base = hashlib.blake2b(named.encode(), digest_size=16).digest(), len(self._words)
        words = [self._words[byte % base] for byte in digest[:8]]
        start = int.from_bytes(digest[8:], "big") % CORPUS_WORDS
        while len(words) < tokens:  # a block longer than the corpus goes round it
            words += self._corpus[start : start + tokens - len(words)]
            start = 0
        if self._whole_words:
            return words[: max(1, 1 + tokens - self._counter.count(words[0])) if first else tokens]
        if first:
            return self._trimmed(" ".join(words[:tokens]), tokens)[0].split(" ")
        return self._trimmed(" " + " ".join(words[:tokens]), self._counter.count("") + tokens)[0][1:].split(" ")

    def turn(self, number: int, tokens: int) -> tuple[str, int]:
        """(text, its tokens) of a later turn: it stands after a conversation that is like no other already."""
        return self._cut([], number, tokens)

    def unique_head(self, number: int) -> str:
        return " ".join(self._spelled(number))

    def answer(self, number: int, tokens: int) -> str:
        """What stands in for an answer whose text is not known."""
        return " ".join(self._body(tokens, random.Random(f"answer {self._seed} {number}")))

    def _cut(self, head: list[str], number: int, tokens: int) -> tuple[str, int]:
        """A text of so many tokens; by words at the first try, by a tokenizer after counting what it makes of it."""
        words = max(1, round(tokens / self._tokens_per_word))
        for _ in range(MOST_CUTS):
            text = self._joined(head, number, words)
            counted = self._counter.count(text)
            if counted == tokens:
                return text, counted
            missing = (tokens - counted) / self._tokens_per_word
            words = max(1, words + (math.ceil(missing) if missing > 0 else math.floor(missing)))
        while counted < tokens:
            words += 1
            text = self._joined(head, number, words)
            counted = self._counter.count(text)
        return self._trimmed(text, tokens)

    def _trimmed(self, text: str, tokens: int) -> tuple[str, int]:
        """The longest beginning of a text with at most so many tokens, for words that are several tokens each."""
        shortest, longest = 1, len(text)
        while shortest < longest:
            middle = (shortest + longest + 1) // 2
            if self._counter.count(text[:middle]) <= tokens:
                shortest = middle
            else:
                longest = middle - 1
        return text[:shortest], self._counter.count(text[:shortest])

    def _joined(self, head: list[str], number: int, words: int) -> str:
        kept = head[:words]
        return " ".join([*kept, *self._body(words - len(kept), random.Random(f"body {self._seed} {number}"))])

    def _spelled(self, number: int) -> list[str]:
        """`number` xor salt as words, its fastest-changing digit first: even a prompt of one word then differs."""
        mixed, words = (number ^ self._salt) % NUMBERS, []
        base = len(self._words)
        for _ in range(math.ceil(math.log(NUMBERS, base))):
            mixed, digit = divmod(mixed, base)
            words.append(self._words[digit])
        return words

    def _body(self, count: int, draw: random.Random) -> list[str]:
        """`count` words from the corpus, as few strings; a body longer than the corpus goes round it."""
        pieces = []
        while count > 0:
            first = draw.randrange(CORPUS_WORDS)
            taken = min(count, CORPUS_WORDS - first)
            pieces.append(self._text[self._starts[first] : self._starts[first + taken] - 1])
            count -= taken
        return pieces

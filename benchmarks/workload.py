"""Prompts of about N tokens, the same for the same seed and salt, no two alike.

A prompt of N tokens is N common English words: such a word with the space before it is one token in the vocabularies
of Llama, Qwen and GPT models, and exactly one token to the local cloud's twin. Without the model's own tokenizer that
is an *estimate*, and reports call it so; where the server says how many tokens it read, its count is used instead.

Each prompt begins with the request's number spelled in words (after the shared prefix, if there is one), mixed with the
run's salt: a server that caches prefixes finds nothing to reuse from another request, nor from an earlier run.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from benchmarks.spec import TokenCounts, WorkloadSpec

# Short, frequent and distinct. 256 of them, so that a number is spelled one byte a word.
WORDS = tuple(Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split())
CORPUS_WORDS = 32_768
UNIQUE_WORDS = 6  # 256⁶ numbers: more requests than any run sends


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """What one request asks. `input_tokens` is the estimate above: the number of words."""

    text: str
    input_tokens: int
    output_tokens: int


class Prompts:
    """Makes the prompt of any request on its own, in microseconds: bodies are slices of one seeded text."""

    def __init__(self, workload: WorkloadSpec) -> None:
        self._workload = workload
        words = random.Random(f"corpus {workload.seed}").choices(WORDS, k=CORPUS_WORDS)
        self._text = " ".join(words)
        self._starts = [0, *accumulate(len(word) + 1 for word in words)]
        self._shared = _words_of(random.Random(f"shared {workload.seed}"), workload.shared_prefix_tokens)
        self._salt = int.from_bytes(hashlib.sha256(workload.salt.encode()).digest()[:UNIQUE_WORDS], "big")

    def planned(self, number: int, tokens: tuple[int, int] | None = None) -> PlannedPrompt:
        """The prompt of request `number` (unlike any other of the run, warm-up included).

        `tokens` are the (input, output) tokens a trace recorded; None: they are drawn.
        """
        draw = random.Random(f"{self._workload.seed} {number}")
        if tokens is None:
            tokens = sample_tokens(self._workload.input_tokens, draw), sample_tokens(self._workload.output_tokens, draw)
        input_tokens, output_tokens = tokens
        head = [*self._shared, *self._spelled(number)][:input_tokens]
        body = self._body(input_tokens - len(head), draw)
        return PlannedPrompt(" ".join([*head, *body]), input_tokens, output_tokens)

    def _spelled(self, number: int) -> list[str]:
        """`number` xor salt as words, its fastest-changing byte first: even a prompt of one word then differs."""
        mixed = (number ^ self._salt) % 256**UNIQUE_WORDS
        return [WORDS[byte] for byte in mixed.to_bytes(UNIQUE_WORDS, "little")]

    def _body(self, count: int, draw: random.Random) -> list[str]:
        """`count` words from the corpus, as few strings; a body longer than the corpus goes round it."""
        pieces = []
        while count > 0:
            first = draw.randrange(CORPUS_WORDS)
            taken = min(count, CORPUS_WORDS - first)
            pieces.append(self._text[self._starts[first] : self._starts[first + taken] - 1])
            count -= taken
        return pieces


def sample_tokens(counts: TokenCounts, draw: random.Random) -> int:
    """One token count from a distribution, rounded and cut to its bounds.

    lognormal: `mean` and `stddev` are of the counts themselves, not of their logarithm:
    σ² = ln(1 + stddev²/mean²), μ = ln mean − σ²/2.
    """
    if counts.distribution == "fixed":
        value = counts.mean
    elif counts.distribution == "normal":
        value = draw.gauss(counts.mean, counts.stddev)
    elif counts.distribution == "lognormal":
        variance = math.log1p((counts.stddev / counts.mean) ** 2)
        value = draw.lognormvariate(math.log(counts.mean) - variance / 2, math.sqrt(variance))
    else:
        value = draw.uniform(counts.minimum, counts.maximum or counts.minimum)
    highest = math.inf if counts.maximum is None else counts.maximum
    return int(max(counts.minimum, 1, min(round(value), highest)))


def _words_of(draw: random.Random, count: int) -> list[str]:
    return draw.choices(WORDS, k=count) if count else []

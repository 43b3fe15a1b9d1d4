"""What each request asks: made texts or recorded ones, with a conversation's history and pictures where it has any."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from loadproof.bench.spec import REQUESTS_APART, WorkloadSpec
from loadproof.bench.workload.blocks import Blocks
from loadproof.bench.workload.counting import CountedBy, counter_of
from loadproof.bench.workload.datasets import Dataset, DatasetTurn, read_dataset
from loadproof.bench.workload.drawn_sessions import DrawnSessions
from loadproof.bench.workload.images import picture_uri
from loadproof.bench.workload.synthetic import SyntheticTexts
from loadproof.errors import InputError
from loadproof.invocation import ChatMessage
from loadproof.sessions import SessionClass, Step
from loadproof.token_counts import drawn_lengths, lognormal


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """What one request asks.

    `input_tokens` is of all that is sent but pictures and a chat template, as `counted_by` says: an estimate by words,
    or the tokenizer's count. `text` is the whole prompt, or with chat the newest turn after `history`.
    """

    text: str
    input_tokens: int
    output_tokens: int
    counted_by: CountedBy = "words"
    history: tuple[ChatMessage, ...] = ()
    images: tuple[str, ...] = ()


_NO_DRAW = random.Random(0)


class Prompts:
    """The prompts of a run, each made on its own from the request's number. `chat`: the server takes messages."""

    def __init__(self, workload: WorkloadSpec, *, chat: bool = False) -> None:
        """Raises InputError for a dataset or tokenizer that cannot be used, or pictures without chat."""
        self._workload, self._sessions = workload, DrawnSessions(workload)
        self._chat = chat
        self._counter = counter_of(workload.tokenizer)
        self._texts = SyntheticTexts(workload, self._counter)
        self._dataset = _dataset_of(workload)
        self._order = list(range(len(self._dataset.conversations))) if self._dataset else []
        random.Random(f"order {workload.seed}").shuffle(self._order)
        self._prepared: dict[int, PlannedPrompt] = {}
        self._later: dict[int, tuple[str, int]] = {}  # texts of later turns and their tokens
        if workload.images is not None and not chat:
            raise InputError("images need chat messages: use an OpenAI server's /v1/chat/completions")

    def part(self, number: int) -> SessionClass:
        """The class of the session that a request is of."""
        level, session, _ = self._workload.place(number)
        return self._sessions.part(level, session)

    def pause_s(self, number: int) -> float:
        """Between the answers that a request waits for and itself: somebody thinks, or a tool runs."""
        step = self._step(number)
        return lognormal(step.pause_s, step.pause_stddev_s, random.Random(f"pause {self._workload.seed} {number}"))

    def _step(self, number: int) -> Step:
        return self.part(number).steps[self._workload.place(number)[2]]

    @property
    def costly(self) -> bool:
        """A prompt takes so long to make that it should lie ready before the load starts."""
        return self._workload.tokenizer is not None or self._workload.images is not None

    def prepare(
        self, numbers: Iterable[tuple[int, tuple[int, int] | None, Blocks | None]], later: Iterable[int] = ()
    ) -> None:
        """Make the first turns of these (number, tokens, blocks) now, and what these `later` turns add to what came
        before them; each is handed out once."""
        self._prepared, self._later = {}, {}
        self._prepared = {number: self.planned(number, tokens, blocks) for number, tokens, blocks in numbers}
        if self._dataset is None:
            self._later = {number: self._texts.turn(number, self._drawn(number)[0]) for number in later}

    def planned(
        self, number: int, tokens: tuple[int, int] | None = None, blocks: Blocks | None = None
    ) -> PlannedPrompt:
        """The prompt of request `number` (unlike any other of the run, warm-up included): a conversation's first turn.

        `tokens` are the (input, output) tokens a trace recorded; None: they are drawn. With `blocks` it begins with
        those, as do all prompts of its level that have them.
        """
        ready = self._prepared.pop(number, None)
        if ready is not None:
            return ready
        drawn_input, drawn_output = tokens or self._drawn(number)
        if self._dataset is None:
            place = number if self._unique else number % REQUESTS_APART
            part = self.part(number)
            shared = 0 if tokens else part.shared_prefix_tokens  # a trace's prompts share its own blocks alone
            text, input_tokens = (
                self._texts.first(place, drawn_input, unique=self._unique, shared=shared, of=part.name)
                if blocks is None
                else self._texts.of_blocks(place, drawn_input, blocks, unique=self._unique)
            )
            output_tokens = drawn_output
        else:
            turn = self._recorded(number)[0]
            text = f"{self._texts.unique_head(number)} {turn.prompt}" if self._unique else turn.prompt
            input_tokens, output_tokens = self._counter.count_prose(text), self._answer_tokens(turn, drawn_output)
        images = self._workload.images
        pictures = (
            tuple(picture_uri(images, f"{self._workload.seed} {number} {one}") for one in range(images.count))
            if images
            else ()
        )
        return PlannedPrompt(text, input_tokens, output_tokens, self._counter.counted_by, images=pictures)

    def following(
        self, number: int, before: PlannedPrompt, answer: str | None, answer_tokens: int | None
    ) -> PlannedPrompt | None:
        """The next turn of the conversation that `before` is the last one of, after its answer; None: it has no more.

        `answer` None: its text is not known (a run without streaming), and made words stand in for it.
        """
        tokens = answer_tokens or before.output_tokens
        said = self._texts.answer(number, tokens) if answer is None else answer
        drawn_input, drawn_output = self._drawn(number)
        if self._dataset is None:
            made = self._later.pop(number, None)
            text, new_tokens = made if made is not None else self._texts.turn(number, drawn_input)
        else:
            turns, (_, _, place) = self._recorded(number), self._workload.place(number)
            if place >= len(turns):
                return None
            text, drawn_output = turns[place].prompt, self._answer_tokens(turns[place], drawn_output)
            new_tokens = self._counter.count_prose(text)
        return PlannedPrompt(
            text if self._chat else f"{before.text} {said.strip()} {text}",
            before.input_tokens + tokens + new_tokens,
            drawn_output,
            self._counter.counted_by,
            (*before.history, ChatMessage("user", before.text), ChatMessage("assistant", said)) if self._chat else (),
        )

    @property
    def _unique(self) -> bool:
        wanted = self._workload.unique_prompts
        return self._dataset is None if wanted is None else wanted

    def _drawn(self, number: int) -> tuple[int, int]:
        level, session, at = self._workload.place(number)
        if (drawn := self._sessions.lengths(level, session)) and at < len(drawn):  # a warm-up sends any step
            return drawn[at].input_tokens - drawn[at].history_tokens, drawn[at].output_tokens
        place = number if self._unique else number % REQUESTS_APART
        step, wanted = self._step(number), self._workload
        fixed = step.input_tokens.distribution == step.output_tokens.distribution == "fixed"
        draw = _NO_DRAW if fixed else random.Random(f"{wanted.seed} {place}")  # to seed one takes 8 µs
        return drawn_lengths(step.input_tokens, step.output_tokens, draw, paired=self.part(number).paired_lengths)

    def _recorded(self, number: int) -> tuple[DatasetTurn, ...]:
        """The conversation of a request: a level goes through the shuffled dataset from a place of its own."""
        assert self._dataset is not None
        block, index = divmod(number, REQUESTS_APART)
        start = random.Random(f"start {self._workload.seed} {block}").randrange(len(self._order))
        row = self._order[(start + index // self._workload.stride) % len(self._order)]
        return self._dataset.conversations[row]

    def _answer_tokens(self, turn: DatasetTurn, drawn: int) -> int:
        if turn.output_tokens is not None:
            return turn.output_tokens
        return drawn if turn.answer is None else max(1, self._counter.count_prose(turn.answer))


def _dataset_of(workload: WorkloadSpec) -> Dataset | None:
    if workload.dataset is None:
        return None
    dataset = read_dataset(Path(workload.dataset))
    if workload.dataset_sha256 not in (None, dataset.sha256):
        raise InputError(f"{workload.dataset}: not the file this run was planned with; put that one back")
    return dataset

"""From the workload options of `loadproof bench` to what its requests look like."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from loadproof.bench.spec import AnswerLength, ImageSpec, WorkloadSpec, empirical_tokens, fixed_tokens
from loadproof.bench.workload.counting import TokenizerCounter
from loadproof.bench.workload.datasets import read_dataset
from loadproof.bench.workload.images import MOST_PX
from loadproof.cli.attempts import Complaints
from loadproof.errors import InputError
from loadproof.token_counts import TokenCounts

MOST_TOKENS = 10_000_000
_FORMS = "256, normal:MEAN:STDDEV, lognormal:MEAN:STDDEV, uniform:LOWEST:HIGHEST or empirical:FILE"
_IMAGE = re.compile(r"(?P<width>\d{1,5})x(?P<height>\d{1,5})(x(?P<count>\d{1,2}))?")


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """What was said about requests; None where the profile or the default decides."""

    HEADING: ClassVar = "Prompts and answers"

    name: Annotated[
        str | None,
        typer.Option(
            "--workload",
            help="a file of a profile's workload keys (benchmarks/workloads/rag.yaml), or by name: chat-256-256, "
            "generate-32-128, classify-256-32, summarize-3840-256",
        ),
    ] = None
    input_tokens: Annotated[
        str | None,
        typer.Option(
            help="prompt length: 256, normal:MEAN:STDDEV, lognormal:MEAN:STDDEV, uniform:LOWEST:HIGHEST or "
            "empirical:FILE (default with --target: 256)"
        ),
    ] = None
    output_tokens: Annotated[
        str | None, typer.Option(help="answer length, in the same forms (default with --target: 64)")
    ] = None
    answer_length: Annotated[
        AnswerLength | None,
        typer.Option(help="at_most: the model may end its answers before --output-tokens (default: asked)"),
    ] = None
    shared_prefix_tokens: Annotated[
        int | None, typer.Option(min=0, help="beginning that all prompts have in common")
    ] = None
    unique_prompts: Annotated[
        bool | None,
        typer.Option(
            "--unique-prompts/--repeat-prompts",
            help="no two prompts begin alike, so that no cache helps (default; a dataset is sent as it is)",
        ),
    ] = None
    turns: Annotated[
        int | None, typer.Option(min=1, max=256, help="turns of a conversation, each sent with all before it")
    ] = None
    think_time_s: Annotated[
        float | None, typer.Option(min=0, help="between an answer and the conversation's next turn")
    ] = None
    dataset: Annotated[
        Path | None, typer.Option(help="prompts to send: ShareGPT's JSON, or JSONL with prompt or messages")
    ] = None
    tokenizer: Annotated[
        Path | None, typer.Option(help="the model's tokenizer.json, to count tokens by (needs loadproof[tokenizers])")
    ] = None
    image: Annotated[
        str | None, typer.Option(help="send a picture of WIDTHxHEIGHT pixels with each request (chat completions)")
    ] = None


_SESSIONS = ("input_tokens", "output_tokens", "shared_prefix_tokens", "turns", "think_time_s", "dataset")


def with_workload(workload: WorkloadSpec, options: WorkloadOptions, *, chat: bool) -> WorkloadSpec:
    """The workload that was asked for; its own parts where nothing was. Raises InputError with all problems."""
    attempts = Complaints()
    changes: dict[str, Any] = {}
    if options.name is not None:
        from loadproof.cli.bench.named import named  # noqa: PLC0415  brings pydantic along

        changes = attempts.attempt(partial(named, options.name), changes)
    for side in ("input_tokens", "output_tokens"):
        text = getattr(options, side)
        if text is not None:
            make = partial(parse_tokens, f"--{side.replace('_', '-')}", text)
            changes[side] = attempts.attempt(make, getattr(workload, side))
            changes["paired_lengths"] = False  # the profile's pairs are no more
    for name in (
        "shared_prefix_tokens", "unique_prompts", "turns", "think_time_s", "dataset", "tokenizer", "answer_length",
    ):  # fmt: skip
        if (value := getattr(options, name)) is not None:
            changes[name] = str(value) if isinstance(value, Path) else value
    if options.image is not None:
        changes["images"] = attempts.attempt(partial(parse_image, options.image), None)
    if workload.classes and (given := [name for name in changes if name in _SESSIONS]):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        attempts.complain(f"{flags}: the profile's workload has steps or classes of its own; leave it out")
    asked = replace(workload, **changes)
    attempts.attempt(partial(checked_workload, asked, chat=chat), None)
    attempts.finish()
    sha256 = read_dataset(Path(asked.dataset)).sha256 if asked.dataset else None
    return replace(asked, dataset_sha256=sha256)


def checked_workload(workload: WorkloadSpec, *, chat: bool) -> None:
    """Raises InputError with all that keeps a workload from being sent."""
    attempts = Complaints()
    if workload.dataset is not None:
        attempts.attempt(partial(read_dataset, Path(workload.dataset)), None)
    if workload.tokenizer is not None:
        attempts.attempt(partial(TokenizerCounter, Path(workload.tokenizer)), None)
    if workload.images is not None and not chat:
        path = "an http target whose path ends in /chat/completions"
        attempts.complain(f"images need chat messages: use {path}, or bedrock://MODEL")
    if workload.dataset is not None and workload.shared_prefix_tokens > 0:
        attempts.complain("a shared prefix goes with made texts, not with a dataset; leave one of them out")
    if workload.think_time_s > 0 and workload.turns == 1:
        attempts.complain("a think time goes between the turns of a conversation: give --turns 2 or more")
    attempts.finish()


def parse_tokens(place: str, text: str) -> TokenCounts:
    """`256`, `normal:256:64`, `empirical:lengths.txt` as a distribution. Raises InputError."""
    kind, *rest = text.split(":", 1)
    if not rest:
        return fixed_tokens(_whole(place, text, text))
    if kind == "empirical":
        return empirical_tokens(_lengths(place, Path(rest[0])))
    numbers = rest[0].split(":")
    if kind not in ("normal", "lognormal", "uniform") or len(numbers) != 2:
        raise InputError(f"{place} {text!r}: expected {_FORMS}")
    first, second = (_whole(place, text, number) for number in numbers)
    if kind != "uniform":
        return TokenCounts("normal" if kind == "normal" else "lognormal", float(first), float(second))
    if first > second:
        raise InputError(f"{place} {text!r}: {first} is above {second}; write the lowest first")
    return TokenCounts("uniform", (first + second) / 2, 0.0, first, second)


def parse_image(text: str) -> ImageSpec:
    """`512x512`, or `512x512x2` for two of them. Raises InputError."""
    match = _IMAGE.fullmatch(text)
    sizes = [int(match[name] or 1) for name in ("width", "height", "count")] if match else [0]
    if not match or not all(1 <= size <= MOST_PX for size in sizes) or sizes[2] > 16:
        raise InputError(
            f"--image {text!r}: expected WIDTHxHEIGHT in pixels up to {MOST_PX}, like 512x512 or 512x512x2"
        )
    return ImageSpec(*sizes)


def _whole(place: str, text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_TOKENS):
        raise InputError(
            f"{place} {text!r}: {number!r} is no whole number from 1 to {MOST_TOKENS:,}; expected {_FORMS}"
        )
    return int(number)


def _lengths(place: str, path: Path) -> list[int]:
    """Token counts of a file: whole numbers apart by spaces, commas or lines."""
    try:
        words = path.read_text(encoding="utf-8").replace(",", " ").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{place}: {path}: cannot be read ({error}); give a file of whole numbers") from None
    bad = [word for word in words if not (word.isascii() and word.isdigit() and 1 <= int(word) <= MOST_TOKENS)]
    if bad or not words:
        found = f"{bad[0]!r} is no whole number from 1 to {MOST_TOKENS:,}" if bad else "no numbers"
        raise InputError(f"{place}: {path}: {found}; give whole numbers apart by spaces, commas or lines")
    return [int(word) for word in words]

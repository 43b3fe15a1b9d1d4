"""`loadproof queue send|status|dlq|redrive`: the buffer in front of a deployed profile, from a shell."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadproof.cli.options import EndpointUrl, Env, OneDocument, grouped
from loadproof.cli.printing import print_json, say
from loadproof.cli.profile_names import argument
from loadproof.cli.queue.input import Defaults, check_lines, message_of_prompt, messages_in
from loadproof.cli.queue.places import Deployed, buffered, deployed, payload_maker, slots_of
from loadproof.cli.queue.send import Rows, Tally, open_output, queue_now_ms, send_all, wait_for
from loadproof.cli.queue.view import dead_letter_lines, status_document, status_lines
from loadproof.errors import ExitCode, InputError
from loadproof.invocation.buffer import DeadLetter, DeadLetters, Producer, status_of
from loadproof.invocation.buffer.status import count_claims

app = typer.Typer(help="The buffer in front of a deployed profile.", no_args_is_help=True)

Profile = Annotated[Path, argument("profile with a buffer, as deployed")]
_SLACK_S = 5.0
_REPORT_EVERY_S = 5.0


Priority = Literal["normal", "low"]


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What is queued, and how."""

    input: Annotated[
        Path | None, typer.Option(help="JSON Lines with prompt, messages or request (the model's own payload)")
    ] = None
    output: Annotated[Path | None, typer.Option(help="file for key, error and result, a JSON line an item")] = None
    wait: Annotated[bool, typer.Option("--wait", help="wait for the results")] = False
    wait_s: Annotated[float, typer.Option(min=0, help="how long --wait waits at most")] = 600.0
    key: Annotated[str | None, typer.Option(help="name of one prompt's result; default: made of the prompt")] = None
    max_tokens: Annotated[int, typer.Option(min=1, max=1_000_000, help="longest answer of a prompt")] = 256
    deadline_s: Annotated[float | None, typer.Option(min=0.001, help="not to be invoked after so long")] = None
    priority: Annotated[Priority, typer.Option(help="low waits while the endpoint is short of capacity")] = "normal"
    tenant: Annotated[str | None, typer.Option(help="who asks: one that sends much does not delay the others")] = None
    callback: Annotated[str | None, typer.Option(help="ARN of the profile's buffer.callbacks to tell of results")] = (
        None
    )


@app.command()
@grouped
def send(
    *,
    profile: Profile,
    prompt: Annotated[str | None, typer.Argument(help="one prompt; without it and --input: stdin")] = None,
    options: SendOptions,
    env: Env = None,
    endpoint_url: EndpointUrl = None,
    format: OneDocument = "text",
) -> int:
    """Queue one prompt, or a file of them.

    With --wait the answers come back. The same question is asked once.

    Exit code: 0 all queued (with --wait: answered) · 1 some not · 2 bad usage or input · 3 could not run ·
    130 interrupted; what was queued stays queued.
    """
    if prompt is not None and options.input is not None:
        raise InputError("give one prompt or --input, not both")
    if options.key is not None and options.input is not None:
        raise InputError("--key names one prompt's result; lines of a file have a `key` of their own")
    if options.input is not None and options.wait and options.output is None:
        raise InputError("--wait with --input needs --output, for example: --output results.jsonl")
    fields: dict[str, object] = {"priority": options.priority, "tenant": options.tenant, "callback": options.callback}
    fields |= {"deadline_ms": int((time.time() + options.deadline_s) * 1000)} if options.deadline_s is not None else {}
    loaded = buffered(profile)
    allowed = loaded.buffer.callbacks if loaded.buffer is not None else ()
    defaults = Defaults(payload_maker(loaded), options.max_tokens, fields, allowed)
    if options.input is None:
        single = message_of_prompt(
            sys.stdin.read().removesuffix("\n") if prompt is None else prompt, options.key, defaults
        )
    else:
        check_lines(options.input, defaults)
    at = deployed(profile, env, endpoint_url)
    messages = [single] if options.input is None else messages_in(options.input, defaults)
    tally = Tally()
    with open_output(options.output) as file:
        rows = Rows(file)
        _send(at, messages, rows, tally, options.wait_s if options.wait else None)
    _print_sent(tally, rows, single=options.input is None, waited=options.wait, as_json=format == "json")
    return int(tally.exit_code(options.wait))


@app.command()
def status(
    profile: Profile,
    keys: Annotated[bool, typer.Option("--keys", help="count keys by phase too: reads the whole claims table")] = False,
    env: Env = None,
    endpoint_url: EndpointUrl = None,
    format: OneDocument = "text",
) -> int:
    """Show what waits, is worked on, and was given up.

    And how fast the consumers may go.
    """
    at = deployed(profile, env, endpoint_url)
    sqs, dynamodb = at.client("sqs"), at.client("dynamodb")
    found = status_of(at.places, sqs=sqs, dynamodb=dynamodb, cloudwatch=at.client("cloudwatch"))
    letters = _letters(at).look(seen=_progress()) if found.dead_letters else []
    reasons = Counter(letter.reason for letter in letters)
    claims = count_claims(dynamodb, at.places) if keys else None
    slots = slots_of(at.profile)
    if format == "json":
        print_json(status_document(found, reasons, claims, slots))
    else:
        say(*status_lines(found, reasons, claims, slots, time.time()))
    return int(ExitCode.OK)


@app.command()
def dlq(
    profile: Profile,
    bodies: Annotated[bool, typer.Option("--bodies", help="show what was asked, too")] = False,
    most: Annotated[int, typer.Option(min=1, max=100_000, help="show so many at most, the oldest")] = 1000,
    env: Env = None,
    endpoint_url: EndpointUrl = None,
    format: OneDocument = "text",
) -> int:
    """List dead letters, oldest first.

    Age, key, attempts and reason of each. They stay where they are.
    """
    at = deployed(profile, env, endpoint_url)
    letters = _letters(at).look(most=most, with_bodies=bodies, seen=_progress())
    if format == "json":
        rows = [asdict(letter) for letter in letters]
        print_json([row if bodies else {name: row[name] for name in row if name != "body"} for row in rows])
    else:
        say(*(dead_letter_lines(letters, time.time()) or ["no dead letters"]))
    return int(ExitCode.OK)


@app.command()
def redrive(
    profile: Profile,
    reason: Annotated[str | None, typer.Option(help="only dead letters whose reason contains this text")] = None,
    key: Annotated[list[str] | None, typer.Option(help="only dead letters of this key, repeatable")] = None,
    env: Env = None,
    endpoint_url: EndpointUrl = None,
    format: OneDocument = "text",
) -> int:
    """Send dead letters back into the queue.

    Those whose result is there are deleted, for nobody needs them.

    May be interrupted and repeated: no request is lost by it, and none is answered twice.

    Exit code: 0 done · 1 some could not be sent · 2 bad usage · 3 could not run.
    """

    def chosen(letter: DeadLetter) -> bool:
        return (reason is None or reason in letter.reason) and (not key or letter.key in key)

    redriven = _letters(deployed(profile, env, endpoint_url)).redrive(chosen)
    if format == "json":
        print_json({"sent": redriven.sent, "done": redriven.done, "left": dict(redriven.left)})
    else:
        say(
            f"{redriven.sent:,} sent back · {redriven.done:,} deleted, their results are there"
            f" · {sum(redriven.left.values()):,} left",
            *(f"  {count:>7,}  {why}" for why, count in redriven.left.most_common()),
        )
    return int(ExitCode.MISSED if any(why.startswith("not sent") for why in redriven.left) else ExitCode.OK)


def _send(at: Deployed, messages: Any, rows: Rows, tally: Tally, wait_s: float | None) -> None:
    sqs = at.client("sqs")
    # A dead letter of the same key from before says nothing of what is sent now.
    since_ms = queue_now_ms(sqs, at.places.queue_url) - _SLACK_S * 1000 if wait_s is not None else 0.0
    producer = Producer(at.places, sqs=sqs, s3=at.client("s3"))
    keys = send_all(producer, messages, rows, tally, waits=wait_s is not None)
    if wait_s is not None:
        letters = _letters(at)

        def new_letters() -> list[DeadLetter]:
            return [letter for letter in letters.look() if letter.first_sent_ms >= since_ms]

        wait_for(producer, new_letters, keys, rows, tally, wait_s)


def _progress() -> Callable[[int], None]:
    """Says on stderr how many letters were looked at, where that takes long."""
    reported_s = time.monotonic()

    def progress(count: int) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s >= _REPORT_EVERY_S:
            reported_s = time.monotonic()
            print(f"{count:,} dead letters looked at", file=sys.stderr)

    return progress


def _letters(at: Deployed) -> DeadLetters:
    return DeadLetters(at.places, sqs=at.client("sqs"), s3=at.client("s3"), dynamodb=at.client("dynamodb"))


def _print_sent(tally: Tally, rows: Rows, *, single: bool, waited: bool, as_json: bool) -> None:
    if as_json:
        print_json(asdict(tally) | (rows.last if single else {}))
        return
    if single:
        say(_answer_words(rows.last))
        return
    same = f", {tally.keys:,} of them different" if tally.keys != tally.sent else ""
    parts = [f"{tally.sent:,} queued{same}"] + ([f"{tally.failed:,} not queued"] if tally.failed else [])
    if waited:
        parts += [
            f"{tally.answered:,} answered",
            f"{tally.dead_lettered:,} dead-lettered",
            f"{tally.waiting:,} waiting",
        ]
    say(" · ".join(parts), *(f"  {count:>7,}  {error}" for error, count in tally.errors.items()))


def _answer_words(row: dict[str, Any]) -> str:
    """The answer's text, else what went wrong, else the key."""
    if row["result"] is None:
        return f"{row['key']}: {row['error']}" if row["error"] else str(row["key"])
    choices = row["result"]["answer"]["choices"]
    texts = (str(choice.get("text") or choice.get("message", {}).get("content") or "") for choice in choices)
    return "\n".join(texts).encode("utf-8", "replace").decode()  # half a surrogate pair has no form on a terminal

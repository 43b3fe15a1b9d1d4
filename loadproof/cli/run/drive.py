"""The driver of `loadproof run`: items out of the input, through the engine, into the journal; and how it ended."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from loadproof.addresses import shown_url
from loadproof.bench.connect import open_invoker
from loadproof.bench.load.process import heard_signals, loop_factory, refuse_few_descriptors
from loadproof.bench.spec import Target
from loadproof.cli.printing import say
from loadproof.cli.run.view import RunView, Tally, totals
from loadproof.errors import CouldNotRunError, ExitCode
from loadproof.invocation.chains import chat_turn, prompt_turn
from loadproof.invocation.concurrency import Pace
from loadproof.invocation.engine import ItemResult, Many
from loadproof.invocation.journal import Journal
from loadproof.invocation.prompt_file import Input, keys_of, read_items, request_sha256
from loadproof.terminal import Terminal

SHOW_EVERY_S = 0.25
IDLE_S = 120.0  # a stream that says nothing for so long is dead: its slot is wanted by others


@dataclass(frozen=True, slots=True)
class SendingPlan:
    """What one run does. `waits`: options of `Many` (patience, quotas)."""

    checked: Input
    target: Target
    pace: Pace
    chat: bool
    timeout_s: float
    retry_failed: bool
    ordered: bool
    waits: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended; `problem`: why it could not go on."""

    tally: Tally
    document: dict[str, object]
    code: ExitCode
    problem: str | None


def drive(plan: SendingPlan, journal: Journal) -> Ended:
    """Send what has no result yet and store how each item ends. Raises InputError, CouldNotRunError (the disk, too few
    descriptors)."""
    tally = _tally(plan, journal)
    refuse_few_descriptors()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        ended = runner.run(_drive(plan, journal, tally))
    if ended.problem is None:  # else the next run puts the file in order; the disk may be what is full
        journal.finish(keys_of(plan.checked) if plan.ordered and ended.code != ExitCode.INTERRUPTED else None)
    return ended


def print_ended(ended: Ended, journal: Journal, *, as_json: bool) -> ExitCode:
    """The totals on stdout. Raises CouldNotRunError where the run could not go on."""
    if as_json:
        print(json.dumps(ended.document | {"output": str(journal.path)}, indent=2))
    else:
        say(*totals(ended.tally, ended.document, str(journal.path)))
        if ended.document["not_ended"]:
            say("Go on with the same command and --resume.")
    if ended.problem is not None:
        raise CouldNotRunError(ended.problem)
    return ended.code


def _tally(plan: SendingPlan, journal: Journal) -> Tally:
    """What there is to do: all that has no final result yet."""
    stored = [place for key in keys_of(plan.checked) if (place := journal.stored.get(key)) is not None]
    failed = 0 if plan.retry_failed else sum(not place.answered for place in stored)
    before = sum(place.answered for place in stored) + failed
    return Tally(items=plan.checked.items - before, before=before, failed_before=failed)


async def _drive(plan: SendingPlan, journal: Journal, tally: Tally) -> Ended:
    invoker = open_invoker(plan.target, plan.timeout_s, chat=plan.chat, idle_s=IDLE_S)
    many = Many(invoker, plan.pace, follow=chat_turn if plan.chat else prompt_turn, **plan.waits)
    problem, asked = None, target_name(plan.target)

    def hear() -> None:
        """The first signal ends the sending, a second one also what is in flight."""
        if many.stopped_early:
            invoker.cancel_all()
            return
        view.note(f"stopping: waiting for {many.in_flight} in flight; once more to drop them")
        many.stop()

    with RunView(Terminal(stderr=True, highlight=False), tally) as view, heard_signals(hear):
        if tally.before:
            view.note(f"{tally.before:,} of {plan.checked.items:,} items have results already")
        showing = asyncio.create_task(_show(view, many))
        try:
            async with aclosing(many.run(read_items(plan.checked, journal, retry_failed=plan.retry_failed))) as results:
                async for result in results:
                    journal.append(row_of(result, asked))
                    tally.add(result)
        except CouldNotRunError as error:
            problem = str(error)
        finally:
            showing.cancel()
            await invoker.close()
        if hopeless := _hopeless(tally):
            problem = problem or hopeless
            journal.forget()
            tally.failed = 0
        missing = tally.items - tally.done
        interrupted = many.stopped_early and missing > 0
        if missing and not interrupted and problem is None:
            problem = f"{plan.checked.shape.path}: {missing:,} lines are gone since it was checked"
        return Ended(tally, tally.document(many, view.elapsed_s), _code(tally, interrupted), problem)


def target_name(target: Target) -> str:
    """Who is asked, as results say it: `bedrock://MODEL`, or a URL without what may be secret in it, and its model."""
    if target.kind == "openai":
        name = shown_url(target.endpoint).partition("?")[0]
    else:
        name = f"{target.kind}://{target.endpoint}" + (f"/{target.component}" if target.component else "")
    name += f" {target.model}" if target.model else ""
    return name if target.local_cloud is None else f"{name} on a local cloud"


def row_of(result: ItemResult, target: str) -> dict[str, object]:
    """One line of the results file. Times count from the sending of the last attempt; null: there is none."""
    invocation, outcome = result.invocation, result.outcome
    error = None
    if not outcome.ok:
        error = {
            "kind": outcome.kind,
            "code": outcome.code,
            "http_status": outcome.http_status,
            "message": outcome.message,
            "gave_up": result.give_up,
        }
    row: dict[str, object] = {
        "key": result.item.key,
        "text": (invocation.text or "") if invocation is not None and outcome.ok else None,
        "finish_reason": invocation.finish_reason if invocation is not None else None,
        "usage": None,
        "timings": None,
        "attempts": result.attempts,
        "error": error,
        "target": target,
        "request_sha256": request_sha256(result.item),
    }
    if invocation is not None and outcome.ok and invocation.sent_ns is not None:
        row["usage"] = {
            "input_tokens": invocation.input_tokens,
            "output_tokens": invocation.output_tokens,
            "counted_by": invocation.token_source,
        }
        first_ns, tokens = invocation.first_token_ns, invocation.output_tokens or 0
        row["timings"] = {
            "ttft_ms": _ms(first_ns - invocation.sent_ns) if first_ns is not None else None,
            "tpot_ms": _ms((invocation.end_ns - first_ns) / (tokens - 1))
            if first_ns is not None and tokens > 1
            else None,
            "e2e_ms": _ms(invocation.end_ns - invocation.sent_ns),
        }
    if invocation is not None and outcome.ok and invocation.reasoning is not None:
        row["reasoning"] = invocation.reasoning
    return row if result.item.chain is None else row | {"session": result.item.chain}


def _code(tally: Tally, interrupted: bool) -> ExitCode:
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.MISSED if tally.failed or tally.failed_before else ExitCode.OK


def _hopeless(tally: Tally) -> str | None:
    """Where not one request reached the endpoint, its failures are no results but the reason why it could not run."""
    kinds = set(tally.kinds) - {"ChainBroken"}  # never sent, because of the others
    if tally.answered or not kinds or not kinds <= {"refused", "tls", "connect"}:
        return None
    return f"no request got through: {tally.examples[min(kinds)]}"


def _ms(ns: float) -> float:
    return round(ns / 1e6, 3)


async def _show(view: RunView, many: Many) -> None:
    while True:
        view.show(many)
        await asyncio.sleep(SHOW_EVERY_S)

"""Copies behind a router in virtual time: the clock jumps from event to event, never from token to token.

An event is an arrival, the end of a copy's run, a client that gives up, or a look at the scaling policies. Results are
yielded as requests end, so memory holds what is in flight and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Protocol

from loadproof.errors import InputError
from loadproof.simulation.request import Request
from loadproof.simulation.results import RefusedRequest, Result, SimulatedRequest, TimedOutRequest
from loadproof.simulation.routing import Prefixes, Router, Routing
from loadproof.simulation.scheduling import Rejection, Scheduler
from loadproof.simulation.sessions import Session
from loadproof.simulation.traffic import ClosedLoop, OpenLoop

# (input tokens, output tokens) of each request in turn; a third is how many input tokens are cached wherever it goes,
# or the ids of its prompt's blocks, with its session as the fourth: then it is where it goes that decides. A `Session`
# stands for all of its steps, which are sent as the answers that they wait for have come.
Size = tuple[Any, ...]  # prompt and answer; and if they have them, blocks and a session
Sizes = Iterable[Size | Session]


class Resizing(Protocol):
    """What makes copies appear and drain during a simulation (`elastic.ElasticCopies`).

    `slots` holds a scheduler for every copy there is or was, `serving` the indices of those that take requests; both
    change in `advance`, which is called at `next_ms` and then tells when it wants to be called next.
    """

    slots: list[Scheduler]
    serving: list[int]
    invocations: int
    without_capacity: int

    @property
    def next_ms(self) -> float: ...

    def advance(self, now_ms: float) -> None: ...


def simulate_fleet(
    copies: Sequence[Scheduler] | Resizing,
    traffic: ClosedLoop | OpenLoop,
    sizes: Sizes,
    *,
    routing: Routing = "least_outstanding",
    prefixes: Prefixes | None = None,
    seed: int = 0,
    give_up_after_ms: float = inf,
    until_ms: float = inf,
) -> Iterator[Result]:
    """Send one request for each of `sizes`, endless ones included, and yield each as it ends, is refused or given up.

    `copies` must be fresh schedulers, or an `ElasticCopies`. Ties among the least loaded are broken by chance. What a
    server adds before a first token (`Scheduler.outside_ms`) is in every time, and before whatever waits for an answer.
    `prefixes` also counts what routing came to, of requests whose blocks are known. Nothing is sent from `until_ms` on;
    what is in flight ends. The same arguments give the same results.

    A client that has no whole answer after `give_up_after_ms` gives up, and in a closed loop sends its next request.
    TGI and vLLM learn that it hung up and drop its request at the end of the step under way; dynamic batching works it
    through to its end. Raises InputError for no copies, a size below 1 and send times that fall.
    """
    resizing: Resizing | None = None
    if isinstance(copies, Sequence):
        slots, serving = list(copies), list(range(len(copies)))
        if not slots:
            raise InputError("a fleet needs at least one copy")
    else:
        slots, serving, resizing = copies.slots, copies.serving, copies
    if not give_up_after_ms > 0:
        raise InputError(f"expected clients that give up after more than 0 ms, found {give_up_after_ms}")
    router = Router(routing, slots, serving, prefixes=prefixes, seed=seed)
    return _Fleet(slots, serving, resizing, traffic, iter(sizes), router, give_up_after_ms, until_ms).run()


class _Fleet:
    def __init__(
        self,
        slots: list[Scheduler],
        serving: list[int],
        resizing: Resizing | None,
        traffic: ClosedLoop | OpenLoop,
        sizes: Iterator[Size | Session],
        router: Router,
        patience_ms: float,
        until_ms: float,
    ) -> None:
        self._slots = slots
        self._serving = serving
        self._resizing = resizing
        self._router = router
        self._sizes = sizes
        self._until_ms = until_ms
        self._busy = [False] * len(slots)
        self._woken: list[int] = []  # copies to plan for, once all of this instant has happened
        # Ends of planned runs as (end, copy). A run that was cut leaves its old end behind, which is then skipped.
        self._ends: list[tuple[float, int]] = []
        self._closed = traffic if isinstance(traffic, ClosedLoop) else None
        self._times = iter([0.0] * traffic.concurrency if isinstance(traffic, ClosedLoop) else traffic.times_ms)
        self._gaps = self._closed.gaps_ms() if self._closed is not None and self._closed.jitter_ms else None
        # When clients that were answered or refused come back, and the steps of sessions that are due: a heap.
        self._returning: list[tuple[float, int, tuple[Session, int] | None]] = []
        self._order = count()  # equal times keep the order in which they were told
        self._step: tuple[Session, int] | None = None  # what `_send` sends, else the next of the sizes
        self._next_time_ms = next(self._times, inf)
        self._patience_ms = patience_ms
        self._patient: OrderedDict[Request, int] = (
            OrderedDict()
        )  # in flight, in order of sending; empty if nobody gives up
        self._abandoned: dict[Request, int] = {}  # given up, and still with their copy
        self._timer_ms = inf if resizing is None else resizing.next_ms
        self._timed = patience_ms < inf or resizing is not None  # plain fleets pay one look at this flag

    def run(self) -> Iterator[Result]:
        ends, slots, busy, closed, timed = self._ends, self._slots, self._busy, self._closed, self._timed
        while True:
            next_ms = self._next_time_ms
            if self._returning and self._returning[0][0] < next_ms:
                next_ms = self._returning[0][0]
            if ends and ends[0][0] <= next_ms and (not timed or ends[0][0] <= self._timer_ms):
                now_ms, index = heappop(ends)
                copy = slots[index]
                if not busy[index] or copy.end_ms != now_ms:
                    continue
                busy[index] = False
                self._woken.append(index)
                ended = copy.commit()
                if timed:
                    ended = self._still_wanted(copy, index, ended)
                outside_ms = copy.outside_ms
                answered_ms = now_ms + outside_ms
                for request in ended:
                    turn = request.turn
                    part = turn[0].part if turn is not None else 0
                    times = (request.sent_ms, request.first_ms + outside_ms, answered_ms)
                    yield SimulatedRequest(*times, request.output_tokens, request.input_tokens, index, part)
                free = [one for one in ended if one.turn is None or self._goes_no_further(one.turn, answered_ms)]
                if closed is not None:
                    for _ in free:
                        if (at_ms := self._ready_ms(answered_ms)) > now_ms:
                            self._comes_back(at_ms)
                        elif (refused := self._send(now_ms)) is not None:
                            yield refused
            elif timed and self._timer_ms <= next_ms and (ends or next_ms < inf):
                now_ms = self._timer_ms
                yield from self._timers(now_ms)
            elif next_ms < inf:
                now_ms = next_ms
            else:
                return
            # Whoever arrives in the same instant joins before the copies decide.
            while next_ms <= now_ms:
                next_ms = self._take_arrival(next_ms)
                if (refused := self._send(now_ms)) is not None:
                    yield refused
            for index in self._woken:
                copy = slots[index]
                if copy.plan(now_ms):
                    busy[index] = True
                    heappush(ends, (copy.end_ms, index))
            self._woken.clear()

    def _take_arrival(self, at_ms: float) -> float:
        """Let the arrival at `at_ms` pass; when the next one is due."""
        if self._returning and self._returning[0][0] == at_ms:
            self._step = heappop(self._returning)[2]
        else:
            self._next_time_ms = next(self._times, inf)
            if self._next_time_ms < at_ms:
                raise InputError(f"send times must not fall, found {self._next_time_ms} ms after {at_ms} ms")
        return min(self._next_time_ms, self._returning[0][0]) if self._returning else self._next_time_ms

    def _send(self, now_ms: float) -> RefusedRequest | None:
        """The step that is due, else the next request, to the copy the router chooses; the refusal, if that copy
        refuses it."""
        step, self._step = self._step, None
        size: Size | Session | None = None
        if now_ms < self._until_ms:
            size = self._size_of(step) if step is not None else next(self._sizes, None)
        if size is None:
            if step is None or now_ms >= self._until_ms:
                self._times, self._next_time_ms = iter(()), inf
                due = [one for one in self._returning if one[2] is not None and now_ms < self._until_ms]
                self._returning[:] = sorted(due)  # sessions under way go on to their end
            return None
        if isinstance(size, Session):
            first, *others = size.first()
            for place in others:
                heappush(self._returning, (now_ms, next(self._order), (size, place)))
            step = (size, first)
            size = self._size_of(step)
        assert size is not None  # a session that has just begun is whole
        input_tokens, output_tokens, *beside = size
        if input_tokens < 1 or output_tokens < 1:
            raise InputError(f"expected at least 1 input and 1 output token, found {input_tokens} and {output_tokens}")
        if self._timed and not self._serving:
            assert self._resizing is not None  # fixed copies always serve
            self._resizing.without_capacity += 1
            return self._refused(now_ms, "no_capacity", size, -1, step)
        index = self._router.of_prompt(*beside) if len(beside) > 1 else self._router.index()
        copy = self._slots[index]
        if (reason := copy.refusal(input_tokens, output_tokens)) is not None:
            return self._refused(now_ms, reason, size, index, step)
        request = Request("", input_tokens, output_tokens, now_ms)
        if len(beside) > 1:
            request.blocks = beside[0]
        elif beside:
            request.kept = beside[0]
        if step is not None:
            request.turn = step
            step[0].sent()
        copy.waiting.append(request)
        if self._timed:
            self._expect(request, index, now_ms)
        if not self._busy[index]:
            if index not in self._woken:
                self._woken.append(index)
        elif copy.open_to_arrivals and copy.cut(now_ms):
            heappush(self._ends, (copy.end_ms, index))
        return None

    def _refused(
        self, now_ms: float, reason: Rejection, size: Size, index: int, step: tuple[Session, int] | None
    ) -> RefusedRequest:
        if step is not None:
            step[0].broke(in_flight=False)
        if self._closed is not None and (step is None or step[0].over):
            self._comes_back(now_ms + self._closed.pause_after_refusal_ms)
        return RefusedRequest(now_ms, reason, size[0], size[1], index)

    def _comes_back(self, at_ms: float) -> None:
        heappush(self._returning, (at_ms, next(self._order), None))

    # ------------------------------------------------------------------------------------------------ sessions

    def _size_of(self, step: tuple[Session, int]) -> Size | None:
        """None for a step of a session that broke off meanwhile."""
        session, place = step
        if session.broken:
            return None
        drawn = session.steps[place]
        return drawn.input_tokens, drawn.output_tokens, session.blocks(place), session.number

    def _ready_ms(self, due_ms: float) -> float:
        """When a client sends what it could send at `due_ms`."""
        return due_ms if self._gaps is None else due_ms + next(self._gaps)

    def _goes_no_further(self, step: tuple[Session, int], answered_ms: float) -> bool:
        """Whether the session is over with this answer; what waited for it becomes due."""
        session, place = step
        for due_ms, later in session.ended(place, answered_ms):
            heappush(self._returning, (self._ready_ms(due_ms), next(self._order), (session, later)))
        return session.over

    # ------------------------------------------------------------------------------------------------ timers

    def _expect(self, request: Request, index: int, now_ms: float) -> None:
        if self._patience_ms < inf:
            self._patient[request] = index
            self._timer_ms = min(self._timer_ms, now_ms + self._patience_ms)
        if self._resizing is not None:
            self._resizing.invocations += 1

    def _timers(self, now_ms: float) -> Iterator[Result]:
        """Whoever gives up now, and the copies that appear or drain now."""
        yield from self._give_up(now_ms)
        next_ms = inf
        if self._patient:
            next_ms = next(iter(self._patient)).sent_ms + self._patience_ms
        if self._resizing is not None:
            if self._resizing.next_ms <= now_ms:
                self._resizing.advance(now_ms)
                self._busy += [False] * (len(self._slots) - len(self._busy))
            next_ms = min(next_ms, self._resizing.next_ms)
        self._timer_ms = next_ms

    def _give_up(self, now_ms: float) -> Iterator[Result]:
        while self._patient:
            request, index = next(iter(self._patient.items()))
            if request.sent_ms + self._patience_ms > now_ms:
                return
            del self._patient[request]
            self._abandoned[request] = index
            copy = self._slots[index]
            # The server sees it at its next step's end: a long run is cut there.
            if copy.frees_abandoned and copy.cut(now_ms):
                heappush(self._ends, (copy.end_ms, index))
            yield TimedOutRequest(request.sent_ms, now_ms, request.input_tokens, request.output_tokens, index)
            if request.turn is not None:
                request.turn[0].broke(in_flight=True)
            over = request.turn is None or request.turn[0].over
            if self._closed is not None and over and (refused := self._send(now_ms)) is not None:
                yield refused

    def _still_wanted(self, copy: Scheduler, index: int, ended: list[Request]) -> list[Request]:
        """Those of `ended` whose clients still wait; the copy's abandoned requests leave it, where it notices."""
        if self._patient:
            for request in ended:
                self._patient.pop(request, None)
        if not self._abandoned:
            return ended
        wanted = [request for request in ended if self._abandoned.pop(request, None) is None]
        if copy.frees_abandoned:
            for request in [request for request, at in self._abandoned.items() if at == index]:
                del self._abandoned[request]
                copy.remove(request)
        return wanted

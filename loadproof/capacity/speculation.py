"""Speculative decoding as planned: tokens proposed a round, how many of them are kept, what proposing costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from loadproof import catalog
from loadproof.capacity.servers import DATA
from loadproof.catalog.readers import table
from loadproof.catalog.weights import WIDE_BYTES
from loadproof.families import SpeculationMethod, Speculative

# Share of a sequence's further checked tokens that choose experts of their own: tokens that follow each other mostly
# choose the same. Fitted by scripts/fit_speculation.py on gpt-oss-20b.
OWN_EXPERTS = 0.186
_DRAFTED_VOCABULARY = 32_000  # of published EAGLE3 heads
_HEAD_INTERMEDIATE = 4  # times hidden


@dataclass(frozen=True, slots=True)
class SpeculationRow:
    """What is known of a method. `acceptance` is the probability that a proposed token is right, given that those
    before it are; a pass of proposing takes `pass_ms` beside reading the draft's weights. `doubt` is the half-width of
    the range that this alone gives a latency, as |log(measured / predicted)|, to hold eight in ten."""

    method: str
    acceptance: float
    pass_ms: float
    doubt: float
    fitted: bool
    source: str


@dataclass(frozen=True, slots=True)
class Speculation:
    """Of one deployment. A round proposes `tokens` in `passes` of the draft, then checks `checked_tokens` of each
    sequence in one step of the model; `accepted` is by position the probability that the token proposed there is kept,
    as vLLM's log has it. The draft reads `draft_parameters_b` in `draft_layers` a pass, over `draft_accelerators`
    (None: all of the copy's). `measured` says that `accepted` is one's own."""

    method: SpeculationMethod
    tokens: int
    checked_tokens: int
    passes: int
    accepted: tuple[float, ...]
    draft_parameters_b: float
    draft_layers: int
    pass_ms: float
    doubt: float
    fitted: bool
    source: str
    draft_accelerators: int | None = None
    measured: bool = False

    @property
    def emitted_tokens(self) -> float:
        """Mean tokens a sequence gets from a round: what was accepted, and the token that the check itself gives.

        `1 + sum of accepted` (Leviathan et al. 2022, arXiv:2211.17192, equation 1 where all are alike).
        """
        return 1 + sum(self.accepted)

    @property
    def draft_bytes(self) -> float:
        """Of the draft's weights, in 16 bits."""
        return self.draft_parameters_b * 1e9 * WIDE_BYTES


def speculation_of(wanted: Speculative | None, architecture: catalog.Architecture) -> Speculation | None:
    """What a container's `speculative` is planned as; None without one, and where nobody knows the draft's size."""
    if wanted is None:
        return None
    size = _draft_size(wanted, architecture)
    if size is None:
        return None
    row = speculation_row(wanted.method)
    return Speculation(
        method=wanted.method,
        tokens=wanted.tokens,
        checked_tokens=getattr(wanted, "checked_tokens", None) or wanted.tokens + 1,
        passes=1 if wanted.method == "ngram" else wanted.tokens,
        accepted=accepted_by_position(row.acceptance, wanted.tokens),
        draft_parameters_b=size[0],
        draft_layers=size[1],
        pass_ms=row.pass_ms,
        doubt=row.doubt,
        fitted=row.fitted,
        source=row.source,
        draft_accelerators=getattr(wanted, "draft_tensor_parallel_degree", None),
    )


def accepted_by_position(acceptance: float, tokens: int) -> tuple[float, ...]:
    """A token is kept where it and all before it are right: `acceptance ** position`."""
    return tuple(acceptance**position for position in range(1, tokens + 1))


def fitted_to(accepted: Sequence[float], tokens: int) -> tuple[float, ...]:
    """Rates that were measured with another number of proposals: cut off, or gone on with in the last one's ratio."""
    found = list(accepted[:tokens])
    ratio = found[-1] / found[-2] if len(found) > 1 and found[-2] else found[0]
    while len(found) < tokens:
        found.append(found[-1] * ratio)
    return tuple(found)


def speculation_row(method: str) -> SpeculationRow:
    return _rows()[method]


@cache
def _rows() -> dict[str, SpeculationRow]:
    return {row.method: row for row in table(SpeculationRow, DATA / "speculation.csv")}


def _draft_size(wanted: Speculative, shape: catalog.Architecture) -> tuple[float, int] | None:
    """(billions of parameters that a pass reads, layers); None for a draft model that the catalog does not know.

    An EAGLE head is one dense layer whose attention reads two hidden vectors, the layer that joins three of the
    model's, and a head over the drafted vocabulary. A model's own next-token head is one of its layers and its head.
    """
    if wanted.method == "ngram":
        return 0.0, 0
    if wanted.method == "draft_model":
        known = catalog.architecture(wanted.draft_model or "")
        return (known.active_parameters_b, known.layers) if known is not None else None
    hidden, width = shape.hidden, shape.head_dim
    if wanted.method == "mtp":
        vocabulary = shape.vocab * hidden / 1e9
        return max(0.0, shape.active_parameters_b - 2 * vocabulary) / shape.layers + vocabulary, 1
    attention = 2 * hidden * (shape.heads + 2 * shape.kv_heads) * width + shape.heads * width * hidden
    rest = (3 * _HEAD_INTERMEDIATE + 3) * hidden * hidden + min(_DRAFTED_VOCABULARY, shape.vocab or hidden) * hidden
    return (attention + rest) / 1e9, 1

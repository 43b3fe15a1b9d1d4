"""Settings of one server that contradict each other (LP230-LP233, LP238-LP239): each family knows its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loadproof.families import FAMILIES, MOUNTED_WEIGHTS, Contradiction, Refusal, Speculative
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.secrets import shown


def _ask(refusal: Refusal[Any]) -> None:
    """Make what families check themselves a rule; one code may be several families'."""

    @component_rule(refusal.code, refusal.title, reason=refusal.reason, mend=refusal.mend)
    def refused(placed: Placed) -> Iterator[Found]:
        container = placed.component.container
        for one in FAMILIES[container.family].refusals:
            if one.code == refusal.code:
                yield from _found(placed, one.check(container))


for _refusal in {one.code: one for family in FAMILIES.values() for one in family.refusals}.values():
    _ask(_refusal)


@component_rule(
    "LP238",
    "Speculative decoding that its method cannot do",
    reason="The server stops at start-up, or ignores the field and proposes nothing.",
    mend="Name a draft for draft_model, eagle and eagle3, and only there; a field of another method goes.",
)
def speculative_fields(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    speculation, wanted = FAMILIES[container.family].speculation, getattr(container, "speculative", None)
    if speculation is not None and wanted is not None:
        yield from _found(placed, speculation.check(container, wanted))


@component_rule(
    "LP239",
    "Draft model out of reach",
    reason="Network isolation keeps the server from the hub: it stays Creating until its time-out.",
    mend="Put the draft into the artifact beside the model, and name its folder under /opt/ml/model.",
)
def draft_out_of_reach(placed: Placed) -> Iterator[Found]:
    wanted = getattr(placed.component.container, "speculative", None)
    if not isinstance(wanted, Speculative) or wanted.draft_model is None:
        return
    if placed.endpoint.network_isolation and not wanted.draft_model.startswith(f"{MOUNTED_WEIGHTS}/"):
        found = f"a draft from the hub needs network, network_isolation is true; found `{shown(wanted.draft_model)}`"
        mend = f"write a folder of the artifact such as {MOUNTED_WEIGHTS}/draft, or network_isolation: false"
        yield Found(placed.at("container", "speculative", "draft_model"), found, mend)


def _found(placed: Placed, contradictions: Iterable[Contradiction]) -> Iterator[Found]:
    for one in contradictions:
        yield Found(placed.at("container", *one.path), one.found, one.mend, one.severity)

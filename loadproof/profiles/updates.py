"""How an endpoint or a component goes over to something new: as the profile says, else what production wants."""

from __future__ import annotations

from math import ceil

from loadproof.profiles.schema import BlueGreenUpdate, Copies, CopiesUpdate, Endpoint, RollingUpdate

_DEFAULT_BATCH_PERCENT = 50


def endpoint_update(endpoint: Endpoint) -> BlueGreenUpdate | RollingUpdate:
    """The policy of a plain variant. A batch is at most half of the instances, so one instance cannot roll."""
    if endpoint.update is not None:
        return endpoint.update
    return RollingUpdate(type="rolling") if endpoint.min_instances >= 2 else BlueGreenUpdate(type="blue_green")


def copies_update(copies: Copies) -> CopiesUpdate | None:
    """The policy of a component; None for one copy, which SageMaker replaces by its own ways."""
    if copies.update is not None:
        return copies.update
    return CopiesUpdate() if copies.min >= 2 else None


def batch_percent(update: CopiesUpdate) -> int:
    return update.batch_percent or _DEFAULT_BATCH_PERCENT


def batch_copies(copies: Copies, update: CopiesUpdate) -> int:
    """Copies that one batch starts beside the old ones, at the fewest copies: min · percent / 100, at least one."""
    return update.batch_copies or max(1, copies.min * batch_percent(update) // 100)


def waiting_s(update: BlueGreenUpdate | RollingUpdate | CopiesUpdate, copies: Copies) -> int:
    """Seconds that an update only waits: each step's wait, and then the old fleet's."""
    if isinstance(update, BlueGreenUpdate):
        steps = {"all_at_once": 1, "canary": 2, "linear": ceil(100 / (update.step_percent or 100))}[update.traffic]
        return steps * update.wait_s + update.termination_wait_s
    if isinstance(update, CopiesUpdate) and update.batch_copies is not None:
        return ceil(max(1, copies.min) / update.batch_copies) * update.wait_s
    percent = batch_percent(update) if isinstance(update, CopiesUpdate) else update.batch_percent
    return ceil(100 / percent) * update.wait_s

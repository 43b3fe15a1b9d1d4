"""Every rule over every need, side by side and within a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, TypeAlias

from loadproof.errors import CouldNotRunError
from loadproof.invocation.aws_errors import HTTPClientError, UnreachedError
from loadproof.invocation.endpoints import Client
from loadproof.preflight.account import CONNECT_S, READ_S, Account, UnseenError
from loadproof.preflight.collect import Deployments, needs_of
from loadproof.preflight.needs import Need
from loadproof.preflight.rules import RULES, SEVERITIES, UNKNOWN, Finding, Severity
from loadproof.rules import Rule

WHOLE_S: Final = 20.0  # a preflight takes no longer, unless somebody gives it more
_CLOSING_S: Final = 1.0  # for what is printed
_THREADS: Final = 24
_Rule: TypeAlias = Rule[str, Severity]
# A shape that AWS's answers never had: it is told, like an answer that did not come.
_UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found in one account. `looked_at` counts the questions that got an answer, well or not."""

    deployments: Deployments
    findings: tuple[Finding, ...]
    looked_at: int
    took_s: float

    def count(self, severity: Severity) -> int:
        return sum(one.severity == severity for one in self.findings)

    @property
    def worst(self) -> Severity | None:
        """None where all is well."""
        return max((one.severity for one in self.findings), key=SEVERITIES.index, default=None)


def preflight(
    deployments: Deployments,
    client: Callable[[str], Client],
    timeout_s: float = WHOLE_S,
    clock_s: Callable[[], float] = time.monotonic,
) -> Preflight:
    """Look at the account of an environment; `client` makes a boto3 client of a service there.

    No question begins that could end after `timeout_s`.

    Raises CouldNotRunError for credentials of another account or of none.
    """
    began_s = clock_s()
    environment = deployments.environment
    until_s = began_s + timeout_s - _CLOSING_S
    account = Account(
        client,
        account=environment.account,
        region=environment.region,
        until_s=until_s - CONNECT_S - READ_S,
        clock_s=clock_s,
    )
    needs = needs_of(deployments, account)
    _refuse_another_account(account)
    findings, looked_at = _found(needs, until_s, clock_s)
    ordered = sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.place, one.message))
    return Preflight(deployments, tuple(dict.fromkeys(ordered)), looked_at, clock_s() - began_s)


def _refuse_another_account(account: Account) -> None:
    try:
        told = account.read("sts", "get_caller_identity")
    except UnseenError as error:
        unreached = isinstance(error.__cause__, (UnreachedError, HTTPClientError))
        mend = "look at the network, or at --endpoint-url" if unreached else "set AWS_PROFILE or other credentials"
        raise CouldNotRunError(f"the account cannot be asked: {error}; {mend}") from None
    assert told is not None
    if told["Account"] != account.id:
        raise CouldNotRunError(
            f"the credentials are of account {told['Account']} ({told['Arn']}), and environment.yaml deploys to "
            f"{account.id}; set AWS_PROFILE to that one"
        )


def _found(needs: Iterable[Need], until_s: float, clock_s: Callable[[], float]) -> tuple[list[Finding], int]:
    """Findings, and how many of the questions were answered."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="preflight")
    asked: dict[Future[list[Finding]], tuple[_Rule, Need]] = {
        pool.submit(_look, rule, need): (rule, need) for need in needs for rule in RULES if isinstance(need, rule.takes)
    }
    late = wait(asked, timeout=max(0.0, until_s - clock_s())).not_done
    pool.shutdown(wait=False, cancel_futures=True)
    findings: list[Finding] = []
    unseen: dict[tuple[str, str], list[str]] = {}
    for future, (rule, need) in asked.items():
        try:
            if future in late:
                raise UnseenError("there was no answer in time")
            findings += future.result()
        except UnseenError as error:
            unseen.setdefault((need.place, str(error)), []).append(rule.code)
    findings += [_unknown(place, why, codes) for (place, why), codes in unseen.items()]
    return findings, len(asked) - sum(map(len, unseen.values()))


def _look(rule: _Rule, need: Need) -> list[Finding]:
    """Raises UnseenError where the account did not say."""
    try:
        return list(rule.findings(need))
    except _UNREADABLE as error:
        raise UnseenError(f"AWS's answer has a shape nobody expected ({type(error).__name__}: {error})") from error


def _unknown(place: str, why: str, codes: list[str]) -> Finding:
    """One for each reason, whatever the number of rules that could not be judged for it."""
    mend = "loadproof preflight --rights prints what preflight needs; run it again with that"
    return Finding(UNKNOWN, "unknown", place, why, mend, needed=f"an answer, to judge {', '.join(sorted(codes))}")

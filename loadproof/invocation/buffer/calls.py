"""Calls to SQS, S3 and DynamoDB: botocore tries once, and the one retry policy decides what follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from random import Random
from typing import Final, TypeVar

from loadproof.errors import CouldNotRunError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError
from loadproof.invocation.outcomes import Outcome, OutcomeKind, RetryClass
from loadproof.invocation.retry import Attempts, Retries, RetryBudget, RetryPolicy
from loadproof.wire.answers import code_of, passes, status_of, throttled

T = TypeVar("T")

# A store's call costs nothing worth saving: only the minute ends it, not a number of attempts and no budget.
POLICY: Final = RetryPolicy(max_attempts=1_000_000, base_s=0.1, cap_s=5.0, deadline_s=60.0)


class Calls:
    """Repeats what is safe to repeat. `sleep` and `now_s` (a monotonic clock) are passed in by tests."""

    def __init__(
        self,
        policy: RetryPolicy = POLICY,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
        chance: Random | None = None,
    ) -> None:
        self.sleep = sleep
        self.now_s = now_s
        self._retries = Retries(policy, RetryBudget(inf), chance or Random())

    def begin(self) -> Attempts:
        return Attempts(self.now_s())

    def again(self, outcome: Outcome, attempts: Attempts) -> bool:
        """After a failure: wait as long as the policy says and try again, or not."""
        attempts.sent += 1
        decision = self._retries.after(outcome, attempts, self.now_s())
        if decision.give_up is None:
            self.sleep(decision.delay_s)
        return decision.give_up is None

    def succeeded(self) -> None:
        self._retries.succeeded()

    def __call__(self, what: str, call: Callable[[], T]) -> T:
        """Raises CouldNotRunError, which says `what` failed; a 404 or 412 passes through as ClientError."""
        attempts = self.begin()
        while True:
            try:
                answer = call()
            except (ClientError, BotoCoreError) as error:
                if isinstance(error, ClientError) and status_of(error) in (404, 412):
                    raise
                if code_of(error) == "ConditionalCheckFailedException":
                    raise
                outcome = outcome_of(error)
                if not self.again(outcome, attempts):
                    raise CouldNotRunError(f"{what}: {outcome.code}: {outcome.message}") from None
            else:
                self.succeeded()
                return answer


def outcome_of(error: ClientError | BotoCoreError) -> Outcome:
    """The class of what a store answered, or of not reaching it."""
    if isinstance(error, ClientError):
        status, code = status_of(error), code_of(error)
        message = str(error.response.get("Error", {}).get("Message", ""))
        if throttled(code):
            return Outcome(OutcomeKind.THROTTLED, status, code, message, RetryClass.SLOW_DOWN)
        again = passes(status, code)
        kind = OutcomeKind.INTERNAL if again else OutcomeKind.VALIDATION
        return Outcome(kind, status, code, message, RetryClass.TRY_AGAIN if again else RetryClass.POISON)
    hopeless = isinstance(error, NoCredentialsError | ParamValidationError)
    retry = RetryClass.POISON if hopeless else RetryClass.TRY_AGAIN
    return Outcome(OutcomeKind.CONNECTION, None, type(error).__name__, str(error), retry)

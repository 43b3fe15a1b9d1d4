"""How an account is asked: once, in time, and nothing that was not seen counts as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Barrier, Event, Thread, current_thread, main_thread
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from loadproof.preflight.account import Account, UnseenError
from loadproof.preflight.collect import Deployments
from loadproof.preflight.inspection import preflight
from loadproof.preflight.rights import READS, policy_document
from loadproof.profiles.schema import Environment

NAME = {"Name": "/a"}


class Ssm:
    """Answers in turn with what it was given: a value, or an error that is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def get_parameter(self, Name: str) -> Any:  # noqa: N803  boto3's names
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get_paginator(self, operation: str) -> Ssm:
        return self

    def paginate(self, **params: Any) -> Iterator[Any]:
        while self.answers:
            self.asked += 1
            yield self.answers.pop(0)


def error(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetParameter")


def account(ssm: Ssm, clock_s: Callable[[], float] = lambda: 0.0, slept: list[float] | None = None) -> Account:
    sleep = (slept if slept is not None else []).append
    return Account(lambda service: ssm, account="1", region="us-east-1", until_s=10.0, clock_s=clock_s, sleep=sleep)


def test_the_same_question_is_asked_once_from_any_thread() -> None:
    """Rules share answers, and run side by side."""
    ssm = Ssm({"Parameter": 1})
    asked, together, answers = account(ssm), Barrier(8), []

    def ask() -> None:
        together.wait()
        answers.append(asked.read("ssm", "get_parameter", NAME))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ssm.asked, answers) == (1, [{"Parameter": 1}] * 8)


def test_what_is_not_there_is_none() -> None:
    """By the code, or by the code and how the message begins."""
    assert account(Ssm(error("ParameterNotFound"))).read("ssm", "get_parameter", NAME, ("ParameterNotFound",)) is None
    gone = Ssm(error("ValidationException", 'Could not find endpoint "x"'))
    absent = ("ValidationException: Could not find",)
    assert account(gone).read("ssm", "get_parameter", NAME, absent) is None


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (error("AccessDeniedException"), "the right ssm:GetParameter is missing"),
        (error("403"), "the right ssm:GetParameter is missing"),
        (error("InternalServerError", "oh"), "ssm:GetParameter was answered by InternalServerError: oh"),
        (error("ValidationException", "1 error"), "ssm:GetParameter was answered by ValidationException: 1 error"),
    ],
)
def test_any_other_error_is_not_seen(raised: Exception, said: str) -> None:
    """With the right that it takes, or AWS's own words."""
    absent = ("ValidationException: Could not find",)
    with pytest.raises(UnseenError, match=said):
        account(Ssm(raised)).read("ssm", "get_parameter", NAME, absent)


def test_a_throttled_question_is_asked_again() -> None:
    """After half a second, then one; the third refusal is the answer."""
    slept: list[float] = []
    assert account(Ssm(error("ThrottlingException"), {"Parameter": 1}), slept=slept).read(
        "ssm", "get_parameter", NAME
    ) == {"Parameter": 1}
    assert slept == [0.5]
    with pytest.raises(UnseenError, match="was answered by TooManyRequestsException"):
        account(Ssm(*[error("TooManyRequestsException")] * 3), slept=slept).read("ssm", "get_parameter", NAME)
    assert slept == [0.5, 0.5, 1.0]


def test_a_call_that_timed_out_is_made_again_while_there_is_time() -> None:
    """Reading twice does no harm; the clock stands at the limit after two."""
    times = iter([0.0, 6.0, 11.0])
    late = ReadTimeoutError(endpoint_url="http://x")
    with pytest.raises(UnseenError, match="there was no time left for ssm:GetParameter"):
        account(Ssm(late, late, {}), lambda: next(times)).read("ssm", "get_parameter", NAME)


def test_pages_end_when_the_time_does() -> None:
    """Half a list is no list: the quota that is asked about may be in the other half."""
    times = iter([0.0, 5.0, 11.0])
    pages = Ssm({"Quotas": [1]}, {"Quotas": [2]}, {"Quotas": [3]})
    with pytest.raises(UnseenError, match="no time left for servicequotas:ListServiceQuotas"):
        account(pages, lambda: next(times)).listed("service-quotas", "list_service_quotas", "Quotas")
    assert pages.asked == 2


class Hanging:
    """Knows its account, and answers nothing else before it is let go."""

    def __init__(self) -> None:
        self.asked, self.let_go = Event(), Event()

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:root"}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def hang(**params: Any) -> Any:
            self.asked.set()
            self.let_go.wait(60)
            raise ReadTimeoutError(endpoint_url="http://x")

        return hang


def test_an_account_that_hangs_is_told_as_unknown_when_the_time_is_over() -> None:
    """The clock jumps past the limit when the first question has hung; nobody waits for the answer."""
    hanging, reads = Hanging(), iter([0.0, 0.0])

    def clock_s() -> float:
        if current_thread() is not main_thread():
            return 0.0
        now = next(reads, None)
        if now is None:
            hanging.asked.wait(60)
        return 1000.0 if now is None else now

    deployments = Deployments("prod", Environment(account="123456789012", region="us-east-1"), (), "hnb659fds")
    try:
        seen = preflight(deployments, lambda service: hanging, clock_s=clock_s)
    finally:
        hanging.let_go.set()
    (found,) = [one for one in seen.findings if one.place == "/cdk-bootstrap/hnb659fds/version"]
    assert (found.code, found.severity, found.message) == ("LA001", "unknown", "there was no answer in time")
    assert found.needed == "an answer, to judge LA171, LA172"


def test_rights_only_read() -> None:
    """Nothing that makes, changes or deletes, and objects only where resources name them."""
    verbs = ("Batch", "Describe", "Get", "List")
    assert [right.action for right in READS.values() if not right.action.partition(":")[2].startswith(verbs)] == []
    document = policy_document({"objects": ["arn:aws:s3:::models/llama/*"], "buckets": []})
    by_sid = {one["Sid"]: one for one in document["Statement"]}
    assert by_sid["PreflightObjects"]["Action"] == ["s3:GetObject"]
    assert by_sid["PreflightObjects"]["Resource"] == ["arn:aws:s3:::models/llama/*"]
    assert "PreflightBuckets" not in by_sid

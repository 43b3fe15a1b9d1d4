"""The one shim of custom resources: CloudFormation always hears, once, and in time."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from http_servers import Quiet, serving_http

from loadproof.wire import custom_resource
from loadproof.wire.custom_resource import NotReadyError, RefusedError, put, respond, with_retries


class Address:
    """CloudFormation's one-time address: refuses with `statuses` first, then takes what comes."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.answers: list[dict[str, Any]] = []
        self.arrived = threading.Event()
        self.url = ""

    @property
    def event(self) -> dict[str, Any]:
        return {"StackId": "s", "RequestId": "r", "LogicalResourceId": "L", "ResponseURL": self.url}


@pytest.fixture
def address() -> Iterator[Address]:
    made = Address()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["Content-Type"] == ""
            status = made.statuses.pop(0) if made.statuses else 200
            if status == 200:
                made.answers.append(body)
                made.arrived.set()
            self.send_response(status)
            self.end_headers()

    with serving_http(Handler) as url:
        made.url = f"{url}/once"
        yield made


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting costs the tests nothing."""
    pauses: list[float] = []
    monkeypatch.setattr(custom_resource, "time", SimpleNamespace(sleep=pauses.append))  # other threads sleep on
    return pauses


class Context:
    """Lambda's, with so much time left."""

    def __init__(self, left_s: float) -> None:
        self._left_ms = int(left_s * 1000)

    def get_remaining_time_in_millis(self) -> int:
        return self._left_ms


def failing(error: Exception) -> Any:
    def work() -> dict[str, Any]:
        raise error

    return work


def test_data_is_the_answer(address: Address) -> None:
    """The request is named as CloudFormation named it."""
    respond(address.event, None, "id", lambda: {"Arn": "a"}, "it broke")
    assert address.answers == [
        {
            "StackId": "s",
            "RequestId": "r",
            "LogicalResourceId": "L",
            "Status": "SUCCESS",
            "Reason": "",
            "PhysicalResourceId": "id",
            "Data": {"Arn": "a"},
        }
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(KeyError("x"), "it broke: KeyError: 'x'"), (RefusedError("not what was deployed"), "not what was deployed")],
)
def test_what_is_raised_is_the_reason(address: Address, error: Exception, reason: str) -> None:
    """An accident after what was tried, a refusal in its own words."""
    respond(address.event, None, "id", failing(error), "it broke")
    assert [(one["Status"], one["Reason"]) for one in address.answers] == [("FAILED", reason)]


def test_somebody_else_may_answer(address: Address) -> None:
    """None leaves the address to whom it was handed."""
    respond(address.event, None, "id", lambda: None, "it broke")
    assert address.answers == []


def test_what_is_not_ready_fails_without_an_answer(address: Address) -> None:
    """Lambda then runs the function again."""
    with pytest.raises(NotReadyError):
        respond(address.event, None, "id", failing(NotReadyError()), "it broke")
    assert address.answers == []


def test_a_long_reason_fits_an_answer(address: Address) -> None:
    """1,000 bytes of it, 333 of these signs, and no half one: as escapes they stay below the 4,096 of an answer."""
    respond(address.event, None, "id", failing(RefusedError("€" * 5000)), "it broke")
    assert address.answers[0]["Reason"] == "€" * 333


def test_work_that_outlasts_the_function_is_answered_for_once(address: Address) -> None:
    """With no time left but the margin, the guard answers; what the work says later is not sent."""

    def work() -> dict[str, Any]:
        address.arrived.wait(5)
        return {}

    respond(address.event, Context(custom_resource.SPARE_S), "id", work, "it broke")
    assert [one["Reason"] for one in address.answers] == ["it broke: the function's time is over"]


def test_the_guard_ends_with_the_work(address: Address) -> None:
    """Nothing is left behind in a process that serves the next request."""
    before = set(threading.enumerate())
    respond(address.event, Context(900), "id", dict, "it broke")
    guards = [one for one in set(threading.enumerate()) - before if isinstance(one, threading.Timer)]
    for guard in guards:
        guard.join(5)
    assert not any(guard.is_alive() for guard in guards)
    assert [one["Status"] for one in address.answers] == ["SUCCESS"]


def test_an_answer_that_does_not_arrive_is_sent_again(address: Address, slept: list[float]) -> None:
    """Twice a fault of S3's, then it is taken."""
    address.statuses = [503, 500]
    put(address.url, {"Status": "SUCCESS"})
    assert (address.answers, slept) == ([{"Status": "SUCCESS"}], [1, 2])


def test_a_used_address_is_not_asked_again(address: Address, slept: list[float]) -> None:
    """403: somebody has answered, or its time is over."""
    address.statuses = [403]
    with pytest.raises(urllib.error.HTTPError):
        put(address.url, {})
    assert slept == []


def test_an_address_that_cannot_be_reached_fails_after_five_tries(slept: list[float]) -> None:
    """Nothing listens on port 9 of this machine."""
    with pytest.raises(urllib.error.URLError):
        put("http://127.0.0.1:9/", {})
    assert slept == [1, 2, 4, 8]


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "m"}}, "Describe")


def test_new_rights_are_waited_for(slept: list[float]) -> None:
    """IAM tells them to a service within a minute."""
    answers = [refused("AccessDeniedException"), refused("AccessDenied"), None]

    def ask() -> str:
        if error := answers.pop(0):
            raise error
        return "found"

    assert (with_retries(ask), slept) == ("found", [5, 5])


def test_rights_that_do_not_come_are_told_after_a_minute(slept: list[float]) -> None:
    """Twelve waits of 5 s."""
    with pytest.raises(ClientError):
        with_retries(failing(refused("AccessDeniedException")))
    assert sum(slept) == 60


def test_any_other_refusal_is_told_at_once(slept: list[float]) -> None:
    """It would not pass."""
    with pytest.raises(ClientError):
        with_retries(failing(refused("ValidationException")))
    assert slept == []

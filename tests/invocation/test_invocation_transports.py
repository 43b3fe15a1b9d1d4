"""Bad targets and missing credentials, found before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from invocation_fakes import (
    KEYS,
)

from invocation import (
    HttpTransport,
    SageMakerTransport,
)
from loadproof.errors import CouldNotRunError, InputError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SageMakerTransport("a b", region="us-east-1", credentials=KEYS), "endpoint name 'a b'"),
        (lambda: SageMakerTransport("a", component="x/../y", region="us-east-1", credentials=KEYS), "component name"),
        (lambda: SageMakerTransport("a", region="moon", credentials=KEYS), "region 'moon'"),
        (lambda: HttpTransport("localhost:8000"), "expected http://HOST"),
        (lambda: HttpTransport("http://h:99999/"), "expected http://HOST"),
        (lambda: HttpTransport("http://h/\r\nx: y"), "expected http://HOST"),
        (lambda: HttpTransport("http://user:secret@h/"), "put credentials into a header"),
        (lambda: HttpTransport("http://h/", headers={"a": "secret\r\nb: c"}), "header 'a'"),
    ],
)
def test_bad_targets_are_bad_input(make: Callable[[], object], message: str) -> None:
    """Found before anything is sent, and a header's value is not shown."""
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None found: placeholders on loopback, a clear error anywhere else."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    SageMakerTransport("a", region="us-east-1", endpoint_url="http://127.0.0.1:1")
    with pytest.raises(CouldNotRunError, match="no AWS credentials found; set AWS_PROFILE"):
        SageMakerTransport("a", region="us-east-1")
    with pytest.raises(CouldNotRunError, match="no AWS credentials found"):
        SageMakerTransport("a", region="us-east-1", endpoint_url="http://10.0.0.1:1")

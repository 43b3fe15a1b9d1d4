"""Bad targets and missing credentials, found before anything is sent."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import certifi
import pytest
from botocore.exceptions import EndpointConnectionError
from invocation_fakes import KEYS, QUICK, REQUEST, answer, sends, serving

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation import HttpTransport, Invoker, SageMakerTransport, codec_for
from loadproof.invocation.transports import check_prefix_aware_id, trusted_tls


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SageMakerTransport("a b", region="us-east-1", credentials=KEYS), "endpoint name 'a b'"),
        (lambda: SageMakerTransport("a", component="x/../y", region="us-east-1", credentials=KEYS), "component name"),
        (lambda: SageMakerTransport("a", region="moon", credentials=KEYS), "region 'moon'"),
        (lambda: check_prefix_aware_id("chat\r\nx: y"), "1 to 64 printable"),
        (lambda: check_prefix_aware_id(" chat"), "no space at its ends"),
        (lambda: SageMakerTransport("a", prefix_aware_id="x" * 65, region="us-east-1", credentials=KEYS), "1 to 64"),
        (lambda: HttpTransport("localhost:8000"), "expected http://HOST"),
        (lambda: HttpTransport("http://h:99999/"), "expected http://HOST"),
        (lambda: HttpTransport("http://h/\r\nx: y"), "expected http://HOST"),
        (lambda: HttpTransport("http://user:secret@h/"), "put credentials into a header"),
        (lambda: HttpTransport("http://h/#secret"), "query or a fragment"),
        (
            lambda: SageMakerTransport("a", region="us-east-1", endpoint_url="http://h/?x=secret", credentials=KEYS),
            "query or a fragment",
        ),
        (lambda: HttpTransport("http://h/", headers={"a": "secret\r\nb: c"}), "header 'a'"),
    ],
)
def test_bad_targets_are_bad_input(make: Callable[[], object], message: str) -> None:
    """Found before anything is sent, and a header's value is not shown."""
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["chat", "x", "team a: chat", "x" * 64])
def test_a_prefix_aware_id_is_sent_as_botocore_sends_it(name: str, stream: bool) -> None:
    """The same header with the same value, and signed."""
    found: list[Any] = []

    def kept(request: Any, **_: object) -> None:
        found.append(request)
        raise EndpointConnectionError(endpoint_url="nothing answers")

    client = boto3.client(
        "sagemaker-runtime", region_name="eu-west-1", aws_access_key_id="AKID", aws_secret_access_key="secret"
    )
    client.meta.events.register("before-send", kept)
    send = client.invoke_endpoint_with_response_stream if stream else client.invoke_endpoint
    with pytest.raises(EndpointConnectionError):
        send(EndpointName="ep", Body=b"{}", PrefixAwareId=name)
    header = "X-Amzn-SageMaker-Prefix-Aware-Id"

    async def main() -> dict[str, str]:
        async with serving(sends(answer(500, b"{}"))) as server:
            transport = SageMakerTransport(
                "ep", prefix_aware_id=name, region="eu-west-1", credentials=KEYS, endpoint_url=server.url
            )
            invoker = Invoker(transport, codec_for("tgi"), timeouts=QUICK)
            await invoker.invoke(replace(REQUEST, stream=stream))
            await invoker.close()
            return server.requests[0].headers

    sent = asyncio.run(main())
    assert sent[header.lower()] == found[0].headers[header].decode() == name
    assert header.lower() in sent["authorization"]


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_bundle_of_the_environment_is_trusted(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of certificates, a folder of them; one that is neither is named. The system's own are trusted too."""
    for other in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(other, raising=False)
    certificates = ssl.create_default_context(cafile=certifi.where()).get_ca_certs(binary_form=True)[:2]
    files = [tmp_path / "bundle.pem", tmp_path / "system.pem"]
    for file, certificate in zip(files, certificates, strict=True):
        file.write_text(ssl.DER_cert_to_PEM_cert(certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(files[1]))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv(name, str(files[0]))
    assert sorted(trusted_tls().get_ca_certs(binary_form=True)) == sorted(certificates)
    monkeypatch.setenv(name, str(tmp_path))
    assert trusted_tls().verify_mode is ssl.CERT_REQUIRED
    for content in (None, "no certificate"):
        bundle = tmp_path / f"bad-{content}"
        if content:
            bundle.write_text(content)
        monkeypatch.setenv(name, str(bundle))
        with pytest.raises(InputError, match=f"^{name}=.*bad-{content}: not a file of PEM certificates"):
            HttpTransport("https://h/")


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

"""Who has no business in a local cloud is refused before any service sees the request: no operation is reached.

Every attack asks for something that an honest client would find afterwards: a bucket, a queue or a stack of its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import botocore.auth
import psutil
import pytest
from botocore.auth import HmacV1Auth, SigV2Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cloud_clients import boto3_client, signed_headers, trusting_role
from seal_wire import Answer, raw, request_bytes

from loadproof.localcloud.local import LocalCloud, running

Aws = Callable[[str], Any]
Attack = Callable[["Target"], bytes]
FORM = "application/x-www-form-urlencoded"
EVIL = "http://evil.example"


class Target:
    """What an attack is aimed at: a cloud, and a name that is not taken there."""

    def __init__(self, cloud: LocalCloud, name: str) -> None:
        self.cloud, self.name = cloud, name
        self.host = cloud.endpoint_url.removeprefix("http://")
        self.form = f"Action=CreateQueue&QueueName={name}&Version=2012-11-05".encode()
        self.sqs_json = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.CreateQueue"}
        self.json = f'{{"QueueName": "{name}"}}'.encode()

    def signed(self, keys: Credentials | None = None) -> dict[str, str]:
        """An honest PUT of a bucket of the target's name, signed; not sent."""
        return signed_headers(self.cloud, "s3", "PUT", f"/{self.name}", keys=keys)

    def signed_json(self, keys: Credentials | None = None) -> dict[str, str]:
        """An honest CreateQueue of the target's name, signed; not sent."""
        return signed_headers(self.cloud, "sqs", "POST", "/", self.json, self.sqs_json, keys)

    def put(self, headers: dict[str, str] | list[tuple[str, str]], body: bytes = b"") -> bytes:
        return request_bytes("PUT", f"/{self.name}", headers, body)

    def post(self, headers: dict[str, str] | list[tuple[str, str]], body: bytes | None = None) -> bytes:
        return request_bytes("POST", "/", headers, self.json if body is None else body)

    def presigned(self, *, expires_s: int = 60, age_s: float = 0, version: str = "s3v4") -> str:
        """Path and query of a presigned PUT of the bucket, made `age_s` ago."""
        s3 = boto3_client(self.cloud, "s3", signature_version=version, s3={"addressing_style": "path"})
        with _clock(-age_s):
            url: str = s3.generate_presigned_url("create_bucket", Params={"Bucket": self.name}, ExpiresIn=expires_s)
        return url.removeprefix(self.cloud.endpoint_url)


def _clock(by_s: float) -> Any:
    """botocore's clock, moved."""
    now = datetime.now(UTC) + timedelta(seconds=by_s)
    moved = SimpleNamespace(time=lambda: time.time() + by_s, strftime=time.strftime, gmtime=time.gmtime)
    return mock.patch.multiple(botocore.auth, get_current_datetime=lambda: now, time=moved)


def _without(headers: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


def _skewed(by_s: float) -> Attack:
    def attack(target: Target) -> bytes:
        with _clock(by_s):
            return target.put(target.signed())

    return attack


def _session(target: Target, token: str | None) -> bytes:
    """A role's own key and secret, with another token."""
    sts = boto3_client(target.cloud, "sts")
    role = sts.assume_role(RoleArn=trusting_role(target.cloud), RoleSessionName="session")["Credentials"]
    return target.put(target.signed(Credentials(role["AccessKeyId"], role["SecretAccessKey"], token)))


def _bearer(target: Target) -> bytes:
    """A chat with a made-up token."""
    headers = {"Host": target.host, "Authorization": "Bearer sagemaker-api-key-bm9uZQ=="}
    return request_bytes("POST", "/endpoints/e/openai/v1/chat/completions", headers, b"{}")


def _sigv2(target: Target) -> bytes:
    """S3's old header, with the right secret: the new one only is taken."""
    request = AWSRequest("PUT", f"{target.cloud.endpoint_url}/{target.name}")
    request.auth_path = f"/{target.name}"
    HmacV1Auth(Credentials(target.cloud.state.access_key, target.cloud.state.secret_key)).add_auth(request)
    return target.put({"Host": target.host, **dict(request.headers.items())})


def _sigv2_query(target: Target) -> bytes:
    """The Query protocol's old signature, by parameters in the form."""
    keys = Credentials(target.cloud.state.access_key, target.cloud.state.secret_key)
    fields = {"Action": "CreateQueue", "QueueName": target.name, "Version": "2012-11-05"}
    request = AWSRequest("POST", f"{target.cloud.endpoint_url}/", data=fields)
    SigV2Auth(keys).add_auth(request)
    body = "&".join(f"{name}={value}" for name, value in request.data.items()).encode()
    return target.post({"Host": target.host, "Content-Type": FORM}, body)


def _template_form(target: Target) -> bytes:
    body = f"Action=CreateStack&StackName={target.name}&TemplateBody=%7B%7D".encode()
    return target.post({"Host": target.host, "Content-Type": "text/plain", "Origin": EVIL}, body)


def _chunked(target: Target) -> bytes:
    """The signed hash is of another body than the chunks carry."""
    headers = {**target.signed_json(), "Transfer-Encoding": "chunked"}
    other = target.json.replace(b"{", b"{ ")
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(other), other)
    return request_bytes("POST", "/", headers, body)


def _unsigned_target(target: Target) -> bytes:
    """Signed without the header that names the operation, which is then put there."""
    headers = signed_headers(target.cloud, "sqs", "POST", "/", target.json)
    return target.post({**headers, **target.sqs_json})


def _host(name: str) -> Attack:
    return lambda target: target.put({**target.signed(), "Host": name.format(port=target.cloud.state.port)})


def _unsigned(**headers: str) -> Attack:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda target: target.put({"Host": target.host, **shown})


def _signed_with(**headers: str) -> Attack:
    """Rightly signed, and yet from where nobody signs: it stops what a stolen signature or a rebound name would do."""
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda target: target.put({**target.signed(), **shown})


def _guessed(access_key: str, secret: str) -> Attack:
    return lambda target: target.put(target.signed(Credentials(access_key, secret)))


def _presigned(method: str = "PUT", change: Callable[[str], str] = str, **how: Any) -> Attack:
    def attack(target: Target) -> bytes:
        return request_bytes(method, change(target.presigned(**how)), {"Host": target.host})

    return attack


def _of_own_key(secret: str) -> Attack:
    """The key's id is no secret (it is in every log): it is worth nothing alone."""
    return lambda target: target.put(target.signed(Credentials(target.cloud.state.access_key, secret)))


ATTACKS: dict[str, Attack] = {
    # Pages
    "a simple request of a page": _signed_with(Origin=EVIL),
    "a null origin": _signed_with(Origin="null"),
    "another loopback port's origin": _signed_with(Origin="http://localhost:1"),
    "our own origin by https": lambda target: target.put({**target.signed(), "Origin": f"https://{target.host}"}),
    "two origins, one of them ours": lambda target: target.put(
        [*target.signed().items(), ("Origin", f"http://{target.host}"), ("Origin", EVIL)]
    ),
    "a form of a page": lambda target: target.post(
        {"Host": target.host, "Content-Type": FORM, "Origin": EVIL}, target.form
    ),
    "a form as plain text": _template_form,
    "a form without an origin": lambda target: target.post({"Host": target.host, "Content-Type": FORM}, target.form),
    "an image of a page": _signed_with(Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image"),
    "a page of another port": _signed_with(Sec_Fetch_Site="same-site"),
    "a websocket": _signed_with(
        Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA=="
    ),
    # Names that lead here
    "DNS rebinding": _host("evil.example:{port}"),
    "DNS rebinding, an address as a name": _host("127.0.0.1.evil.example:{port}"),
    "a name that begins like ours": _host("localhost.evil.example:{port}"),
    "another machine's address": _host("192.168.0.1:{port}"),
    "our name with another port": _host("localhost:1"),
    "our name without a port": _host("localhost"),
    "every address": _host("0.0.0.0:{port}"),
    "a user in the Host": _host("localhost:{port}@evil.example"),
    # Keys
    "no key": _unsigned(),
    "no key, a page's content type": _unsigned(Content_Type="text/plain"),
    "a guessed key": _guessed("test", "test"),
    "the key of AWS's own examples": _guessed("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "our placeholder": _guessed("loadproof", "loadproof"),
    "what services once signed with": _guessed("loopback", "loopback"),
    "our key's id with a guessed secret": _of_own_key("guessed"),
    "our key's id with an empty secret": _of_own_key(""),
    "an invented token with our key": lambda target: target.put(
        target.signed(Credentials(target.cloud.state.access_key, target.cloud.state.secret_key, "token"))
    ),
    "a session with another token": lambda target: _session(target, "forged"),
    "a session without its token": lambda target: _session(target, None),
    "S3's old signature": _sigv2,
    "the Query protocol's old signature": _sigv2_query,
    "a made-up bearer token": _bearer,
    "a scope without a signature": _unsigned(
        Authorization="AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/s3/aws4_request"
    ),
    # Signatures of something else
    "a signature replayed on another body": lambda target: target.post(
        signed_headers(target.cloud, "sqs", "POST", "/", b'{"QueueName": "honest"}', target.sqs_json)
    ),
    "a signature replayed on another path": lambda target: target.put(
        signed_headers(target.cloud, "s3", "PUT", "/honest-bucket")
    ),
    "a signature replayed with another method": lambda target: target.put(
        signed_headers(target.cloud, "s3", "GET", f"/{target.name}")
    ),
    "a signature replayed for another operation": lambda target: target.post(
        {
            **signed_headers(
                target.cloud,
                "sqs",
                "POST",
                "/",
                target.json,
                {**target.sqs_json, "X-Amz-Target": "AmazonSQS.GetQueueUrl"},
            ),
            **target.sqs_json,
        }
    ),
    "a signature replayed by another name of ours": _host("127.0.0.1:{port}"),
    "a signature replayed with a query": lambda target: request_bytes("PUT", f"/{target.name}?acl", target.signed()),
    "a signature of sixteen minutes ago": _skewed(-16 * 60),
    "a signature of sixteen minutes ahead": _skewed(16 * 60),
    "a signature of yesterday": _skewed(-86400),
    "a header of AWS's added": lambda target: target.put({**target.signed(), "X-Amz-Acl": "public-read-write"}),
    "the operation added": _unsigned_target,
    "a host that is not signed": lambda target: target.put(
        {**target.signed(), "Authorization": target.signed()["Authorization"].replace("host;", "")}
    ),
    "a cut signature": lambda target: target.put(
        {**target.signed(), "Authorization": target.signed()["Authorization"][:-1]}
    ),
    "a body in chunks that is not the signed one": _chunked,
    "an unsigned body where only S3 has that": lambda target: target.post(
        signed_headers(
            target.cloud, "sqs", "POST", "/", b"", {**target.sqs_json, "X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
        )
    ),
    # Presigned addresses
    "an expired address": _presigned(age_s=61),
    "an expired address of the old kind": _presigned(age_s=61, version="s3"),
    "an address of a week and a second": _presigned(
        change=lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=604801")
    ),
    "an address with a longer life": _presigned(
        change=lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")
    ),
    "an old address with a longer life": _presigned(
        change=lambda url: url.replace("Expires=1", "Expires=2"), version="s3"
    ),
    "an address for another method": _presigned(method="DELETE"),
    "an address for another place": _presigned(change=lambda url: url.replace("?", "-other?")),
    "an address with a parameter more": _presigned(change=lambda url: f"{url}&acl"),
    "an address without its signature": _presigned(change=lambda url: url.partition("&X-Amz-Signature")[0]),
    # The line and the framing
    "OPTIONS with a good signature": lambda target: request_bytes(
        "OPTIONS", f"/{target.name}", signed_headers(target.cloud, "s3", "OPTIONS", f"/{target.name}")
    ),
    "an absolute address": lambda target: request_bytes("PUT", f"http://{target.host}/{target.name}", target.signed()),
    "HTTP/1.0 without a Host": lambda target: request_bytes(
        "PUT", f"/{target.name}", _without(target.signed(), "Host"), version="HTTP/1.0"
    ),
    "moto's own API": lambda target: request_bytes("POST", "/moto-api/reset", {"Host": target.host}),
    "moto's own API by a page": lambda target: request_bytes(
        "GET", "/moto-api/data.json", {"Host": target.host, "Origin": EVIL}
    ),
    "moto's unsigned operation": lambda target: target.post(
        {"Host": target.host, "Content-Type": FORM},
        b"Action=AssumeRoleWithWebIdentity&RoleArn=arn:aws:iam::123456789012:role/any&RoleSessionName=session"
        b"&WebIdentityToken=t",
    ),
}


@pytest.fixture(scope="module")
def kept(aws: Aws, cloud: LocalCloud) -> Iterator[None]:
    """Something that a reset would take away."""
    aws("s3").create_bucket(Bucket="kept")
    yield
    aws("s3").delete_bucket(Bucket="kept")


def reached(aws: Aws, name: str) -> list[str]:
    """What an honest client finds of an attack's name; and whether anything was taken away."""
    found = [bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"]]
    gone = [] if "kept" in found else ["kept"]
    found += aws("sqs").list_queues(QueueNamePrefix=name).get("QueueUrls", [])
    found += [stack["StackName"] for stack in aws("cloudformation").list_stacks()["StackSummaries"]]
    return gone + [one for one in found if name in one]


def assert_refused(answer: Answer) -> None:
    assert answer.status == 403, (answer.status, answer.body)
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_reaches_nothing(attack: Attack, aws: Aws, cloud: LocalCloud, request: pytest.FixtureRequest) -> None:
    """403, nothing that a page may read, and nothing made or taken away."""
    name = f"attacked-{list(ATTACKS.values()).index(attack)}"
    answer = raw(cloud, attack(Target(cloud, name)))
    assert_refused(answer)
    assert reached(aws, name) == []


@pytest.mark.parametrize("header", ["Host", "Authorization"])
def test_a_header_twice_reaches_nothing(header: str, aws: Aws, cloud: LocalCloud) -> None:
    """Two answers to one question: the server's parser or the gate refuses, whichever comes first."""
    target = Target(cloud, f"twice-{header.lower()}")
    other = {"Host": "evil.example", "Authorization": "Bearer none"}[header]
    answer = raw(cloud, target.put([*target.signed().items(), (header, other)]))
    assert answer.status in (400, 403)
    assert reached_bucket(aws, target.name) == []


def reached_bucket(aws: Aws, name: str) -> list[str]:
    return [bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"] if bucket["Name"] == name]


@pytest.mark.parametrize("origin", ["null", EVIL, "http://localhost:1"])
def test_a_preflight_gets_no_permission(origin: str, cloud: LocalCloud) -> None:
    """What a browser asks before it sends a page's own headers."""
    target = Target(cloud, "preflight")
    asked = {
        "Host": target.host,
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,x-amz-target",
        "Access-Control-Request-Private-Network": "true",
    }
    assert_refused(raw(cloud, request_bytes("OPTIONS", "/", asked)))


def test_an_unsigned_body_is_the_first_one_only(aws: Aws, cloud: LocalCloud) -> None:
    """S3 takes bodies that are not signed: a captured signature of one brings no other body, and a retry is one."""
    aws("s3").create_bucket(Bucket="unsigned-bodies")
    headers = signed_headers(
        cloud, "s3", "PUT", "/unsigned-bodies/it", b"", {"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
    )
    honest, other = (request_bytes("PUT", "/unsigned-bodies/it", headers, body) for body in (b"honest", b"other"))
    assert [raw(cloud, one).status for one in (honest, other, honest)] == [200, 403, 200]
    assert aws("s3").get_object(Bucket="unsigned-bodies", Key="it")["Body"].read() == b"honest"


def test_a_presigned_address_is_held_to_its_host(aws: Aws, cloud: LocalCloud) -> None:
    """Host is signed: the same address by another of our names is another address."""
    target = Target(cloud, "presigned-host")
    answer = raw(cloud, request_bytes("PUT", target.presigned(), {"Host": f"127.0.0.1:{cloud.state.port}"}))
    assert_refused(answer)


def test_what_is_taken_of_a_browser(aws: Aws, cloud: LocalCloud) -> None:
    """The witness that the attacks fail for what they are: the same request, without what is wrong, is done."""
    target = Target(cloud, "honest-bucket-of-all")
    own = {"Origin": f"http://{target.host}", "Sec-Fetch-Site": "same-origin"}
    assert raw(cloud, target.put({**target.signed(), **own})).status == 200
    assert reached_bucket(aws, target.name) == [target.name]
    assert raw(cloud, Target(cloud, "honest-queue").post(Target(cloud, "honest-queue").signed_json())).status == 200
    assert (
        raw(cloud, request_bytes("PUT", Target(cloud, "honest-url").presigned(), {"Host": target.host})).status == 200
    )


def test_one_cloud_does_not_take_anothers_keys(
    aws: Aws, cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the keys nor the sessions of a second cloud open the first."""
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    with running("other") as other:
        role = boto3_client(other, "sts").assume_role(RoleArn=trusting_role(other), RoleSessionName="session")
        session = role["Credentials"]
        keys = [
            Credentials(other.state.access_key, other.state.secret_key),
            Credentials(session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"]),
        ]
        target = Target(cloud, "of-another-cloud")
        for one in keys:
            assert_refused(raw(cloud, target.put(target.signed(one))))
    assert reached_bucket(aws, target.name) == []


def test_moto_listens_on_no_port(cloud: LocalCloud) -> None:
    """The cloud's process has its one port, on loopback only; moto's door is a socket in a folder of this user's."""
    process = psutil.Process(cloud.state.pid)
    listening = [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert {one.laddr.port for one in listening} == {cloud.state.port}
    assert {one.laddr.ip for one in listening} <= {"127.0.0.1", "::1"}
    [door] = [one.laddr for one in process.net_connections("unix") if "loadproof-moto" in str(one.laddr)][:1]
    assert _mode(door) == 0o700


def _mode(path: str) -> int:
    return Path(path).parent.stat().st_mode & 0o777

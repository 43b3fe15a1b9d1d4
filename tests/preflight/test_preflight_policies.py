"""What a policy says to a role that does not exist yet: by hand, as AWS's documentation of policies has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadproof.preflight.policies import TLS_VERSIONS, Answer, Asker, answer_of

ACCOUNT = "123456789012"
TLS = {"aws:SecureTransport": "true", "s3:TlsVersion": TLS_VERSIONS}
ROLE = Asker(ACCOUNT, context={**TLS, "aws:PrincipalAccount": ACCOUNT})
LOGS = Asker(ACCOUNT, "logs.us-east-1.amazonaws.com")
OBJECT = "arn:aws:s3:::models/llama/model.safetensors"
ROOT = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
NOT_TLS = {"Bool": {"aws:SecureTransport": "false"}}
OWN_ORGANIZATION = {"StringNotEquals": {"aws:PrincipalOrgID": "o-1"}}


def statement(effect: str = "Allow", **parts: Any) -> dict[str, Any]:
    return {"Effect": effect, "Principal": "*", "Action": "s3:GetObject", "Resource": "*", **parts}


def unnamed(effect: str) -> dict[str, Any]:
    """A statement without its Principal."""
    return {"Effect": effect, "Action": "s3:GetObject", "Resource": "*"}


@pytest.mark.parametrize(
    ("statements", "answer"),
    [
        ([], "silent"),
        ([statement()], "allowed"),
        ([statement("Deny")], "denied"),
        ([statement(), statement("Deny")], "denied"),
        ([statement(Principal=ROOT)], "allowed"),
        ([statement(Principal={"AWS": ACCOUNT})], "allowed"),
        ([statement(Principal={"AWS": "arn:aws:iam::999999999999:root"})], "silent"),
        ([statement("Deny", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/other"})], "silent"),
        ([statement(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/other"})], "silent"),
        ([statement(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/loadproof-prod-chat-Role-1X"})], "unclear"),
        ([statement("Deny", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/loadproof-prod-chat-Role-1X"})], "unclear"),
        ([statement(Principal={"AWS": "arn:aws:iam::999999999999:role/other"})], "silent"),
        ([statement(Action="s3:Get*")], "allowed"),
        ([statement(Action="S3:GETOBJECT")], "allowed"),
        ([statement(Action=["s3:PutObject", "s3:GetObjectAcl"])], "silent"),
        ([statement("Deny", Action=[], NotAction="s3:PutObject")], "denied"),
        ([statement(Resource="arn:aws:s3:::models/other/*")], "silent"),
        ([statement("Deny", Resource=[], NotResource="arn:aws:s3:::models/llama/*")], "silent"),
        ([statement("Deny", Condition=NOT_TLS)], "silent"),
        ([statement("Deny", Condition=OWN_ORGANIZATION)], "unclear"),
        ([statement(), statement("Deny", Condition=OWN_ORGANIZATION)], "unclear"),
        ([statement("Deny", Condition={**NOT_TLS, **OWN_ORGANIZATION})], "silent"),
        ([statement(Condition={"StringEquals": {"aws:principalaccount": [ACCOUNT, "1"]}})], "allowed"),
        ([statement(Condition={"StringNotEquals": {"aws:PrincipalAccount": ACCOUNT}})], "silent"),
        ([statement(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}})], "unclear"),
        ([statement("Deny", Condition={"NumericLessThan": {"s3:TlsVersion": "1.2"}})], "silent"),
        ([statement("Deny", Condition={"NumericLessThan": {"s3:TlsVersion": 1.2}})], "silent"),
        ([statement("Deny", Condition={"NumericLessThan": {"s3:TlsVersion": "1.3"}})], "unclear"),
        ([statement("Deny", Condition={"NumericLessThanIfExists": {"s3:TlsVersion": ["1.4"]}})], "denied"),
        ([statement("Deny", Condition={"NumericGreaterThan": {"s3:signatureAge": "600000"}})], "unclear"),
        ([statement(Condition={"NumericGreaterThanEquals": {"s3:TlsVersion": "1.2"}})], "allowed"),
        ([{**unnamed("Deny"), "NotPrincipal": ROOT}], "denied"),
        ([{**unnamed("Deny"), "NotPrincipal": {"AWS": ["*"]}}], "silent"),
        ([{**unnamed("Deny"), "NotPrincipal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/other"}}], "denied"),
        ([{**unnamed("Deny"), "NotPrincipal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/loadproof-a-b"}}], "unclear"),
    ],
)
def test_an_answer_to_a_role_of_the_account(statements: list[dict[str, Any]], answer: Answer) -> None:
    """A Deny goes before every Allow; what cannot be told is unclear and never allowed."""
    assert answer_of(json.dumps({"Statement": statements}), ROLE, "s3:GetObject", OBJECT) == answer


@pytest.mark.parametrize(
    ("principal", "answer"),
    [
        (ROOT, "silent"),
        ({"Service": "logs.us-east-1.amazonaws.com"}, "allowed"),
        ({"Service": ["s3.amazonaws.com", "logs.us-east-1.amazonaws.com"]}, "allowed"),
        ({"Service": "logs.eu-west-1.amazonaws.com"}, "silent"),
        ("*", "allowed"),
    ],
)
def test_an_answer_to_a_service(principal: Any, answer: Answer) -> None:
    """The account's own root is not its services."""
    policy = json.dumps({"Statement": statement(Principal=principal, Action="kms:*")})
    assert answer_of(policy, LOGS, "kms:Decrypt", "arn:aws:kms:us-east-1:1:key/2") == answer

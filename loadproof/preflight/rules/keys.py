"""The environment's key: whether it works, and whether its policy lets those use it that must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog import registry
from loadproof.preflight.account import Account, UnseenError
from loadproof.preflight.needs import Key
from loadproof.preflight.policies import Answer, Asker, answer_of
from loadproof.preflight.rules.rule import Found, key_rule

_GONE: Final = ("NotFoundException",)
_MENDS: Final = {
    "Disabled": "aws kms enable-key --key-id {arn} --region {region}",
    "PendingDeletion": "aws kms cancel-key-deletion --key-id {arn} --region {region}, then aws kms enable-key",
}


@key_rule(
    "LA131",
    "The key cannot be used",
    reason="Volumes, queues, results and logs are encrypted with `kms_key_arn`. With a key that is missing, disabled "
    "or about to be deleted the stack fails at the first of them.",
    mend="Enable the key, or name another one in environment.yaml.",
)
def key_unusable(need: Key) -> Iterator[Found]:
    region = need.account.region
    found = need.account.read("kms", "describe_key", {"KeyId": need.arn}, _GONE)
    if found is None:
        yield Found(
            need.arn, "there is no such key", f"aws kms create-key --region {region}", needed="a key that is enabled"
        )
        return
    key = found["KeyMetadata"]
    mend = f"aws kms describe-key --key-id {need.arn} --region {region}"
    if key["KeyState"] != "Enabled":
        mend = _MENDS.get(key["KeyState"], mend).format(arn=need.arn, region=region)
        yield Found(need.arn, f"its state is {key['KeyState']}", mend, needed="Enabled")
    elif key.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        yield Found(
            need.arn,
            f"its kind is {key['KeySpec']}",
            f"aws kms create-key --region {region}",
            needed="SYMMETRIC_DEFAULT",
        )


@key_rule(
    "LA132",
    "The key's policy leaves the account's roles out",
    reason="Rights in IAM hold for a key only where its policy lets the account decide. Otherwise the role of the "
    "endpoint, of the buffer and of the benchmark get AccessDenied, whatever the stack gives them.",
    mend="Let the key's policy name the account (`arn:aws:iam::ACCOUNT:root`), or each role once it exists.",
)
def roles_left_out(need: Key) -> Iterator[Found]:
    context = {
        "kms:CallerAccount": need.account.id,
        "aws:PrincipalAccount": need.account.id,
        "aws:SecureTransport": "true",
        "kms:ViaService": f"sagemaker.{need.account.region}.amazonaws.com",
    }
    answer = _answer(need.account, need.arn, Asker(need.account.id, context=context), "kms:Decrypt")
    if answer in ("denied", "silent"):
        says = "denies kms:Decrypt to" if answer == "denied" else "does not name"
        root = f"arn:{registry(need.account.region).partition}:iam::{need.account.id}:root"
        yield Found(
            need.arn,
            f"its policy {says} the account {need.account.id}",
            _put(need),
            needed=f"a statement that allows kms:* to {root}",
        )


@key_rule(
    "LA133",
    "The key's policy leaves a service out",
    reason="CloudWatch Logs encrypts log groups as a service, and CloudWatch tells alarms to an encrypted topic: "
    "neither uses a role. Without a statement for the service the log group, and so the stack, fails; an alarm fires "
    "and nobody hears it.",
    mend="Add a statement for the service to the key's policy.",
)
def services_left_out(need: Key) -> Iterator[Found]:
    for service in need.services:
        answer = key_answer_to(service, need.account, need.arn)
        if answer in ("denied", "silent"):
            yield Found(
                need.arn,
                f"its policy {'denies' if answer == 'denied' else 'does not name'} {service}",
                _put(need),
                needed=f"a statement that allows kms:Decrypt, kms:Encrypt, kms:GenerateDataKey*, "
                f"kms:ReEncrypt* and kms:DescribeKey to Service {service}",
            )


def key_answer_to(service: str, account: Account, arn: str) -> Answer:
    """What the key's policy says to a service that encrypts by its own name. Raises UnseenError where it cannot be
    judged."""
    context = {"aws:SourceAccount": account.id, "kms:CallerAccount": account.id, "aws:SecureTransport": "true"}
    if service.startswith("logs."):
        # Logs says which group it asks for; a policy may allow the groups of this account alone.
        group = f"{account.region}:{account.id}:log-group:/aws/sagemaker/Endpoints/loadproof"
        context["kms:EncryptionContext:aws:logs:arn"] = f"arn:{registry(account.region).partition}:logs:{group}"
    return _answer(account, arn, Asker(account.id, service, context), "kms:GenerateDataKey")


def _answer(account: Account, arn: str, asker: Asker, action: str) -> Answer:
    """Silent about a key that is not there is another rule's to say. Raises UnseenError where it cannot be judged."""
    found = account.read("kms", "get_key_policy", {"KeyId": arn, "PolicyName": "default"}, _GONE)
    if found is None:
        return "allowed"
    answer = answer_of(found["Policy"], asker, action, arn)
    if answer == "unclear":
        raise UnseenError(f"the policy of {arn} has conditions or names roles: that cannot be judged from outside")
    return answer


def _put(need: Key) -> str:
    named = f"--key-id {need.arn} --policy-name default --region {need.account.region}"
    return (
        f"aws kms get-key-policy {named} --query Policy --output text > policy.json, then edit it, then "
        f"aws kms put-key-policy {named} --policy file://policy.json"
    )

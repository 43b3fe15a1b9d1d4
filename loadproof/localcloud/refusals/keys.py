"""What KMS refuses beyond its service model."""

from __future__ import annotations

import base64
import json

from loadproof.localcloud.refusals.rules import Rule, check_tags, require
from loadproof.localcloud.wire import AwsError, Caller, Params

_INVALID = "ValidationException"
_MOST_PLAINTEXT = 4096
_ENCRYPT, _SIGN, _MAC, _AGREE = "ENCRYPT_DECRYPT", "SIGN_VERIFY", "GENERATE_VERIFY_MAC", "KEY_AGREEMENT"
# What a key is for, by how its KeySpec begins: https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateKey.html
_USAGES = {
    "SYMMETRIC_DEFAULT": (_ENCRYPT,),
    "HMAC_": (_MAC,),
    "RSA_": (_ENCRYPT, _SIGN),
    "ECC_NIST_P": (_SIGN, _AGREE),
    "ECC_": (_SIGN,),
    "ML_DSA_": (_SIGN,),
    "SM2": (_ENCRYPT, _SIGN, _AGREE),
}


def _create(caller: Caller, params: Params) -> None:
    _check_policy(params.get("Policy"))
    _check_usage(params)
    check_tags([tag["TagKey"] for tag in params.get("Tags") or []], "TagException")


def _check_usage(params: Params) -> None:
    spec = params.get("KeySpec") or params.get("CustomerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    usage = params.get("KeyUsage")
    if usage is None:
        message = "You must specify a KeyUsage value for an asymmetric KMS key or an HMAC KMS key."
        require(spec == "SYMMETRIC_DEFAULT", _INVALID, message)
        return
    usages = next((found for start, found in _USAGES.items() if spec.startswith(start)), (usage,))
    require(usage in usages, _INVALID, f"KeyUsage {usage} is not compatible with KeySpec {spec}")


def _check_policy(policy: str | None) -> None:
    if policy is None:
        return
    try:
        known = isinstance(json.loads(policy), dict)
    except ValueError:
        known = False
    known = known and bool(json.loads(policy).get("Statement"))
    if not known:
        raise AwsError("MalformedPolicyDocumentException", "The key policy is not syntactically correct.")


def _put_policy(caller: Caller, params: Params) -> None:
    _check_policy(params["Policy"])


def _alias(caller: Caller, params: Params) -> None:
    name = params["AliasName"]
    require(name.startswith("alias/"), _INVALID, "Invalid identifier")
    reserved = name.startswith("alias/aws/")
    require(not reserved, "NotAuthorizedException", "Cannot create alias with prefix alias/aws/")


def _delete(caller: Caller, params: Params) -> None:
    days = params.get("PendingWindowInDays", 30)
    require(7 <= days <= 30, _INVALID, f"PendingWindowInDays must be between 7 and 30, found {days}.")


def _encrypt(caller: Caller, params: Params) -> None:
    plain = base64.b64decode(params["Plaintext"])
    message = (
        "1 validation error detected: Value at 'plaintext' failed to satisfy constraint: Member must have length "
        f"less than or equal to {_MOST_PLAINTEXT}"
    )
    require(len(plain) <= _MOST_PLAINTEXT, _INVALID, message)


def _data_key(caller: Caller, params: Params) -> None:
    message = "Please specify either number of bytes or key spec."
    require(("KeySpec" in params) != ("NumberOfBytes" in params), _INVALID, message)


RULES: dict[str, Rule] = {
    "CreateKey": _create,
    "PutKeyPolicy": _put_policy,
    "CreateAlias": _alias,
    "ScheduleKeyDeletion": _delete,
    "Encrypt": _encrypt,
    "GenerateDataKey": _data_key,
    "GenerateDataKeyWithoutPlaintext": _data_key,
}

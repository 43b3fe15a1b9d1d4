"""What KMS refuses beyond its service model."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import Moto, Rule, check_tags, moto_of, require, texts
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

_INVALID, _MALFORMED, _STATE = "ValidationException", "MalformedPolicyDocumentException", "KMSInvalidStateException"
_UNREADABLE = "The key policy is not syntactically correct."
_MOST_PLAINTEXT = 4096
# CreateGrant takes ARNs; what AWS's own services grant names them otherwise.
_PRINCIPAL = re.compile(r"arn:aws[\w-]*:(iam|sts)::\d{12}:.+|\d{12}|[\w.-]+\.amazonaws\.com")
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
    _check_policy(caller, params)
    _check_usage(params)
    store = params.get("CustomKeyStoreId")
    require(store is None, "CustomKeyStoreNotFoundException", f"Custom key store {store} not found")
    _check_tags(caller, params)


def _check_tags(caller: Caller, params: Params) -> None:
    found = key_of(caller, params["KeyId"]) if "KeyId" in params else None
    kept = moto_of("kms", caller).tagger.get_tag_dict_for_resource(found.id) if found is not None else ()
    check_tags([tag["TagKey"] for tag in params.get("Tags") or []], "TagException", kept=kept)


def _check_usage(params: Params) -> None:
    spec = params.get("KeySpec") or params.get("CustomerMasterKeySpec") or "SYMMETRIC_DEFAULT"
    usage = params.get("KeyUsage")
    if usage is None:
        message = "You must specify a KeyUsage value for an asymmetric KMS key or an HMAC KMS key."
        require(spec == "SYMMETRIC_DEFAULT", _INVALID, message)
        return
    usages = next((found for start, found in _USAGES.items() if spec.startswith(start)), (usage,))
    require(usage in usages, _INVALID, f"KeyUsage {usage} is not compatible with KeySpec {spec}")


def _check_policy(caller: Caller, params: Params) -> None:
    """https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html"""
    if params.get("Policy") is None:
        return
    statements = _statements(params["Policy"])
    for row in statements:
        require(row.get("Effect") in ("Allow", "Deny"), _MALFORMED, f"{_UNREADABLE}: Effect")
        for field in ("Principal", "Action", "Resource"):
            require(field in row or f"Not{field}" in row, _MALFORMED, f"{_UNREADABLE}: {field}")
        for one in _principals(row):
            message = "Policy contains a statement with one or more invalid principals."
            require(_is_there(caller, one), _MALFORMED, message)
    safe = params.get("BypassPolicyLockoutSafetyCheck") or any(_opens(row, caller) for row in statements)
    message = "The new key policy will not allow you to update the key policy in the future."
    require(safe, _MALFORMED, message)


def _statements(policy: str) -> list[Document]:
    try:
        found = json.loads(policy)
    except ValueError:
        raise AwsError(_MALFORMED, _UNREADABLE) from None
    rows = found.get("Statement") if isinstance(found, dict) else None
    rows = [rows] if isinstance(rows, dict) else rows
    require(isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows), _MALFORMED, _UNREADABLE)
    return list(rows or [])


def _principals(row: Document) -> list[str]:
    """The accounts, roles and users of a statement."""
    named = row.get("Principal")
    return texts(named.get("AWS")) if isinstance(named, Mapping) else texts(named)


def _is_there(caller: Caller, principal: str) -> bool:
    """Whether a role or user of this account exists; who is in others cannot be told."""
    parts = principal.split(":", maxsplit=5)
    if parts[2:3] != ["iam"] or parts[4:5] != [caller.account] or parts[5] == "root":
        return True
    iam: Any = get_backend("iam")[caller.account]["aws"]
    return any(one.arn == principal for one in [*iam.roles.values(), *iam.users.values()])


def _opens(row: Document, caller: Caller) -> bool:
    """Whether it lets somebody of this account put the key's next policy."""
    ours = [one for one in _principals(row) if one in ("*", caller.account) or f"::{caller.account}:" in one]
    actions = [one.lower() for one in texts(row.get("Action"))]
    return row["Effect"] == "Allow" and bool(ours) and any(fnmatchcase("kms:putkeypolicy", one) for one in actions)


def _put_policy(caller: Caller, params: Params) -> None:
    _check_policy(caller, params)


def _alias(caller: Caller, params: Params) -> None:
    name = params["AliasName"]
    require(name.startswith("alias/"), _INVALID, "Invalid identifier")
    require(name != "alias/", "InvalidAliasNameException", "Alias must have a name after alias/")
    reserved = name.startswith("alias/aws/")
    require(not reserved, "NotAuthorizedException", "Cannot create alias with prefix alias/aws/")
    _stays(caller, {"KeyId": params["TargetKeyId"]})


def _delete_alias(caller: Caller, params: Params) -> None:
    reserved = params["AliasName"].startswith("alias/aws/")
    require(not reserved, "NotAuthorizedException", "Cannot delete alias with prefix alias/aws/")


def _delete(caller: Caller, params: Params) -> None:
    days = params.get("PendingWindowInDays", 30)
    require(7 <= days <= 30, _INVALID, f"PendingWindowInDays must be between 7 and 30, found {days}.")
    _stays(caller, params)


def _cancel(caller: Caller, params: Params) -> None:
    found = key_of(caller, params["KeyId"])
    message = f"{found and found.arn} is not pending deletion."
    require(found is None or found.key_state == "PendingDeletion", _STATE, message)


def key_of(caller: Caller, reference: str) -> Moto:
    """moto's key, None when there is none; by id, alias, or the ARN of either."""
    backend = moto_of("kms", caller)
    name = backend.get_key_id(backend.get_alias_name(reference))
    return backend.keys.get(name) or next((key for key in backend.keys.values() if name in key.aliases), None)


def _usage(found: Moto) -> str:
    return str((found and found.key_usage) or _ENCRYPT)


# What a key that is off or about to go may still be asked:
# https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
def _stays(caller: Caller, params: Params) -> Moto:
    """The key, None when there is none."""
    found = key_of(caller, params["KeyId"])
    leaves = found is not None and found.key_state == "PendingDeletion"
    require(not leaves, _STATE, f"{found and found.arn} is pending deletion.")
    return found


def _works(caller: Caller, params: Params) -> Moto:
    found = _stays(caller, params)
    require(found is None or found.enabled, "DisabledException", f"{found and found.arn} is disabled.")
    return found


def _serves(usage: str, caller: Caller, params: Params) -> Moto:
    found = _works(caller, params)
    message = f"{found and found.arn} key usage is {_usage(found)} which is not valid for the operation."
    require(found is None or _usage(found) == usage, "InvalidKeyUsageException", message)
    return found


def _encrypt(caller: Caller, params: Params) -> None:
    plain = base64.b64decode(params["Plaintext"])
    message = (
        "1 validation error detected: Value at 'plaintext' failed to satisfy constraint: Member must have length "
        f"less than or equal to {_MOST_PLAINTEXT}"
    )
    require(len(plain) <= _MOST_PLAINTEXT, _INVALID, message)
    found = _serves(_ENCRYPT, caller, params)
    asked = params.get("EncryptionAlgorithm", "SYMMETRIC_DEFAULT")
    fits = found is None or (found.key_spec == "SYMMETRIC_DEFAULT") == (asked == "SYMMETRIC_DEFAULT")
    message = f"The {asked} algorithm is not compatible with {found and found.key_spec}."
    require(fits, "InvalidKeyUsageException", message)


def _data_key(caller: Caller, params: Params) -> None:
    message = "Please specify either number of bytes or key spec."
    require(("KeySpec" in params) != ("NumberOfBytes" in params), _INVALID, message)
    found = _serves(_ENCRYPT, caller, params)
    message = f"{found and found.arn} is no symmetric encryption KMS key."
    require(found is None or found.key_spec == "SYMMETRIC_DEFAULT", "InvalidKeyUsageException", message)


def _rotate(caller: Caller, params: Params) -> None:
    found = _works(caller, params)
    rotates = found is None or found.key_spec == "SYMMETRIC_DEFAULT"
    require(rotates, "UnsupportedOperationException", f"{found and found.arn} cannot be rotated.")


# https://docs.aws.amazon.com/kms/latest/developerguide/grants.html#terms-grant-operations
_GRANTED: Final = {
    _ENCRYPT: {
        "Decrypt", "Encrypt", "GenerateDataKey", "GenerateDataKeyPair", "GenerateDataKeyPairWithoutPlaintext",
        "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo", "GetPublicKey",
    },
    _SIGN: {"Sign", "Verify", "GetPublicKey"},
    _MAC: {"GenerateMac", "VerifyMac"},
    _AGREE: {"DeriveSharedSecret", "GetPublicKey"},
}  # fmt: skip


def _grant(caller: Caller, params: Params) -> None:
    found = _works(caller, params)
    for name in ("GranteePrincipal", "RetiringPrincipal"):
        who = params.get(name)
        message = f"{name} {who} is no ARN of a principal, or does not exist"
        there = who is None or (_PRINCIPAL.fullmatch(who) and _is_there(caller, who))
        require(there, "InvalidArnException", message)
    fit = _GRANTED[_usage(found)] | {"CreateGrant", "DescribeKey", "RetireGrant"}
    message = f"Operations {params['Operations']} are not supported by {found and found.arn}"
    require(found is None or fit.issuperset(params["Operations"]), _INVALID, message)


def _tag(caller: Caller, params: Params) -> None:
    _stays(caller, params)
    _check_tags(caller, params)


RULES: dict[str, Rule] = {
    "CreateKey": _create,
    "PutKeyPolicy": _put_policy,
    "CreateAlias": _alias,
    "UpdateAlias": lambda caller, params: _stays(caller, {"KeyId": params["TargetKeyId"]}),
    "DeleteAlias": _delete_alias,
    "ScheduleKeyDeletion": _delete,
    "CancelKeyDeletion": _cancel,
    "Encrypt": _encrypt,
    "GenerateDataKey": _data_key,
    "GenerateDataKeyWithoutPlaintext": _data_key,
    "Sign": partial(_serves, _SIGN),
    "Verify": partial(_serves, _SIGN),
    "GenerateMac": partial(_serves, _MAC),
    "VerifyMac": partial(_serves, _MAC),
    "EnableKeyRotation": _rotate,
    "CreateGrant": _grant,
    "TagResource": _tag,
    **dict.fromkeys(("EnableKey", "DisableKey", "DisableKeyRotation", "UntagResource", "UpdateKeyDescription"), _stays),
}

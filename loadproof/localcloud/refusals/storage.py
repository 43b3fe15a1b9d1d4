"""What S3 refuses and moto would take. Its service model has hardly a constraint: rules by verb and query."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import moto.sqs.models
from moto.backends import get_backend
from moto.core.parse import RequestParserError, RestXMLParser
from moto.core.utils import get_service_model

from loadproof.localcloud.refusals.asked import Request
from loadproof.localcloud.refusals.iam import unknown_principals
from loadproof.localcloud.refusals.keys import key_of
from loadproof.localcloud.refusals.rules import require
from loadproof.localcloud.wire import AwsError, Caller, faults
from loadproof.wire.documents import Json

_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_MOST_KEY_BYTES, _MOST_RULE_ID, _MOST_DELETED, _MOST_METADATA = 1024, 255, 1000, 2048
_RETAIN_UNTIL = "x-amz-object-lock-retain-until-date"
_MOST_BUCKET_TAGS, _MOST_OBJECT_TAGS = 50, 10
_MOST_POLICY_BYTES = 20 * 1024  # S3 user guide, "Bucket policies"; without white space
_OWNED, _OWN_ACCESS = "BucketOwnerEnforced", ("private", "bucket-owner-full-control")
_INFREQUENT, _LEAST_DAYS = ("STANDARD_IA", "ONEZONE_IA"), 30  # S3 user guide, "Transitioning objects"
_METADATA = "x-amz-meta-"
_POSTED = {"delete", "uploads", "restore"}  # forms aside, which are not taken here
_ALGORITHMS = {"AES256", "aws:kms", "aws:kms:dsse", "aws:fsx"}
_ACTIONS = (
    "Expiration", "Transition", "NoncurrentVersionExpiration", "NoncurrentVersionTransition",
    "AbortIncompleteMultipartUpload",
)  # fmt: skip


def check(caller: Caller, request: Request) -> None:
    """Raise AwsError for what S3 refuses."""
    bucket, key = _place(request)
    if request.verb == "GET" and not key:
        most = request.query.get("max-keys", "0")
        require(most.isdigit(), "InvalidArgument", "Argument maxKeys must be an integer between 0 and 2147483647")
        _check_token(caller, request)
    if request.verb == "POST" and "delete" in request.query:
        require(len(list(_elements(request.body, "Object"))) <= _MOST_DELETED, "MalformedXML", _MALFORMED)
    if request.verb == "POST" and "uploadId" in request.query:
        _check_upload(caller, bucket, request)
    elif request.verb == "POST" and "select" in request.query:
        require(False, "NotImplemented", "The local cloud does not provide this: S3 Select")
    elif request.verb == "POST" and not _POSTED & request.query.keys():
        require(_bucket(caller, bucket), "NoSuchBucket", "The specified bucket does not exist", 404)
        message = "The specified method is not allowed against this resource."
        require(False, "MethodNotAllowed", message, 405)
    if request.verb != "PUT":
        return
    if key:
        if "uploadId" in request.query:
            _check_upload(caller, bucket, request)
        _check_object(key, request)
        _check_sums(request)
        _check_retention(request)
        _check_tags(request, key)
        _check_access(caller, bucket, request)
        _check_key(caller, request)
    elif not request.query:
        _check_bucket(caller, bucket, request)
    elif "policy" in request.query:
        _check_policy(caller, bucket, request.body)
        _check_public(caller, bucket, request.body)
    elif "acl" in request.query:
        _check_access(caller, bucket, request)
    else:
        _check_model(request)
        _check_tags(request)
        _check_lock(caller, bucket, request)
        if "lifecycle" in request.query:
            _check_lifecycle(request.body)
        elif "notification" in request.query:
            _check_queues(request.body)
        elif "encryption" in request.query:
            _check_default_key(request.body)
        elif "website" in request.query:
            message = "The IndexDocument Suffix is not well formed"
            require(not any("/" in one for one in _texts(request.body, "Suffix")), "InvalidArgument", message)


def _check_token(caller: Caller, request: Request) -> None:
    """moto breaks at a token that it did not give."""
    token = request.query.get("continuation-token")
    known: Any = get_backend("s3")[caller.account]["aws"]._pagination_tokens
    require(not token or token in known, "InvalidArgument", "The continuation token provided is incorrect")


def _check_default_key(body: bytes) -> None:
    """A key's id stands beside an algorithm of KMS."""
    ours = not any(one.startswith("aws:kms") for one in _texts(body, "SSEAlgorithm"))
    message = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse"
    require(not (ours and any(_texts(body, "KMSMasterKeyID"))), "InvalidArgument", message)


def _check_upload(caller: Caller, bucket: str, request: Request) -> None:
    """Parts are named in their order, of an upload that is there."""
    known = _bucket(caller, bucket)
    if known is None:
        return
    message = "The specified multipart upload does not exist. The upload ID might be invalid, or it was ended."
    require(request.query["uploadId"] in known.multiparts, "NoSuchUpload", message, 404)
    if request.verb != "POST":
        return
    numbers = [int(one) for one in _texts(request.body, "PartNumber") if one.isdigit()]
    message = "The list of parts was not in ascending order. Parts must be ordered by part number."
    require(numbers == sorted(set(numbers)), "InvalidPartOrder", message)


def _check_access(caller: Caller, bucket: str, request: Request) -> None:
    """A bucket's owner owns its objects, and lists of access are off, unless it says otherwise (since April 2023)."""
    known = _bucket(caller, bucket)
    if known is None:
        return
    rules = (known.ownership_rule or {}).get("Rule") or [{}]
    owned = (rules[0] if isinstance(rules, list) else rules).get("ObjectOwnership", _OWNED) == _OWNED
    asked = request.headers.get("x-amz-acl", _OWN_ACCESS[0])
    granted = any(name.lower().startswith("x-amz-grant-") for name in request.headers)
    refused = owned and (asked not in _OWN_ACCESS or granted)
    require(not refused, "AccessControlListNotSupported", "The bucket does not allow ACLs")


def _check_public(caller: Caller, bucket: str, body: bytes) -> None:
    """Since April 2023 no policy opens a bucket to everybody unless its block of public policies is taken away."""
    known = _bucket(caller, bucket)
    block = known.public_access_block if known is not None else None
    if known is None or (block is not None and str(block.block_public_policy).lower() != "true"):
        return
    rows = json.loads(body)["Statement"]
    for row in rows if isinstance(rows, list) else [rows]:
        everybody = row.get("Principal") in ("*", {"AWS": "*"}, {"AWS": ["*"]})
        message = "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access."
        require(
            row.get("Effect") != "Allow" or not everybody or row.get("Condition"),
            "AccessDenied",
            f"User is not authorized to perform: s3:PutBucketPolicy on resource: {bucket} {message}",
            403,
        )


def _check_key(caller: Caller, request: Request) -> None:
    """Of keys of other accounts and regions this cannot be told; AWS's own for S3 is always there."""
    name = request.headers.get("x-amz-server-side-encryption-aws-kms-key-id", "")
    ours = not name.startswith("arn:") or name.startswith(f"arn:aws:kms:{caller.region}:{caller.account}:")
    if name and ours and not name.endswith("alias/aws/s3"):
        require(key_of(caller, name) is not None, "KMS.NotFoundException", f"Invalid keyId '{name}'")


def _bucket(caller: Caller, name: str) -> Any:
    return get_backend("s3")[caller.account]["aws"].buckets.get(name)


def _check_model(request: Request) -> None:
    """A configuration of a bucket by S3's service model: its enumerations and what it requires."""
    name = next((_SUBRESOURCES[one] for one in request.query if one in _SUBRESOURCES), None)
    if name is None or not request.body:
        return
    operation: Any = get_service_model("s3").operation_model(name)
    payload = operation.input_shape.members[operation.input_shape.serialization["payload"]]
    parser: Any = RestXMLParser(operation)
    try:
        params = parser._parse_shape(payload, ElementTree.fromstring(request.body))  # noqa: S314 - the machine's own callers
    except (ElementTree.ParseError, RequestParserError, ValueError):
        raise AwsError("MalformedXML", _MALFORMED) from None
    for fault in faults(payload, params):
        require("enum value set" not in fault and "must not be null" not in fault, "MalformedXML", _MALFORMED)


def _check_tags(request: Request, key: str = "") -> None:
    """S3 user guide: 50 tags of a bucket, 10 of an object."""
    kind, most = ("Object", _MOST_OBJECT_TAGS) if key else ("Bucket", _MOST_BUCKET_TAGS)
    count = len(parse_qsl(request.headers.get("x-amz-tagging", ""), keep_blank_values=True))
    require(count <= most, "BadRequest", f"{kind} tags cannot be greater than {most}")
    if "tagging" in request.query:
        names = [one.findtext("{*}Key") for one in _elements(request.body, "Tag")]
        require(len(names) <= most, "BadRequest", f"{kind} tag count cannot be greater than {most}")
        message = "Cannot provide multiple Tags with the same key"
        require(len(set(names)) == len(names), "InvalidTag", message)


def _check_sums(request: Request) -> None:
    """What stands in headers; of a trailer moto's front has it."""
    for name, made in (("sha256", hashlib.sha256), ("sha1", hashlib.sha1)):
        given = request.headers.get(f"x-amz-checksum-{name}")
        if given is None:
            continue
        message = f"Value for x-amz-checksum-{name} header is invalid."
        require(len(given) == 4 * -(-made().digest_size // 3), "InvalidRequest", message)
        right = base64.b64encode(made(request.body).digest()).decode() == given
        require(right, "BadDigest", f"The {name.upper()} you specified did not match the calculated checksum.")


def _check_lock(caller: Caller, bucket: str, request: Request) -> None:
    """S3 user guide, "Object Lock considerations": it needs versions, and they stay on."""
    known = _bucket(caller, bucket)
    if known is not None and "versioning" in request.query and known.object_lock_enabled:
        message = "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed."
        require("Suspended" not in _texts(request.body, "Status"), "InvalidBucketState", message, 409)
    if known is not None and "object-lock" in request.query:
        message = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
        require(known.is_versioned or known.object_lock_enabled, "InvalidBucketState", message, 409)


def _check_retention(request: Request) -> None:
    until = [*_texts(request.body, "RetainUntilDate")] if "retention" in request.query else []
    until += [value for name, value in request.headers.items() if name.lower() == _RETAIN_UNTIL]
    for one in until:
        moment = datetime.fromisoformat(one.strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        require(moment > datetime.now(UTC), "InvalidArgument", "The retain until date must be in the future!")


def _check_queues(body: bytes) -> None:
    """Notifications go to queues that exist."""
    for arn in _texts(body, "Queue"):
        _, _, _, region, account, name = (*arn.split(":"), *[""] * 6)[:6]
        known = bool(name) and name in moto.sqs.models.sqs_backends[account][region].queues
        require(known, "InvalidArgument", "Unable to validate the following destination configurations")


_MALFORMED = "The XML you provided was not well-formed or did not validate against our published schema"


# What a PUT with such a query is; those that S3 has two names for, or a text for, are looked at by rules.
_SUBRESOURCES = {
    "accelerate": "PutBucketAccelerateConfiguration",
    "encryption": "PutBucketEncryption",
    "lifecycle": "PutBucketLifecycleConfiguration",
    "notification": "PutBucketNotificationConfiguration",
    "ownershipControls": "PutBucketOwnershipControls",
    "publicAccessBlock": "PutPublicAccessBlock",
    "replication": "PutBucketReplication",
    "requestPayment": "PutBucketRequestPayment",
    "tagging": "PutBucketTagging",
    "versioning": "PutBucketVersioning",
}


def _place(request: Request) -> tuple[str, str]:
    """Bucket and key, by path or by host."""
    path = unquote(request.raw_path.partition("?")[0]).lstrip("/")
    host = request.headers.get("Host", "").partition(":")[0]
    owner, _, rest = host.partition(".localhost")
    if rest == "" and owner != host and owner:
        return owner, path
    bucket, _, key = path.partition("/")
    return bucket, key


def _check_bucket(caller: Caller, name: str, request: Request) -> None:
    plain = _BUCKET.fullmatch(name) and ".." not in name and not _ADDRESS.fullmatch(name)
    free = not name.startswith(_RESERVED_PREFIXES) and not name.endswith(_RESERVED_SUFFIXES)
    require(plain and free, "InvalidBucketName", "The specified bucket is not valid.")
    for region in _texts(request.body, "LocationConstraint"):
        message = "Your previous request to create the named bucket succeeded and you already own it."
        require(_bucket(caller, name) is None, "BucketAlreadyOwnedByYou", message, 409)
        known = re.fullmatch(r"(EU|[a-z]{2}(-[a-z]+)+-\d)", region)
        require(known, "InvalidLocationConstraint", "The specified location-constraint is not valid")


def _check_object(key: str, request: Request) -> None:
    require(len(key.encode()) <= _MOST_KEY_BYTES, "KeyTooLongError", "Your key is too long")
    headers = request.headers
    algorithm = headers.get("x-amz-server-side-encryption")
    message = "The encryption method specified is not supported"
    require(algorithm is None or algorithm in _ALGORITHMS, "InvalidArgument", message)
    message = (
        "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"
    )
    by_key = headers.get("x-amz-server-side-encryption-aws-kms-key-id")
    require(not by_key or (algorithm or "").startswith("aws:kms"), "InvalidArgument", message)
    wanted = headers.get("If-None-Match")
    message = "A header you provided implies functionality that is not implemented"
    require(wanted in (None, "*"), "NotImplemented", message, 501)
    told = [(name[len(_METADATA) :], value) for name, value in headers.items() if name.lower().startswith(_METADATA)]
    message = "Your metadata headers exceed the maximum allowed metadata size"
    require(sum(len(name) + len(value) for name, value in told) <= _MOST_METADATA, "MetadataTooLarge", message)
    digest = headers.get("Content-MD5")
    if digest and not headers.get("x-amz-content-sha256", "").startswith("STREAMING"):
        actual = base64.b64encode(hashlib.md5(request.body, usedforsecurity=False).digest()).decode()
        message = "The Content-MD5 you specified did not match what we received."
        require(digest == actual, "BadDigest", message)
    for name, _ in parse_qsl(headers.get("x-amz-tagging", ""), keep_blank_values=True):
        require(not name.startswith("aws:"), "InvalidTag", "System tags cannot be added/updated by requester")


def _check_policy(caller: Caller, bucket: str, body: bytes) -> None:
    code = "MalformedPolicy"
    try:
        policy = json.loads(body)
    except ValueError:
        raise AwsError(code, "Policies must be valid JSON and the first byte must be '{'") from None
    rows: Json = policy.get("Statement") if isinstance(policy, dict) else None
    rows = [rows] if isinstance(rows, dict) else rows
    require(rows, code, "Missing required field Statement")
    size = len(json.dumps(policy, separators=(",", ":")).encode())
    message = f"Policy exceeds the maximum allowed document size of {_MOST_POLICY_BYTES} bytes."
    require(size <= _MOST_POLICY_BYTES, "PolicyTooLarge", message)  # the code is from memory
    for row in rows:
        named = json.dumps([row.get("Principal"), row.get("NotPrincipal")])
        require(not unknown_principals(caller, named), code, "Invalid principal in policy")
        require("Principal" in row or "NotPrincipal" in row, code, "Missing required field Principal")
        actions = row.get("Action", row.get("NotAction", []))
        for action in actions if isinstance(actions, list) else [actions]:
            require(re.match(r"\*$|s3[\w-]*:", action, re.IGNORECASE), code, "Policy has invalid action")
        resources = row.get("Resource", row.get("NotResource", []))
        for resource in resources if isinstance(resources, list) else [resources]:
            own = re.fullmatch(r"(?:arn:aws[\w-]*:s3:::)?([^/]+)(/.*)?", resource)
            fits = resource == "*" or (own is not None and re.fullmatch(_glob(own[1]), bucket))
            require(fits, code, "Policy has invalid resource")


def _glob(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")


def _check_lifecycle(body: bytes) -> None:
    ids = [one.text for rule in _elements(body, "Rule") for one in rule if _name(one) == "ID"]
    message = "Rule ID must be unique. Found same ID for more than one rule"
    require(len(set(ids)) == len(ids), "InvalidArgument", message)
    for action in (*_elements(body, "Expiration"), *_elements(body, "Transition")):
        given = {_name(one) for one in action}
        require(not {"Days", "Date"} <= given, "MalformedXML", _MALFORMED)
    for rule in _elements(body, "Rule"):
        inner = {_name(one): one for one in rule}
        status = inner["Status"].text if "Status" in inner else None
        require(status in ("Enabled", "Disabled"), "MalformedXML", _MALFORMED)
        name = (inner["ID"].text or "") if "ID" in inner else ""
        message = "ID length should not exceed allowed limit of 255"
        require(len(name) <= _MOST_RULE_ID, "InvalidArgument", message)
        message = "At least one action needs to be specified in a rule"
        require(inner.keys() & set(_ACTIONS), "InvalidRequest", message)
        for move in [one for one in rule if _name(one) == "Transition"]:
            told = {_name(one): one.text or "" for one in move}
            early = told.get("StorageClass") in _INFREQUENT and int(told.get("Days") or _LEAST_DAYS) < _LEAST_DAYS
            message = f"'Days' in Transition action must be greater than or equal to {_LEAST_DAYS} for storageClass "
            require(not early, "InvalidArgument", f"{message}'{told.get('StorageClass')}'")
        _check_days(rule)


def _check_days(rule: ElementTree.Element) -> None:
    """What is to be moved is moved before it ends; at once (0 days) where its class takes it."""
    told = [(_name(action), one.text or "") for action in rule for one in action if _name(one) == "Days"]
    for name, days in told:
        message = f"'Days' for {name} action must be a positive integer"
        require(days.isdigit() and (int(days) > 0 or name == "Transition"), "InvalidArgument", message)
    moved = max((int(days) for name, days in told if name == "Transition"), default=-1)
    ends = min((int(days) for name, days in told if name == "Expiration"), default=moved + 1)
    message = "'Days' in the Expiration action must be greater than 'Days' in the Transition action"
    require(ends > moved, "InvalidArgument", message)


def _elements(body: bytes, name: str) -> Iterator[ElementTree.Element]:
    try:
        root = ElementTree.fromstring(body) if body else None  # noqa: S314 - the machine's own callers
    except ElementTree.ParseError:
        raise AwsError("MalformedXML", _MALFORMED) from None
    if root is not None:
        yield from (one for one in root.iter() if _name(one) == name)


def _texts(body: bytes, name: str) -> list[str]:
    return [one.text or "" for one in _elements(body, name)]


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def error_body(error: AwsError, request_id: str) -> bytes:
    """S3's own form of an error."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{escape(error.code)}</Code>'
        f"<Message>{escape(error.message)}</Message><RequestId>{request_id}</RequestId></Error>"
    ).encode()

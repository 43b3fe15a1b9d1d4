"""Weights, adapters and the hub's token: whether they are there, and whether the endpoint's role may read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog import registry
from loadproof.preflight.account import UnseenError
from loadproof.preflight.needs import Secret, Weights
from loadproof.preflight.policies import TLS_VERSIONS, Asker, answer_of
from loadproof.preflight.rules.rule import Found, secret_rule, weights_rule
from loadproof.wire.documents import Document

_NO_BUCKET: Final = ("404", "NoSuchBucket")
_NO_POLICY: Final = ("NoSuchBucketPolicy", *_NO_BUCKET)
_LISTED, _LOOKED_AT = 1000, 50  # objects; those that are asked for one by one
_ARCHIVES: Final = ("GLACIER", "DEEP_ARCHIVE")
_BESIDE: Final = (".json", ".txt", ".md", ".jinja")
_LOADED: Final = (".safetensors", ".bin")
# What tells a server which model it loads: transformers, Mistral's own form, adapters, diffusers.
_CONFIGS: Final = ("config.json", "params.json", "adapter_config.json", "model_index.json")
_REGION_HEADER: Final = "x-amz-bucket-region"


@weights_rule(
    "LA121",
    "The bucket of the weights is not there",
    reason="SageMaker reads weights from a bucket of the endpoint's own region. Without it no copy starts, and the "
    "stack waits for the whole download time-out first.",
    mend="Make the bucket in the endpoint's region, or name the right one.",
)
def bucket_missing(need: Weights) -> Iterator[Found]:
    region = need.account.region
    found = need.account.read("s3", "head_bucket", {"Bucket": need.bucket}, _NO_BUCKET)
    if found is None:
        yield Found(
            need.uri,
            f"there is no bucket {need.bucket}",
            f"aws s3 mb s3://{need.bucket} --region {region}",
            needed=need.what,
        )
        return
    lies_in = found.get("BucketRegion") or found["ResponseMetadata"]["HTTPHeaders"].get(_REGION_HEADER, region)
    if lies_in != region:
        yield Found(
            need.uri,
            f"the bucket lies in {lies_in}",
            f"aws s3 sync {_folder(need)} s3://BUCKET-IN-{region}/{need.key} --source-region {lies_in} "
            f"--region {region}",
            needed=f"a bucket in {region} for {need.what}",
        )


@weights_rule(
    "LA122",
    "No weights lie at the address",
    reason="An empty prefix or a missing object fails the component only after its download time-out; one with a "
    "config.json and no weights, when the server is to load them. Weights without their config.json start no server.",
    mend="Put the weights there, with the config.json of their checkpoint, before the deployment.",
)
def weights_missing(need: Weights) -> Iterator[Found]:
    keys = _keys(need)
    if keys is None or (keys and (need.is_object or len(keys) == _LISTED)):
        return
    names = [key.rpartition("/")[2] for key in keys]
    shown = ", ".join(names if len(names) < 4 else [*names[:3], "others"])
    copy = f"aws s3 cp LOCAL {need.uri}{'' if need.is_object else ' --recursive'}"
    if all(map(_is_beside, keys)):
        yield Found(need.uri, f"without weights: {shown}" if keys else "nothing lies there", copy, needed=need.what)
    elif need.by_known_server and not set(names) & set(_CONFIGS) and all(map(_is_of_checkpoint, keys)):
        yield Found(need.uri, f"without config.json: {shown}", copy, needed=need.what)


@weights_rule(
    "LA123",
    "The bucket's policy keeps the role out",
    reason="The stack gives its role the right to read the weights. A Deny in the bucket's policy goes before it, and "
    "a bucket of another account must allow this account beside.",
    mend="Change the bucket's policy so that roles of this account may read the weights.",
)
def policy_denies(need: Weights) -> Iterator[Found]:
    if need.from_jumpstart:
        return
    found = need.account.read("s3", "get_bucket_policy", {"Bucket": need.bucket}, _NO_POLICY)
    if found is None:
        return
    partition = registry(need.account.region).partition
    bucket = f"arn:{partition}:s3:::{need.bucket}"
    context = {
        "aws:SecureTransport": "true",
        "s3:TlsVersion": TLS_VERSIONS,
        "aws:PrincipalAccount": need.account.id,
        "aws:PrincipalType": "AssumedRole",
    }
    asker = Asker(need.account.id, context=context)
    objects = [("s3:GetObject", f"{bucket}/{key}") for key in dict.fromkeys([need.key, *(_keys(need) or [])])]
    asked = [*objects, ("s3:ListBucket", bucket)]
    answers = {one: answer_of(found["Policy"], asker, *one) for one in asked}
    denied = list(dict.fromkeys(action for (action, _), answer in answers.items() if answer == "denied"))
    if denied:
        yield Found(
            need.uri,
            f"the policy of bucket {need.bucket} denies {' and '.join(denied)} to roles of {need.account.id}",
            f"aws s3api get-bucket-policy --bucket {need.bucket} --query Policy --output text > policy.json, then edit "
            f"it, then aws s3api put-bucket-policy --bucket {need.bucket} --policy file://policy.json",
            needed=need.what,
        )
    elif "unclear" in answers.values():
        raise UnseenError(
            f"the policy of bucket {need.bucket} has conditions or names roles: that cannot be judged from outside"
        )


@weights_rule(
    "LA124",
    "Weights are encrypted with a key that the role may not use",
    reason="The role may use the environment's `kms_key_arn` and no other key. Objects that another customer managed "
    "key encrypts cannot be read: the component fails after its download time-out with AccessDenied.",
    mend="Write the weights again with the environment's key, or make that key the environment's.",
)
def weights_under_another_key(need: Weights) -> Iterator[Found]:
    for name in (_keys(need) or [])[:_LOOKED_AT]:
        found = need.account.read("s3", "head_object", {"Bucket": need.bucket, "Key": name}, ("404", "NoSuchKey"))
        key = (found or {}).get("SSEKMSKeyId")
        if key is None or _same_key(key, need.key_arn) or _is_s3s_own(need, key):
            continue
        with_key = f"--sse aws:kms --sse-kms-key-id {need.key_arn}" if need.key_arn else "--sse AES256"
        yield Found(
            need.uri,
            f"{name} is encrypted with {key}",
            f"aws s3 cp {need.uri} {need.uri}{'' if need.is_object else ' --recursive'} {with_key}",
            needed=need.key_arn or "S3's own key, as the environment names none",
        )
        return  # one names the class


@weights_rule(
    "LA126",
    "Weights in an archive",
    reason="S3 gives an object of Glacier's classes out hours after it was asked for, and SageMaker does not ask: it "
    "gets InvalidObjectState, and the component fails.",
    mend="Restore the objects and copy them to S3 Standard, and leave the prefix out of the lifecycle rule.",
)
def weights_archived(need: Weights) -> Iterator[Found]:
    for one in _objects(need) or []:
        if one.get("StorageClass") in _ARCHIVES:
            yield Found(
                need.uri,
                f"{one['Key']} lies in {one['StorageClass']}",
                f"aws s3 cp {need.uri} {need.uri}{'' if need.is_object else ' --recursive'} --storage-class STANDARD, "
                "once `aws s3api restore-object` has restored them",
                needed=need.what,
            )
            return  # one names the class


@secret_rule(
    "LA125",
    "The hub's token is not there",
    reason="Staging reads the token of a gated model from Secrets Manager. A secret that is missing or about to be "
    "deleted fails the stack.",
    mend="Create or restore the secret.",
)
def token_missing(need: Secret) -> Iterator[Found]:
    region = need.account.region
    found = need.account.read(
        "secretsmanager", "describe_secret", {"SecretId": need.arn}, ("ResourceNotFoundException",)
    )
    if found is None:
        name = need.arn.rpartition(":secret:")[2]
        make = f"aws secretsmanager create-secret --name {name} --secret-string file://token --region {region}"
        yield Found(need.arn, "there is no such secret", make, needed="the hub's token")
    elif found.get("DeletedDate"):
        restore = f"aws secretsmanager restore-secret --secret-id {need.arn} --region {region}"
        yield Found(
            need.arn,
            f"its deletion was asked for on {found['DeletedDate']:%Y-%m-%d}",
            restore,
            needed="the hub's token",
        )


def _is_beside(key: str) -> bool:
    """A file that a checkpoint has beside its weights. Code, or properties, may fetch them from elsewhere."""
    name = key.rpartition("/")[2]
    return name.endswith(_BESIDE) or name in ("tokenizer.model", "LICENSE", ".gitattributes")


def _is_of_checkpoint(key: str) -> bool:
    """Weights that a server loads by their config.json, and what lies beside them."""
    return _is_beside(key) or key.endswith(_LOADED)


def _keys(need: Weights) -> list[str] | None:
    """Of its objects, as many as one answer lists; None without the bucket."""
    objects = _objects(need)
    return None if objects is None else [one["Key"] for one in objects]


def _objects(need: Weights) -> list[Document] | None:
    params = {"Bucket": need.bucket, "Prefix": need.key, "MaxKeys": _LISTED}
    found = need.account.read("s3", "list_objects_v2", params, _NO_BUCKET)
    if found is None:
        return None
    objects = [one for one in found.get("Contents", []) if one.get("Size", 1) > 0]
    return [one for one in objects if one["Key"] == need.key] if need.is_object else objects


def _is_s3s_own(need: Weights, key: str) -> bool:
    """The key that AWS manages for S3 (aws/s3): whoever may read the object may use it."""
    found = need.account.read("kms", "describe_key", {"KeyId": key}, ("NotFoundException",))
    return found is not None and found["KeyMetadata"].get("KeyManager") == "AWS"


def _folder(need: Weights) -> str:
    return need.uri.rpartition("/")[0] + "/" if need.is_object else need.uri


def _same_key(found: str, allowed: str | None) -> bool:
    return allowed is not None and found.rpartition("/")[2] == allowed.rpartition("/")[2]

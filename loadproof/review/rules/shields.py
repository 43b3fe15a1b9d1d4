"""What protects a resource, and what of that the head lacks: isolation (LR041), keys and TLS (LR042)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from loadproof.catalog import instances
from loadproof.review.rules.change import Change, View, rendered
from loadproof.review.rules.denials import denials_lost
from loadproof.review.rules.serving import CONFIG, FUNCTION, MODEL, QUEUE
from loadproof.review.rules.words import label
from loadproof.templates.template import Resource, listed

_Protections = Iterable[tuple[tuple[str, str, str], str]]  # (stack, logical id, what protects it) -> in words


def _isolation_of(view: View) -> _Protections:
    """What is shut off from the network."""
    for stack, resource in view.placed(MODEL, CONFIG, FUNCTION):
        properties = resource.properties
        if properties.get("EnableNetworkIsolation") is True:
            yield (stack, resource.logical_id, "isolation"), f"network isolation of {label(resource)}"
        if _in_a_vpc(properties.get("VpcConfig")):
            yield (stack, resource.logical_id, "vpc"), f"the VPC of {label(resource)}"


def _encryption_of(view: View) -> _Protections:
    """What has a key of one's own, and the queues that AWS encrypts where nobody says otherwise."""
    for stack, resource in view.placed(CONFIG, QUEUE, FUNCTION, *_KEYED):
        for what, key in _keys(resource):
            if key and not _AWS_KEY.search(rendered(key)):
                yield (stack, resource.logical_id, what), f"the key of {label(resource)} ({what})"
    for stack, queue in view.placed(QUEUE):
        plain = rendered(queue.properties.get("SqsManagedSseEnabled")).lower() == "false"
        if queue.properties.get("KmsMasterKeyId") or not plain:
            yield (stack, queue.logical_id, "at rest"), f"the encryption of {label(queue)}"


def _in_a_vpc(config: object) -> bool:
    """Empty lists take a function out of its VPC, as no configuration does."""
    if isinstance(config, Mapping) and (names := {"SubnetIds", "Subnets"} & set(config)):
        return all(config[name] for name in names)
    return bool(config)


def _lost(change: Change, look: Callable[[View], _Protections]) -> list[tuple[str, str]]:
    """(logical id, words) of protections of the base that the head lacks, of resources that stay."""
    if not change.has_both:
        return []
    kept = {key for key, _ in look(change.after)}
    return [
        (name, words)
        for (stack, name, what), words in look(change.before)
        if (stack, name, what) not in kept
        and (after := change.after.find(stack, name)) is not None
        and not _no_use(after, what)
    ]


def isolation_lost(change: Change) -> list[tuple[str, str]]:
    """(logical id, words) of what is no longer shut off from the network."""
    return _lost(change, _isolation_of)


def encryption_lost(change: Change) -> list[tuple[str, str]]:
    """The same of encryption, at rest and on the way: the denial of requests without TLS, whole as it was."""
    words = "the rule that {} is reached over TLS only"
    tls = dict.fromkeys((one.logical_id, words.format(one.words)) for one in denials_lost(change) if one.tls)
    return [*_lost(change, _encryption_of), *tls]


_AWS_KEY: Final = re.compile(r"(^|:)alias/aws/")  # AWS's own, with a policy that nobody can change
_KEYED: Final = ("AWS::S3::Bucket", "AWS::Logs::LogGroup", "AWS::DynamoDB::Table", "AWS::SNS::Topic")


def _keys(resource: Resource) -> Iterator[tuple[str, object]]:
    """Every store of the resource, and its key."""
    properties = resource.properties
    if resource.type == CONFIG:
        yield "volume", properties.get("KmsKeyId")
        yield "data capture", (properties.get("DataCaptureConfig") or {}).get("KmsKeyId")
        outputs = (properties.get("AsyncInferenceConfig") or {}).get("OutputConfig") or {}
        yield "asynchronous output", outputs.get("KmsKeyId")
    elif resource.type == "AWS::S3::Bucket":
        rules = listed(properties.get("BucketEncryption") or {}, "ServerSideEncryptionConfiguration")
        defaults = [one.get("ServerSideEncryptionByDefault") or {} for one in rules]
        yield "objects", next((key for default in defaults if (key := default.get("KMSMasterKeyID"))), None)
    elif resource.type == "AWS::DynamoDB::Table":
        yield "items", (properties.get("SSESpecification") or {}).get("KMSMasterKeyId")
    elif resource.type in (QUEUE, "AWS::SNS::Topic"):
        yield "messages", properties.get("KmsMasterKeyId")
    elif resource.type == FUNCTION:
        yield "variables", properties.get("KmsKeyArn")
    else:
        yield "logs", properties.get("KmsKeyId")


def _no_use(after: Resource, what: str) -> bool:
    """A store that is gone needs no key; SageMaker refuses a volume key where the instances have disks of their own."""
    if what in ("isolation", "vpc"):  # a plain variant has these on its model
        variants = listed(after.properties, "ProductionVariants")
        return any(variant.get("ModelName") for variant in variants)
    if what == "data capture":
        return not after.properties.get("DataCaptureConfig")
    if what == "asynchronous output":
        return not after.properties.get("AsyncInferenceConfig")
    if what != "volume":
        return False
    kinds = {
        rendered(each.get("InstanceType"))
        for variant in listed(after.properties, "ProductionVariants")
        for each in (variant, *listed(variant, "InstancePools"))
    }
    rows = (instances().get(kind) for kind in kinds)
    return any(row is not None and row.has_local_disk for row in rows)

"""Rules about images, weights, secrets, networks and keys (LS0xx)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.catalog import instances
from loadproof.profiles.secrets import is_secret_key, is_secret_value, shown_key
from loadproof.templates.rule import Found, found, rule
from loadproof.templates.template import Resource, Template, listed, text

_MOVING_TAGS: Final = ("latest", "nightly", "main", "dev", "stable")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}\Z")
# Variable that names a model -> the variables that pin its revision.
_REVISIONS: Final = {
    "HF_MODEL_ID": ("HF_MODEL_REVISION", "HF_REVISION"),
    "OPTION_MODEL_ID": ("OPTION_REVISION", "HF_REVISION"),
    "SM_VLLM_MODEL": ("SM_VLLM_REVISION",),
    "SM_SGLANG_MODEL_PATH": ("SM_SGLANG_REVISION",),
}


@rule(
    "LS001",
    "Image that is not pinned",
    reason="A moving tag lets copies of one endpoint run different servers, and a rollback bring back the wrong one.",
    mend="Write a version tag or a digest.",
)
def image_not_pinned(template: Template) -> Iterator[Found]:
    for resource, container in template.containers():
        image = text(container.get("Image", ""))
        tag = image.rpartition("/")[2].partition(":")[2]
        if "Image" not in container or "@sha256:" in image or "${" in tag:
            continue
        if not tag:
            yield found(resource, "the image has no tag, which means :latest", "add a version tag or a digest")
        elif tag in _MOVING_TAGS:
            yield found(resource, f"the image's tag `{tag}` moves", "write a version tag or a digest")


@rule(
    "LS002",
    "Model from the hub that is not pinned",
    reason="A branch or tag of the hub can change under a running endpoint: the next copy would serve other weights.",
    mend="Pin the revision to a commit of 40 hexadecimal digits.",
)
def revision_not_pinned(template: Template) -> Iterator[Found]:
    for resource, container in template.containers():
        variables = container.get("Environment") or {}
        for name, revisions in _REVISIONS.items():
            model = text(variables.get(name, ""))
            if not model or model.startswith(("/", "s3://", "${")):
                continue
            if not any(_COMMIT.match(text(variables.get(revision, ""))) for revision in revisions):
                message = f"{name} names a model of the hub without a commit"
                yield found(resource, message, f"set {' or '.join(revisions)} to one")


@rule(
    "LS003",
    "Secret in a variable",
    reason="DescribeModel, GetFunctionConfiguration and the template show it to everybody who may read them.",
    mend="Name the secret's ARN, and read the secret where it is used.",
)
def secret_in_variable(template: Template) -> Iterator[Found]:
    for resource, name, value in _variables(template):
        if (is_secret_key(name) and not _names_a_place(value)) or is_secret_value(value):
            message = f"{shown_key(name)} looks like a secret (value hidden)"
            yield found(resource, message, "name the secret's ARN instead")


@rule(
    "LS004",
    "Code from the model's repository",
    reason="trust_remote_code runs Python that came with the weights.",
    mend="Leave it off; where a model needs it, acknowledge it with the commit somebody has read.",
)
def remote_code(template: Template) -> Iterator[Found]:
    for resource, container in template.containers():
        for name, value in (container.get("Environment") or {}).items():
            on = text(value).strip().lower() in ("true", "1", "yes", "on")
            if name.endswith("TRUST_REMOTE_CODE") and "_NO_TRUST" not in name and on:
                yield found(resource, f"{name} is on", "take it out")


@rule(
    "LS005",
    "Container with a way out",
    reason="A container that can reach the network can send prompts, answers and credentials there.",
    mend="EnableNetworkIsolation on the model or the endpoint configuration; stage weights in S3.",
)
def not_isolated(template: Template) -> Iterator[Found]:
    isolated = [
        config.properties.get("EnableNetworkIsolation") is True
        for config in template.of("AWS::SageMaker::EndpointConfig")
    ]
    if isolated and all(isolated):
        return
    for resource in template.of("AWS::SageMaker::Model"):
        if resource.properties.get("EnableNetworkIsolation") is not True:
            yield found(resource, "the containers are not isolated from the network", "set EnableNetworkIsolation")


@rule(
    "LS006",
    "Data without a key of one's own",
    reason="Prompts and answers lie on volumes, in queues, buckets and logs; who may read them is decided by the key.",
    mend="Give the environment a kms_key_arn.",
)
def no_key(template: Template) -> Iterator[Found]:
    """An error where others in the template have a key, so that none is forgotten; one warning where nothing has."""
    keys = list(_keys(template))
    without = [(resource, what) for resource, what, key in keys if not key]
    if len(without) == len(keys):
        if without:
            message = f"{len(without)} stores of data are encrypted with keys of AWS's only"
            yield Found("", message, "write kms_key_arn in environment.yaml", "warning")
        return
    for resource, what in without:
        yield found(resource, f"{what} has no key, others in the template do", "encrypt it with the same key")


@rule(
    "LS008",
    "Licence that nobody accepted",
    reason="JumpStart's gated artifacts are refused until AcceptEula says yes; the decision belongs into a diff.",
    mend="Read the licence, and set ModelAccessConfig.AcceptEula.",
)
def licence_open(template: Template) -> Iterator[Found]:
    for resource, container in template.containers():
        source = (container.get("ModelDataSource") or {}).get("S3DataSource") or {}
        uri = text(source.get("S3Uri", ""))
        accepted = (source.get("ModelAccessConfig") or {}).get("AcceptEula")
        if uri.startswith("s3://jumpstart-private-cache") and accepted is not True:
            yield found(resource, f"{uri} is gated and its licence is not accepted", "set AcceptEula: true")
        elif accepted is False:
            yield found(resource, "AcceptEula says no, so SageMaker refuses the model", "accept it or leave it out")


@rule(
    "LS009",
    "Component created without copies",
    reason="CreateInferenceComponent refuses a copy count of 0.",
    mend="Create with one copy, and let scaling's minimum be 0.",
)
def no_copies(template: Template) -> Iterator[Found]:
    for resource in template.of("AWS::SageMaker::InferenceComponent"):
        count = (resource.properties.get("RuntimeConfig") or {}).get("CopyCount")
        if count is not None and text(count) == "0":
            yield found(resource, "CopyCount is 0", "write 1 and scale down to 0")


def _variables(template: Template) -> Iterator[tuple[Resource, str, str]]:
    """Every environment variable: containers', functions', build projects'."""
    for resource, container in template.containers():
        for name, value in (container.get("Environment") or {}).items():
            yield resource, name, text(value)
    for resource in template.of("AWS::Lambda::Function"):
        for name, value in ((resource.properties.get("Environment") or {}).get("Variables") or {}).items():
            yield resource, name, text(value)
    for resource in template.of("AWS::CodeBuild::Project"):
        for variable in listed(resource.properties.get("Environment") or {}, "EnvironmentVariables"):
            if variable.get("Type", "PLAINTEXT") == "PLAINTEXT":
                yield resource, str(variable.get("Name")), text(variable.get("Value", ""))


def _names_a_place(value: str) -> bool:
    """True for values that say where a secret is, or that are none: an ARN, a reference, a switch, a number."""
    return (
        value.startswith(("arn:", "${")) or value.lower() in ("", "true", "false") or value.replace(".", "").isdigit()
    )


def _keys(template: Template) -> Iterator[tuple[Resource, str, object]]:
    """Every store of data that takes a key, what it is, and its key."""
    for config in template.of("AWS::SageMaker::EndpointConfig"):
        if not _has_local_disk(config):
            yield config, "the volume", config.properties.get("KmsKeyId")
        capture = config.properties.get("DataCaptureConfig")
        if capture:
            yield config, "data capture", capture.get("KmsKeyId")
        outputs = (config.properties.get("AsyncInferenceConfig") or {}).get("OutputConfig")
        if outputs:
            yield config, "asynchronous output", outputs.get("KmsKeyId")
    for bucket in template.of("AWS::S3::Bucket"):
        rules = listed(bucket.properties.get("BucketEncryption") or {}, "ServerSideEncryptionConfiguration")
        defaults = [rule.get("ServerSideEncryptionByDefault") or {} for rule in rules]
        yield bucket, "the bucket", any(default.get("KMSMasterKeyID") for default in defaults)
    for queue in template.of("AWS::SQS::Queue"):
        yield queue, "the queue", queue.properties.get("KmsMasterKeyId")
    for group in template.of("AWS::Logs::LogGroup"):
        yield group, "the log group", group.properties.get("KmsKeyId")


def _has_local_disk(config: Resource) -> bool:
    """SageMaker refuses a volume key where an instance type keeps its data on a disk of its own (encrypted anyway)."""
    variants = listed(config.properties, "ProductionVariants")
    kinds = [pool.get("InstanceType") for variant in variants for pool in (variant, *listed(variant, "InstancePools"))]
    known = [instances().get(kind) for kind in kinds if isinstance(kind, str)]
    return any(row is not None and row.has_local_disk for row in known)

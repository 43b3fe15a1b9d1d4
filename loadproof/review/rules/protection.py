"""Rules about isolation, keys, secrets, and what is pinned (LR041-LR048 without LR043)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles import Environment, Profile
from loadproof.profiles.secrets import redacted
from loadproof.review.model import Severity
from loadproof.review.rules.change import Change, View, is_literal, rendered
from loadproof.review.rules.refused import new_template_findings, open_finding, refused, stops
from loadproof.review.rules.rule import Found, rule
from loadproof.review.rules.serving import CONFIG
from loadproof.review.rules.shields import encryption_lost, isolation_lost
from loadproof.review.rules.words import listing
from loadproof.templates import Finding as TemplateFinding

_NETWORK: Final = "environment.yaml: network"


@rule(
    "LR041",
    "Isolation weakened",
    reason="A container or function that can reach more of the network can send prompts and answers there. Bedrock's "
    "cross-region profiles have them worked on in other regions.",
    mend="Keep network isolation and the VPC; stage weights in S3 instead of letting the server fetch them. On "
    "Bedrock, keep to the profile of your geography.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html",
    severity="risk",
    also=("break", "warning"),
)
def isolation_weakened(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR041")
    subject = change.field("endpoint.network_isolation", _NETWORK)
    yield from _weaker(change, isolation_lost(change), subject, "network isolation or the VPC", "LS005")
    yield from _further_away(change)


@rule(
    "LR042",
    "Encryption weakened",
    reason="Who may read prompts, answers and logs is decided by the key; without one of your own everybody with "
    "rights to the store may, and without a TLS-only policy they may travel in the clear.",
    mend="Keep the key (kms_key_arn in environment.yaml) and the policy that refuses requests without TLS.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/encryption-at-rest.html",
    severity="risk",
    also=("break",),
)
def encryption_weakened(change: Change) -> Iterator[Found]:
    subject = change.field("environment.yaml: kms_key_arn")
    yield from _weaker(change, encryption_lost(change), subject, "the key, or the rule that asks for TLS", "LS006")


@rule(
    "LR044",
    "Secret in a variable",
    reason="Whoever may describe the model or the function reads it, and so does whoever reads the repository.",
    mend="Put it into Secrets Manager and name its ARN; replace the secret where it is valid, it is in the history "
    "now.",
    source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModel.html shows every variable",
    severity="break",
    also=("warning",),
)
def secret(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR044")
    for finding in new_template_findings(change, "LS003"):
        yield _as_found(change, finding, "break", "container.environment", "components")


@rule(
    "LR045",
    "No longer pinned",
    reason="A moving tag or branch lets copies of one endpoint run different servers or weights: the next copy that "
    "scaling starts may differ from those that were tested.",
    mend="A version tag or a digest for images, a commit of 40 hexadecimal digits for models.",
    source="docs/security.md: LS001, LS002",
    severity="risk",
    also=("break", "warning"),
)
def not_pinned(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR045")
    for finding in new_template_findings(change, "LS001", "LS002"):
        yield _as_found(change, finding, "risk", "container.image", "model.source", "components")
    yield from _digests_lost(change)


@rule(
    "LR046",
    "Code from the model's repository",
    reason="trust_remote_code runs Python that came with the weights, with the rights of the endpoint's role.",
    mend="Leave it off; where a model needs it, keep isolation on and acknowledge the commit somebody has read.",
    source="CVE-2026-22807, CVE-2026-4944: trust_remote_code bypassed; docs/security.md: LS004",
    severity="risk",
    also=("break", "warning"),
)
def remote_code(change: Change) -> Iterator[Found]:
    yield from refused(change, "LR046")
    for finding in new_template_findings(change, "LS004"):
        yield _as_found(change, finding, "risk", "model.trust_remote_code", "components")


@rule(
    "LR047",
    "Rule acknowledged",
    reason="An acknowledgement switches a rule over templates off for the whole stack, also for what comes later.",
    mend="Read the reason; the reviewer of this change answers for it.",
    source="docs/security.md, on acknowledging",
    severity="warning",
)
def acknowledged(change: Change) -> Iterator[Found]:
    parts: tuple[tuple[Profile | Environment | None, Profile | Environment | None, str], ...] = (
        (change.before.profile, change.after.profile, "acknowledged"),
        (change.before.environment, change.after.environment, "environment.yaml: acknowledged"),
    )
    for before, after, path in parts:
        known = before.acknowledged if before is not None else {}
        for code, reason in (after.acknowledged if after is not None else {}).items():
            if known.get(code) != reason:
                yield Found(
                    f"{path}.{code}",
                    f"{code} is accepted here: {redacted(reason)}",
                    "agree to it, or ask for another way",
                )


@rule(
    "LR048",
    "Requests and answers are stored",
    reason="Data capture copies prompts and answers to S3: of persons too, where they write about themselves.",
    mend="Agree with who is responsible for the data on the bucket, its key, its readers and how long it is kept.",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture.html",
    severity="warning",
)
def captured(change: Change) -> Iterator[Found]:
    def captures(view: View) -> Iterator[tuple[tuple[str, str], Found]]:
        for config in view.of(CONFIG):
            capture = config.properties.get("DataCaptureConfig") or {}
            if capture.get("EnableCapture") is True:
                share, place = (
                    rendered(capture.get("InitialSamplingPercentage")),
                    rendered(capture.get("DestinationS3Uri")),
                )
                message = f"{share}% of requests and answers are stored in {place}"
                subject = change.field("endpoint.data_capture", otherwise=config.logical_id)
                yield (share, place), Found(subject, message, "agree on who may read them, and for how long")

    yield from change.fresh(captures)


def _further_away(change: Change) -> Iterator[Found]:
    """A cross-region profile of Bedrock's sends requests to other regions, a global one to other continents."""
    if change.profiles is None:
        return
    before, after = (part.bedrock.inference_profile if part.bedrock else "none" for part in change.profiles)
    if after != before and (before == "none" or after == "global"):
        message = f"prompts and answers are worked on in {_reach(after)}, until now in {_reach(before)}"
        severity: Severity = "risk" if after == "global" else "warning"
        mend = (
            "check that the data may leave the region" if after != "global" else "check that it may leave the geography"
        )
        yield Found("bedrock.inference_profile", message, mend, severity)


def _reach(inference_profile: str) -> str:
    named = {"none": "the environment's region", "global": "any region of the world"}
    return named.get(inference_profile, f"any region of `{inference_profile}`")


def _digests_lost(change: Change) -> Iterator[Found]:
    """A tag may be overwritten, a digest may not."""
    if not change.has_both:
        return
    known = _images(change.before)
    for (stack, name), images in _images(change.after).items():
        before = known.get((stack, name), [])
        for old, image in zip(before, images, strict=False):
            if "@sha256:" in old and "@sha256:" not in image and image not in before and is_literal(image):
                message = f"the image is no longer named by its digest but by its tag, `{image.rpartition('/')[2]}`"
                subject = change.field("container.image", "components", otherwise=name)
                yield Found(subject, message, "name it by digest, which nobody can overwrite", "warning")


def _images(view: View) -> dict[tuple[str, str], list[str]]:
    """The images of every model and component, in the order of its containers."""
    found: dict[tuple[str, str], list[str]] = {}
    for stack, template in view.templates.items():
        for resource, container in template.containers():
            found.setdefault((stack, resource.logical_id), []).append(rendered(container.get("Image")))
    return found


def _weaker(change: Change, gone: list[tuple[str, str]], subject: str, what: str, code: str) -> Iterator[Found]:
    if not gone:
        return
    stopped = open_finding(change, code)
    message = f"taken away: {listing([words for _, words in gone])}"
    evidence = "" if stopped is None else f"{code}: synthesis stops until it is acknowledged"
    yield Found(subject or gone[0][0], message, f"keep {what}", "break" if stopped else None, evidence)


def _as_found(change: Change, finding: TemplateFinding, severity: Severity, *fields: str) -> Found:
    stopped = stops(finding, change)
    evidence = f"{finding.code}: synthesis stops until it is acknowledged" if stopped else finding.code
    subject = change.field(*fields, otherwise=finding.place)
    return Found(subject, finding.message, finding.mend, "break" if stopped else severity, evidence)

"""Whether a calibration speaks of what the profile deploys (LP321, LP322)."""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.profiles.checks.facts import known_instances
from loadproof.profiles.checks.rule import Found, Subject, rule


@rule(
    "LP321",
    "Calibration of another server or accelerator",
    reason="Fitted parameters hold for the server and accelerator they were measured on, and mislead elsewhere.",
    mend="Calibrate on runs of this server and instance type, or leave `calibration` out.",
)
def measured_elsewhere(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    calibration = profile.calibration
    if calibration is None:
        return
    if profile.container is None or profile.endpoint is None:
        yield Found(("calibration",), "Bedrock shows no machines: there is nothing to calibrate", "delete it")
        return
    family = profile.container.family
    if calibration.server.family != family:
        found = f"it was measured on {calibration.server.family}, the profile deploys {family}"
        yield Found(("calibration", "server", "family"), found, "name a calibration of this server")
    for _, instance in known_instances(profile.endpoint):
        if instance.accelerator != calibration.accelerator:
            found = f"it was measured on {calibration.accelerator}, {instance.instance_type} has {instance.accelerator}"
            yield Found(("calibration", "accelerator"), found, "name a calibration of this accelerator")


@rule(
    "LP322",
    "Calibration of another server version",
    reason="A new version of a server changes its time per step, sometimes by half.",
    mend="Calibrate again on runs of this version, or pin `container.version` to the one measured.",
    severity="warning",
)
def measured_with_another_version(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.calibration is None or profile.container is None:
        return
    measured, deployed = profile.calibration.server.version, profile.container.version
    if measured and deployed and measured != deployed:
        found = f"it was measured on version {measured}, the profile deploys {deployed}"
        yield Found(("calibration", "server", "version"), found, "calibrate again on this version")

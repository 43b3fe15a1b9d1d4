"""A profile's benchmark at times of its own: EventBridge Scheduler starts the state machine."""

from __future__ import annotations

import json

from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from loadproof.constructs.benchmark.bundle import Bundle
from loadproof.constructs.benchmark.execution import benchmark_input, machine_arn
from loadproof.constructs.cdk.statements import allow, document, trust
from loadproof.constructs.deployment import Deployment
from loadproof.profiles.gating import LONGEST_RUN_S


class BenchmarkSchedule(Construct):
    """`benchmark.schedule` of a profile, in its time zone."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, bundle: Bundle, schedule: str
    ) -> None:
        super().__init__(scope, construct_id)
        machine, key = machine_arn(deployment), deployment.environment.kms_key_arn
        rights = [allow("states:StartExecution", on=machine)]
        if key is not None:
            # The schedule's input is encrypted; Scheduler reads it by this role when the time has come.
            # Its name is CloudFormation's; its ARN is what Scheduler encrypts with (User Guide, "Encryption at rest").
            schedules = {
                "kms:EncryptionContext:aws:scheduler:schedule:arn": deployment.arn("scheduler", "schedule/default/*")
            }
            rights.append(allow("kms:Decrypt", on=key, when={"ArnLike": schedules}))
        role = iam.CfnRole(
            self,
            "Role",
            description=f"Starts the scheduled benchmarks of {deployment.endpoint_name}",
            assume_role_policy_document=trust(
                "scheduler.amazonaws.com", when={"StringEquals": {"aws:SourceAccount": deployment.environment.account}}
            ),
            policies=[iam.CfnRole.PolicyProperty(policy_name="schedule", policy_document=document(*rights))],
        )
        asked = benchmark_input(deployment, bundle, longest_s=LONGEST_RUN_S)
        properties = scheduler.CfnSchedule
        properties(
            self,
            "Resource",
            description=f"Benchmark of {deployment.endpoint_name}",
            flexible_time_window=properties.FlexibleTimeWindowProperty(mode="OFF"),
            schedule_expression=schedule,
            schedule_expression_timezone=deployment.profile.benchmark.timezone,
            kms_key_arn=key,
            target=properties.TargetProperty(
                arn=machine, role_arn=role.attr_arn, input=json.dumps(asked, sort_keys=True)
            ),
        )

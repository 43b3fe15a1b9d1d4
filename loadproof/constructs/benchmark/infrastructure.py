"""The stack of an environment's benchmarks. Profiles' gates and schedules start its state machine by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aws_cdk import CfnOutput, DefaultStackSynthesizer, RemovalPolicy, Stack, Tags
from aws_cdk import Environment as CdkEnvironment
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.aws_stepfunctions import CfnStateMachine
from constructs import Construct

from loadproof.catalog import registry
from loadproof.constructs.benchmark.bundle import bundle_prefix
from loadproof.constructs.benchmark.definition import definition
from loadproof.constructs.benchmark.job_role import JobRole
from loadproof.constructs.cdk.emptied_bucket.infrastructure import EmptiedBucket
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.results_bucket import goes_with_stack, results_bucket
from loadproof.constructs.cdk.statements import Statement, allow, document, trust, use_of_key
from loadproof.constructs.observability.alarm_topic import topic_arn
from loadproof.profiles.names import BENCHMARK, jobs_prefix, stack_name
from loadproof.profiles.schema import BenchmarkJob, Environment

CODE: Final = Path(__file__).parent / "runtime" / "index.py"
_QUALIFIER: Final = "@aws-cdk/core:bootstrapQualifier"
_TIMEOUT_S: Final = 60


class BenchmarkStack(Stack):
    """Results, the job's role, and the state machine that runs a benchmark, judges it and tells its verdict."""

    def __init__(
        self, scope: Construct, *, environment_name: str, environment: Environment, settings: BenchmarkJob
    ) -> None:
        self._environment, self._environment_name = environment, environment_name
        self._name = stack_name(environment_name, BENCHMARK)
        super().__init__(
            scope,
            self._name,
            env=CdkEnvironment(account=environment.account, region=environment.region),
            description=f"Benchmarks of {environment_name}",
            tags=dict(environment.tags),
            analytics_reporting=False,
        )
        for name, value in environment.tags.items():
            Tags.of(self).add(name, value)
        key = kms.Key.from_key_arn(self, "Key", environment.kms_key_arn) if environment.kms_key_arn else None
        self.results = results_bucket(
            self, "Results", environment=environment, key=key, expire_days=settings.results_retention_days
        )
        job_role = JobRole(
            self,
            "Job",
            environment_name=environment_name,
            environment=environment,
            settings=settings,
            results_arn=self.results.bucket_arn,
        )
        function = PythonFunction(
            self,
            "Verdict",
            environment=environment,
            description="Reads a benchmark's verdict, and answers the deployment that waits for it",
            program=Program(
                CODE,
                variables={"RESULTS": self.results.bucket_name, "ENVIRONMENT": environment_name},
                timeout_s=_TIMEOUT_S,
            ),
            statements=[*self._reading_verdicts()],
        )
        machine = self._machine(settings, job_role, function)
        if goes_with_stack(environment):
            emptied = EmptiedBucket(self, "Emptied", bucket=self.results, environment=environment)
            # Whoever writes loses its rights before the bucket is emptied.
            job_role.node.add_dependency(emptied)
        CfnOutput(self, "StateMachineArn", value=machine.attr_arn, description="Runs one benchmark; docs/gate.md")
        CfnOutput(self, "ResultsBucketName", value=self.results.bucket_name, description="Runs, as runs/<run>/")

    def _machine(self, settings: BenchmarkJob, job_role: JobRole, function: PythonFunction) -> CfnStateMachine:
        environment, topic = self._environment, topic_arn(self, self._environment)
        partition = registry(environment.region).partition
        states = definition(
            self._environment_name, environment, settings, partition=partition, tells_topic=topic is not None
        )
        return CfnStateMachine(
            self,
            "Machine",
            state_machine_name=self._name,
            role_arn=self._machine_role(job_role, function, topic).attr_arn,
            # As text: CDK takes every null out of an object, and ResultPath null means something.
            definition_string=json.dumps(states),
            definition_substitutions={
                "Function": function.arn,
                "JobRole": job_role.arn,
                "Results": self.results.bucket_name,
                **({"Topic": topic} if topic else {}),
            },
            logging_configuration=self._logging(),
            tracing_configuration=CfnStateMachine.TracingConfigurationProperty(enabled=True),
        )

    def _arn(self, service: str, resource: str, *, region: str | None = None, account: str | None = None) -> str:
        environment = self._environment
        region = environment.region if region is None else region
        account = environment.account if account is None else account
        return f"arn:{registry(environment.region).partition}:{service}:{region}:{account}:{resource}"

    def _reading_verdicts(self) -> Iterator[Statement]:
        yield allow("s3:GetObject", on=self.results.arn_for_objects("runs/*/done.json"))
        # Without it a verdict that is missing reads as a right that is missing.
        yield allow("s3:ListBucket", on=self.results.bucket_arn)
        if self._environment.kms_key_arn:
            through = {"kms:ViaService": f"s3.{self._environment.region}.amazonaws.com"}
            yield allow("kms:Decrypt", on=self._environment.kms_key_arn, when={"StringEquals": through})

    def _machine_role(self, job_role: JobRole, function: PythonFunction, topic: str | None) -> iam.CfnRole:
        return iam.CfnRole(
            self,
            "MachineRole",
            description="Runs benchmarks and tells their verdicts",
            assume_role_policy_document=trust(
                "states.amazonaws.com", when={"StringEquals": {"aws:SourceAccount": self._environment.account}}
            ),
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name="machine",
                    policy_document=document(*self._running_and_telling(job_role.arn, function.arn, topic)),
                )
            ],
        )

    def _running_and_telling(self, job_role_arn: str, function_arn: str, topic: str | None) -> Iterator[Statement]:
        jobs = self._arn("sagemaker", f"processing-job/{jobs_prefix(self._environment_name)}*")
        prefix = bundle_prefix(self._environment_name)
        bundles = self._arn("s3", f"{self._assets_bucket()}/{prefix}*", region="", account="")
        yield allow(
            "s3:GetObject", on=bundles, when={"StringEquals": {"aws:ResourceAccount": self._environment.account}}
        )
        yield allow("s3:PutObject", on=self.results.arn_for_objects("runs/*/input.zip"))
        yield allow(
            "sagemaker:AddTags",
            "sagemaker:CreateProcessingJob",
            "sagemaker:DescribeProcessingJob",
            "sagemaker:ListTags",  # asked for in every policy that Step Functions writes for SageMaker's jobs
            "sagemaker:StopProcessingJob",
            on=jobs,
        )
        yield allow(
            "iam:PassRole",
            on=job_role_arn,
            when={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )
        # The rule by which Step Functions hears of a job's end is its own; this is its name.
        rule = self._arn("events", "rule/StepFunctionsGetEventsForSageMakerProcessingJobsRule")
        yield allow("events:DescribeRule", "events:PutRule", "events:PutTargets", on=rule)
        yield allow("events:PutEvents", on=self._arn("events", "event-bus/default"))
        yield allow("lambda:InvokeFunction", on=function_arn)
        if topic:
            yield allow("sns:Publish", on=topic)
        yield from use_of_key(self._environment, "s3", *(["sns"] if topic else []))
        yield allow(
            "logs:CreateLogDelivery",
            "logs:DeleteLogDelivery",
            "logs:DescribeLogGroups",
            "logs:DescribeResourcePolicies",
            "logs:GetLogDelivery",
            "logs:ListLogDeliveries",
            "logs:PutResourcePolicy",
            "logs:UpdateLogDelivery",
            on="*",
        )
        yield allow(
            "xray:GetSamplingRules",
            "xray:GetSamplingTargets",
            "xray:PutTelemetryRecords",
            "xray:PutTraceSegments",
            on="*",
        )

    def _assets_bucket(self) -> str:
        """Where the CDK CLI puts archives, profiles' bundles among them."""
        qualifier = self.node.try_get_context(_QUALIFIER) or DefaultStackSynthesizer.DEFAULT_QUALIFIER
        return f"cdk-{qualifier}-assets-{self._environment.account}-{self._environment.region}"

    def _logging(self) -> CfnStateMachine.LoggingConfigurationProperty:
        """Without the executions' data: among it is the address at which CloudFormation waits for an answer."""
        group = logs.CfnLogGroup(
            self,
            "MachineLogs",
            # CloudWatch's prefix for deliveries: other names fill up the account's one resource policy.
            log_group_name=f"/aws/vendedlogs/states/{self._name}",
            retention_in_days=self._environment.log_retention_days,
            kms_key_id=self._environment.kms_key_arn,
        )
        group.apply_removal_policy(RemovalPolicy.DESTROY)
        return CfnStateMachine.LoggingConfigurationProperty(
            level="ALL",
            include_execution_data=False,
            destinations=[
                CfnStateMachine.LogDestinationProperty(
                    cloud_watch_logs_log_group=CfnStateMachine.CloudWatchLogsLogGroupProperty(
                        log_group_arn=group.attr_arn
                    )
                )
            ],
        )

"""Puts a fact to a local cloud through boto3 and says what did not come as AWS answered it."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import jmespath
from botocore.exceptions import BotoCoreError, ClientError, WaiterError
from botocore.parsers import ResponseParserError
from fact_tables import Fact

_NAME = re.compile(r"\$(\w+)((?:\.\w+|\[-?\d+\])*)")
_ACCEPTED = "accepted"
_ASSUMED_BY = ["lambda", "states", "sagemaker", "scheduler", "bedrock", "cloudformation", "events"]
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "*", "Service": [f"{name}.amazonaws.com" for name in _ASSUMED_BY]},
            "Action": "sts:AssumeRole",
        }
    ],
}
_ENDED_S = 30.0


class Given:
    """What facts name and need not make themselves: `$queue`, `$role`, `$function`...; made when first named."""

    def __init__(self, client: Callable[[str], Any], account: str, region: str) -> None:
        self._client = client
        self._known: dict[str, Any] = {"account": account, "region": region}
        self._roles: list[str] = []  # one for all facts: nothing changes it

    def new(self) -> Given:
        """For the next fact: everything fresh but the role."""
        fresh = Given(self._client, self._known["account"], self._known["region"])
        fresh._roles = self._roles
        return fresh

    def keep(self, name: str, value: Any) -> None:
        self._known[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._known or hasattr(self, f"_make_{name}")

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = getattr(self, f"_make_{name}")()
        return self._known[name]

    def _make_name(self) -> str:
        return f"fact-{uuid.uuid4().hex[:12]}"

    def _make_fifo(self) -> str:
        return f"{self['name']}.fifo"

    def _make_queue(self) -> str:
        return str(self._client("sqs").create_queue(QueueName=f"{self['name']}-queue")["QueueUrl"])

    def _make_queue_arn(self) -> str:
        return f"arn:aws:sqs:{self['region']}:{self['account']}:{self['queue'].rpartition('/')[2]}"

    def _make_dlq(self) -> str:
        return str(self._client("sqs").create_queue(QueueName=f"{self['name']}-dlq")["QueueUrl"])

    def _make_dlq_arn(self) -> str:
        return f"arn:aws:sqs:{self['region']}:{self['account']}:{self['dlq'].rpartition('/')[2]}"

    def _make_topic(self) -> str:
        return str(self._client("sns").create_topic(Name=self["name"])["TopicArn"])

    def _make_bucket(self) -> str:
        self._client("s3").create_bucket(Bucket=self["name"])
        return str(self["name"])

    def _make_table(self) -> str:
        self._client("dynamodb").create_table(
            TableName=self["name"],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return str(self["name"])

    def _make_vpc(self) -> str:
        return str(self._client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])

    def _make_key(self) -> str:
        return str(self._client("kms").create_key()["KeyMetadata"]["KeyId"])

    def _make_role(self) -> str:
        if not self._roles:
            iam = self._client("iam")
            with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):  # another table's facts made it
                iam.create_role(RoleName="facts", AssumeRolePolicyDocument=json.dumps(_TRUST))
            self._roles.append(iam.get_role(RoleName="facts")["Role"]["Arn"])
        return self._roles[0]

    def _make_function(self) -> str:
        from fact_tables import _zip

        self._client("lambda").create_function(
            FunctionName=self["name"],
            Runtime="python3.12",
            Role=self["role"],
            Handler="index.handler",
            Code={"ZipFile": _zip(_HANDLER)},
            Timeout=5,
        )
        return str(self["name"])

    def _make_function_arn(self) -> str:
        return f"arn:aws:lambda:{self['region']}:{self['account']}:function:{self['function']}"

    def _make_machine(self) -> str:
        definition = {"StartAt": "S", "States": {"S": {"Type": "Succeed"}}}
        made = self._client("stepfunctions").create_state_machine(
            name=self["name"], definition=json.dumps(definition), roleArn=self["role"]
        )
        return str(made["stateMachineArn"])

    def _make_model(self) -> str:
        repository = f"763104351884.dkr.ecr.{self['region']}.amazonaws.com/huggingface-pytorch-tgi-inference"
        model_id = "meta-llama/Llama-3.1-8B-Instruct"
        container = {
            "Image": f"{repository}:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04",
            "Environment": {"HF_MODEL_ID": model_id, "MAX_INPUT_TOKENS": "1024", "MAX_TOTAL_TOKENS": "2048"},
        }
        self._client("sagemaker").create_model(
            ModelName=self["name"],
            ExecutionRoleArn=self["role"],
            PrimaryContainer=container,
            Tags=[{"Key": "loadproof:model-id", "Value": model_id}],
        )
        return str(self["name"])

    def _make_config(self) -> str:
        return self._configured(self["name"], ModelName=self["model"])

    def _make_endpoint(self) -> str:
        return self._served(self["name"], self["config"])

    def _make_fleet(self) -> str:
        """An endpoint that hosts inference components."""
        name = f"{self['name']}-fleet"
        return self._served(name, self._configured(name, ExecutionRoleArn=self["role"]))

    def _make_later(self) -> str:
        """An asynchronous endpoint."""
        name, output = f"{self['name']}-later", {"S3OutputPath": f"s3://{self['bucket']}/out"}
        asynchronous = {"OutputConfig": output}
        return self._served(name, self._configured(name, ModelName=self["model"], AsyncInferenceConfig=asynchronous))

    def _configured(self, name: str, ModelName: str | None = None, **more: Any) -> str:  # noqa: N803 - the API's word
        variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.2xlarge", "InitialInstanceCount": 1}
        variant |= {"ModelName": ModelName} if ModelName else {}
        self._client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], **more)
        return name

    def _served(self, name: str, config: str) -> str:
        client = self._client("sagemaker")
        client.create_endpoint(EndpointName=name, EndpointConfigName=config)
        client.get_waiter("endpoint_in_service").wait(
            EndpointName=name, WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
        )
        return name

    def _make_stack(self) -> str:
        body = {"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "1"}}}}
        client = self._client("cloudformation")
        client.create_stack(StackName=self["name"], TemplateBody=json.dumps(body))
        client.get_waiter("stack_create_complete").wait(
            StackName=self["name"], WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
        )
        return str(self["name"])


_HANDLER = """
import time

def handler(event, context):
    asked = event if isinstance(event, dict) else {}
    if "sleep" in asked:
        time.sleep(asked["sleep"])
    if "raise" in asked:
        raise ValueError(asked["raise"])
    if "big" in asked:
        return "x" * asked["big"]
    return event
"""


class Replay:
    """One fact, put to one cloud."""

    def __init__(self, fact: Fact, client: Callable[[str], Any], given: Given) -> None:
        self._fact, self._said, self._client, self._given = fact, fact.said, client, given

    def faults(self) -> list[str]:
        """What came otherwise than AWS answered; empty when the fact holds here."""
        try:
            for step in self._said.get("do", []):
                self._call(*step)
            answer = self._answer()
        except ClientError as error:
            return list(self._refusal_faults(error))
        except (BotoCoreError, ResponseParserError) as error:
            return [f"boto3 cannot read it: {error}"]
        if "error" in self._said and "run" not in self._said:
            if self._ended_badly(answer):
                late = f"refused only by the stack's end, not with {self._said['error']}: {answer['reasons'][:200]}"
                return [] if "FAILED" in self._said["error"].split("|") else [late]
            return [f"{_ACCEPTED}, where AWS answers {self._said['error']}"]
        return list(self._answer_faults(answer))

    def _ended_badly(self, answer: Any) -> bool:
        """A stack that was to be refused and was not created."""
        return "stack" in self._said and answer["status"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE")

    def _refusal_faults(self, error: ClientError) -> Iterator[str]:
        told = error.response["Error"]
        code, _, status = str(self._said.get("error", "")).partition("/")
        if "run" in self._said or not code:
            yield f"refused with {told['Code']}: {told.get('Message', '')[:200]}"
            return
        if "stack" in self._said and "FAILED" in code.split("|"):
            return
        if told["Code"] not in code.split("|"):
            yield f"code {told['Code']}, not {code}: {told.get('Message', '')[:200]}"
        if status and error.response["ResponseMetadata"].get("HTTPStatusCode") != int(status):
            yield f"status {error.response['ResponseMetadata'].get('HTTPStatusCode')}, not {status}"
        says = self._filled(self._said.get("says", ""))
        if says.lower() not in told.get("Message", "").lower():
            yield f"says {told.get('Message', '')[:300]!r}, not {says!r}"

    def _answer(self) -> Any:
        if "stack" in self._said:
            return self._deployed()
        if "run" in self._said:
            return self._ran()
        return self._call(*self._said["call"])

    def _answer_faults(self, answer: Any) -> Iterator[str]:
        if "json" in self._said:
            answer = json.loads(jmespath.search(self._said["json"], answer) or "null")
        for path, wanted in self._filled(self._said.get("gets", {})).items():
            found = jmespath.search(path, answer)
            if wanted == "any" and found is not None:
                continue
            if found != wanted:
                yield f"{path} is {found!r}, not {wanted!r}"

    def _call(self, action: str, params: dict[str, Any], name: str = "") -> Any:
        """Ask `service.operation` or `operation` of the fact's own service; keep the answer as `$name`."""
        service, _, operation = action.rpartition(".")
        if operation == "sleep":
            time.sleep(params["s"])
            return None
        answer = getattr(self._client(service or self._fact.service), operation)(**self._filled(params))
        if hasattr(answer.get("Payload"), "read"):
            answer["Payload"] = json.loads(answer["Payload"].read() or b"null")
        if name:
            self._given.keep(name, answer)
        return answer

    def _filled(self, value: Any) -> Any:
        """`value` with what `$names` stand for; a name that is not known stays as it is."""
        if isinstance(value, dict):
            return {self._filled(key): self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        if not isinstance(value, str) or "$" not in value:
            return value
        whole = _NAME.fullmatch(value)
        if whole:
            return self._named(whole)
        return _NAME.sub(lambda match: str(self._named(match)), value)

    def _named(self, match: re.Match[str]) -> Any:
        name, path = match.groups()
        if name not in self._given:
            return match.group()
        found = self._given[name]
        if path and isinstance(found, str):  # `$region.amazonaws.com`: what follows a text is text
            return f"{found}{path}"
        return jmespath.search(f"x{path}", {"x": found}) if path else found

    # Stacks

    def _deployed(self) -> dict[str, Any]:
        """Deploy `stack`, then what `update` says, and tell how it ended."""
        client, name = self._client("cloudformation"), self._given["name"]
        asked = {
            "StackName": name,
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
            **self._filled(self._said.get("with", {})),
        }
        body = self._filled(self._said["stack"])
        client.create_stack(**asked, TemplateBody=_text(body))
        self._settle(client, name, "stack_create_complete")
        if "update" in self._said:
            client.update_stack(**asked, TemplateBody=_text(self._filled(self._said["update"])))
            self._settle(client, name, "stack_update_complete")
        if "delete" in self._said:
            stack_id = client.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
            client.delete_stack(StackName=name)
            self._settle(client, stack_id, "stack_delete_complete")
            name = stack_id
        told = self._told(client, name)
        for step in self._said.get("then", []):
            told["then"] = self._call(*step)
        return told

    def _settle(self, client: Any, name: str, waiter: str) -> None:
        with contextlib.suppress(WaiterError):
            client.get_waiter(waiter).wait(StackName=name, WaiterConfig={"Delay": 0.05, "MaxAttempts": 1200})

    def _told(self, client: Any, name: str) -> dict[str, Any]:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
        events = client.describe_stack_events(StackName=name)["StackEvents"][::-1]
        told = {
            "status": stack["StackStatus"],
            "stack": stack,
            "outputs": {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])},
            "reasons": " | ".join(one.get("ResourceStatusReason", "") for one in events),
            "lives": _lives(events),
            "turns": {name: _turns(life) for name, life in _lives(events).items()},
        }
        told["resources"] = client.describe_stack_resources(StackName=name)["StackResources"]
        for output, value in told["outputs"].items():
            self._given.keep(output, value)
        return told

    # State machines

    def _ran(self) -> dict[str, Any]:
        """Run the machine that `run` defines and tell status, error, output and history."""
        client = self._client("stepfunctions")
        made = client.create_state_machine(
            name=self._given["name"], definition=_text(self._filled(self._said["run"])), roleArn=self._given["role"]
        )
        started = client.start_execution(
            stateMachineArn=made["stateMachineArn"], input=json.dumps(self._filled(self._said.get("input", {})))
        )
        end_s = time.monotonic() + self._said.get("within_s", _ENDED_S)
        while True:
            found = client.describe_execution(executionArn=started["executionArn"])
            if found["status"] != "RUNNING" or time.monotonic() > end_s:
                break
            time.sleep(0.02)
        events = client.get_execution_history(executionArn=started["executionArn"])["events"]
        return {
            "status": found["status"],
            "error": found.get("error"),
            "cause": found.get("cause"),
            "output": json.loads(found.get("output", "null")),
            "history": " ".join(one["type"] for one in events),
            "events": events,
        }


def accepted(faults: list[str]) -> bool:
    """Whether what AWS refuses was let through."""
    return any(fault.startswith(_ACCEPTED) for fault in faults)


def _lives(events: list[dict[str, Any]]) -> dict[str, str]:
    """The statuses of each resource in their order; the stack's own under `Stack`."""
    lives: dict[str, str] = {}
    for event in events:
        own = event["ResourceType"] == "AWS::CloudFormation::Stack"
        name = "Stack" if own else event["LogicalResourceId"]
        lives[name] = f"{lives.get(name, '')} {event['ResourceStatus']}".lstrip()
    return lives


def _turns(life: str) -> str:
    """A life with each status once in a row: the recordings leave out the second CREATE_IN_PROGRESS."""
    statuses = life.split()
    return " ".join(one for before, one in zip(["", *statuses], statuses, strict=False) if one != before)


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)

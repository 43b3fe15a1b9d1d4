"""Records what AWS answers to the operations that Loadproof leans on, as facts for tests/localcloud/recordings.

`python scripts/aws_conformance.py --account 123456789012 --output facts.yaml` asks the account of your credentials,
makes what it needs under names that begin with `loadproof-conformance-`, and takes it away again, whatever happens.
docs/conformance.md says what it would settle and what it costs. Against a local cloud it runs whole in seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
import jmespath
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from loadproof.catalog import container_image, image_uri, instances

EXPERIMENTS: Final = Path(__file__).with_name("aws_experiments.yaml")
PREFIX: Final = "loadproof-conformance-"
FIRST_TYPE, OTHER_TYPE = "ml.g5.xlarge", "ml.g6.xlarge"
_MODEL: Final = "Qwen/Qwen3-4B"  # open, and it fits both types
_HOURS: Final = 3.5  # of both types together, with time to start four times; measured by nobody
_LONGEST_WAIT_S: Final = 2400.0
_TRUSTED: Final = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
_RIGHTS: Final = ["ecr:*Get*", "ecr:BatchCheckLayerAvailability", "logs:*", "cloudwatch:PutMetricData"]
Json = dict[str, Any]
Client = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One call. `gets` are paths in the answer to keep; `until` asks (operation, parameters, path, last values) then.

    `settles` is why anybody wants to know. A step without it only prepares the next ones.
    """

    name: str
    call: str  # service.operation
    params: Json
    gets: Sequence[str] = ()
    until: tuple[str, Json, str, Sequence[str]] | None = None
    settles: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Steps on things of its own, and the calls that take them away, in order. `costs`: it starts instances."""

    name: str
    steps: tuple[Step, ...]
    removes: Sequence[tuple[str, Json]] = ()
    costs: bool = False


def experiments() -> tuple[Experiment, ...]:
    """As `aws_experiments.yaml` has them, with this script's instance types and model."""
    text = EXPERIMENTS.read_text(encoding="utf-8")
    for word, value in (("$first", FIRST_TYPE), ("$other", OTHER_TYPE), ("$model", _MODEL)):
        text = text.replace(word, value)
    return tuple(
        Experiment(**{**one, "steps": tuple(Step(**step) for step in one["steps"])}) for one in yaml.safe_load(text)
    )


@dataclass(slots=True)
class Recorder:
    """Runs experiments in one account, and writes down what it answers. `sleep_s` is the pause between two looks."""

    client: Client
    account: str
    region: str
    sleep_s: float
    run: str = field(default_factory=lambda: PREFIX + uuid.uuid4().hex[:8])
    role_arn: str = ""
    of: str = field(default_factory=lambda: f"aws_conformance {datetime.now(UTC):%Y-%m-%d}")

    @property
    def image(self) -> str:
        """Of a server that starts in minutes, where the region has it."""
        return image_uri(container_image("tgi"), self.region)

    def facts(self, experiment: Experiment) -> Iterator[Json]:
        """One for each step that settles something; what is made goes when they have been read."""
        done: list[list[Any]] = []
        try:
            for step in experiment.steps:
                told = self._told(step)
                if step.settles:
                    service = step.call.partition(".")[0]
                    before = {"do": deepcopy(done)} if done else {}
                    call = [step.call.partition(".")[2], deepcopy(step.params)]
                    yield {"is": step.name, "of": self.of, "service": service, **before, "call": call, **told}
                elif "error" in told:
                    raise SystemExit(f"{experiment.name}: {step.name}: {told['error']}: {told['says']}")
                if "error" not in told:
                    done.append([step.call, step.params])
        finally:
            for removal, params in experiment.removes:
                self.remove(removal, params)

    def _told(self, step: Step) -> Json:
        """The answer: an error with its words, or what was asked for and the statuses that came after it."""
        try:
            answer = self._ask(step.call, step.params)
        except ClientError as error:
            told = error.response["Error"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return {"error": f"{told['Code']}/{status}", "says": self._without_names(told.get("Message", ""))}
        gets = {path: jmespath.search(path, answer) for path in step.gets}
        seen = {"passes": self._passed(step)} if step.until else {}
        written = json.dumps({**({"gets": gets} if gets else {}), **seen}, default=str)
        answered: Json = json.loads(self._without_names(written))
        return answered

    def _passed(self, step: Step) -> list[str]:
        """The statuses it went through, each once in a row, until the last one or the longest wait."""
        assert step.until is not None
        operation, params, path, last = step.until
        seen: list[str] = []
        end_s = time.monotonic() + _LONGEST_WAIT_S
        while not seen or (seen[-1] not in last and time.monotonic() < end_s):
            status = jmespath.search(path, self._ask(f"sagemaker.{operation}", params))
            if not seen or status != seen[-1]:
                seen.append(status)
            if status not in last:
                time.sleep(self.sleep_s)
        return seen

    def remove(self, call: str, params: Json) -> None:
        """Asked again while something still moves or depends; what is not there is gone."""
        end_s = time.monotonic() + _LONGEST_WAIT_S
        while time.monotonic() < end_s:
            try:
                self._ask(call, params)
            except ClientError as error:
                if re.search("could not find|not found|NoSuchEntity", str(error), re.IGNORECASE):
                    return
            time.sleep(self.sleep_s)
        print(f"left behind: {call} {self._filled(params)}", file=sys.stderr)

    def make_role(self) -> None:
        """What containers need: their image and their log."""
        iam = self.client("iam")
        trust = json.dumps({"Version": "2012-10-17", "Statement": [_TRUSTED]})
        made = iam.create_role(RoleName=self.run, AssumeRolePolicyDocument=trust)["Role"]
        rights = {"Effect": "Allow", "Action": _RIGHTS, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [rights]})
        iam.put_role_policy(RoleName=self.run, PolicyName="run", PolicyDocument=policy)
        self.role_arn = made["Arn"]
        time.sleep(self.sleep_s)  # a new role is not known everywhere at once

    def remove_role(self) -> None:
        iam = self.client("iam")
        with suppress(ClientError):
            iam.delete_role_policy(RoleName=self.run, PolicyName="run")
        with suppress(ClientError):
            iam.delete_role(RoleName=self.run)

    def _ask(self, call: str, params: Json) -> Json:
        service, _, operation = call.partition(".")
        answer: Json = getattr(self.client(service), operation)(**self._filled(params))
        return answer

    def _filled(self, params: Json) -> Json:
        text = json.dumps(params)
        for word, value in (
            ("$name", self.run),
            ("$role", self.role_arn),
            ("$image", self.image),
            ("$vllm", image_uri(container_image("vllm"), self.region)),
        ):
            text = text.replace(word, value)
        filled: Json = json.loads(text)
        return filled

    def _without_names(self, text: str) -> str:
        """Nobody's account id stays in a recording."""
        return text.replace(self.run, "$name").replace(self.account, "$account").replace(self.region, "$region")


def main(arguments: list[str]) -> int:
    """0 when everything was asked and taken away."""
    options = _options(arguments)
    session = boto3.Session()
    config = Config(retries={"total_max_attempts": 5, "mode": "standard"})
    clients: Json = {}

    def client(service: str) -> Any:
        if service not in clients:
            clients[service] = session.client(service, endpoint_url=options.endpoint_url, config=config)
        return clients[service]

    asked = client("sts")
    # AWS_ENDPOINT_URL names a local cloud as well as the option does: who answers counts.
    local = ".amazonaws." not in (urlsplit(asked.meta.endpoint_url).hostname or "")
    account = asked.get_caller_identity()["Account"]
    if account != options.account:
        raise SystemExit(f"the credentials are of account {account}, not {options.account}")
    chosen = [one for one in experiments() if not (options.free and one.costs)]
    recorder = Recorder(client, account, session.region_name or "us-east-1", 0.2 if local else 20.0)
    print(f"run {recorder.run}: {', '.join(one.name for one in chosen)}; {_cost(chosen)}", flush=True)
    facts: list[Json] = []
    try:
        recorder.make_role()
        for experiment in chosen:
            facts += recorder.facts(experiment)
    finally:
        recorder.remove_role()
        head = (
            f"# Recorded by scripts/aws_conformance.py from {'a local cloud' if local else 'AWS'}, {recorder.region}\n"
        )
        text = yaml.safe_dump(json.loads(json.dumps({"facts": facts})), sort_keys=False, allow_unicode=True, width=110)
        options.output.write_text(head + text, encoding="utf-8")
        print(f"{len(facts)} facts in {options.output}")
    return 0


def _cost(chosen: list[Experiment]) -> str:
    """What the instances would cost for as long as it may take; the catalog's prices."""
    if not any(one.costs for one in chosen):
        return "it starts no instance"
    prices = [instances()[kind].usd_per_hour for kind in (FIRST_TYPE, OTHER_TYPE)]
    total = sum(price or 0.0 for price in prices) * _HOURS
    return f"about {total:.0f} USD for {_HOURS:g} hours of {FIRST_TYPE} and {OTHER_TYPE}"


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--account", required=True, help="the account that you mean; credentials of another are refused"
    )
    parser.add_argument("--output", required=True, type=Path, help="YAML file for the facts")
    parser.add_argument("--free", action="store_true", help="only what starts no instance")
    parser.add_argument("--endpoint-url", default=None, help="a local cloud's address")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

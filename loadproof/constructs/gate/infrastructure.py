"""A profile's gate: the benchmark runs after a deployment, and a missed objective is published or rolls it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from constructs import Construct, IConstruct

from loadproof.constructs.benchmark.bundle import Bundle
from loadproof.constructs.benchmark.execution import benchmark_input, machine_arn
from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import Program, PythonFunction
from loadproof.constructs.cdk.statements import allow
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.profiles.gating import GATE_TIMEOUT_S, LONGEST_GATED_RUN_S, LONGEST_RUN_S

CODE: Final = Path(__file__).parent / "runtime" / "index.py"
_TIMEOUT_S: Final = 120  # new rights are waited for a minute


class Gate(Construct):
    """Runs the benchmark once everything in `after` is there, and again whenever what is deployed changes.

    CloudFormation calls it when the profile, the endpoint's configuration or a model is another than before.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        bundle: Bundle,
        after: Sequence[IConstruct],
    ) -> None:
        super().__init__(scope, construct_id)
        deployment = endpoint.deployment
        benchmark = deployment.profile.benchmark
        waits = benchmark.gate == "rollback"
        machine = machine_arn(deployment)
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description=f"Starts the benchmark of {deployment.endpoint_name} after a deployment",
            program=Program(CODE, variables={"STATE_MACHINE": machine}, timeout_s=_TIMEOUT_S),
            statements=[
                allow("states:StartExecution", on=machine),
                allow(
                    "cloudformation:DescribeStacks",
                    on=deployment.arn("cloudformation", f"stack/{deployment.stack_name}/*"),
                ),
            ],
        )
        longest_s = LONGEST_GATED_RUN_S if waits else LONGEST_RUN_S
        asked = benchmark_input(deployment, bundle, longest_s=longest_s)
        accepts = (
            ["PASS"] if benchmark.gate_unproven == "rollback" else ["PASS", "INCONCLUSIVE", "INVALID", "NOT JUDGED"]
        )
        resource = custom_resource(
            self,
            "Resource",
            function_arn=function.arn,
            timeout_s=GATE_TIMEOUT_S if waits else _TIMEOUT_S + 30,
            properties={
                "Name": f"{deployment.endpoint_name}-gate",
                "Gate": benchmark.gate,
                "Accepts": accepts,
                "Input": json.dumps(asked, sort_keys=True),
                "ChangesWith": [endpoint.config_name, *endpoint.model_names],
            },
        )
        resource.node.add_dependency(*after)

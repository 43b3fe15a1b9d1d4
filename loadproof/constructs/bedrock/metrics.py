"""What Bedrock publishes of one profile: AWS/Bedrock, by the ModelId of its inference profile or throughput.

An application inference profile's ModelId is its id and not its ARN, so AWS's public samples say; provisioned
throughput's is taken to be its ARN. Neither was seen in an account.
"""

from __future__ import annotations

from loadproof.constructs.bedrock.model import HostedModel
from loadproof.constructs.cdk.cloudwatch import Formula, Metric

NAMESPACE = "AWS/Bedrock"


def metric(model: HostedModel, name: str, statistic: str) -> Metric:
    return Metric(NAMESPACE, name, {"ModelId": model.metric_id}, statistic)


def share(model: HostedModel, label: str, *names: str) -> Formula:
    """The share of requests that these metrics count; refused requests are no invocations, so they are added."""
    counted = " + ".join(f"FILL(m{at}, 0)" for at, _ in enumerate(names))
    everything = f"FILL(invocations, 0) + {counted}"
    metrics = {f"m{at}": metric(model, name, "Sum") for at, name in enumerate(names)}
    metrics["invocations"] = metric(model, "Invocations", "Sum")
    return Formula(f"IF({everything} > 0, ({counted}) / ({everything}), 0)", label, metrics)

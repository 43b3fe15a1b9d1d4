"""Made-up reviews for the formats: an ordinary one, one where nothing changes, a hostile one, a very long one."""

from __future__ import annotations

from dataclasses import replace

from loadproof.errors import Problem
from loadproof.review.model import (
    CostChange,
    CostFigure,
    CurvePoint,
    Curves,
    EvidenceState,
    FieldChange,
    Finding,
    MeasuredRun,
    ObjectiveChange,
    Pair,
    PredictedFigure,
    ProfileReview,
    PropertyChange,
    ResourceChange,
    Review,
    Side,
)

NO_EVIDENCE = EvidenceState("none")
PRICES = "us-east-1, AWS price list of 2026-11-03"


def side(name: str, environment: str = "prod", **more: object) -> Side:
    return Side(f"deploy_profiles/{environment}/{name}.yaml", None, None, {}, **more)  # type: ignore[arg-type]


def curve(slow: float, most: float) -> tuple[CurvePoint, ...]:
    """Throughput saturates at `most` tokens/s; latencies rise with the requests in flight."""
    return tuple(
        CurvePoint(n, most * n / (n + 12), slow * (60 + 9 * n), slow * (18 + n / 3), slow * (4_600 + 90 * n))
        for n in (1, 2, 4, 8, 16, 32)
    )


def figure(bound: float, predicted: float, expected: str, spread: float = 0.3) -> PredictedFigure:
    low, high = predicted / (1 + spread), predicted * (1 + spread)
    return PredictedFigure(bound, predicted, low, high, expected, "B")  # type: ignore[arg-type]


def costs(before: float | None, after: float | None, most: int = 4) -> tuple[CostChange, ...]:
    def at(usd: float | None, factor: float) -> CostFigure:
        return CostFigure(None if usd is None else usd * factor)

    return (
        CostChange("minimum", at(before, 1), at(after, 1)),
        CostChange("expected", at(before, 2), at(after, 2)),
        CostChange("maximum", at(before, most), at(after, most)),
    )


def chat() -> ProfileReview:
    """The gravest of the ordinary review: another endpoint name and instance type, an objective newly missed."""
    places = {
        "name": ("deploy_profiles/base/chat.yaml", 2),
        "endpoint.instance_type": ("deploy_profiles/prod/chat.yaml", 7),
        "scaling.policies[0].target": ("deploy_profiles/prod/chat.yaml", 16),
        "objectives.at_concurrency": ("deploy_profiles/base/chat.yaml", 40),
    }
    run = MeasuredRun(
        "20261102T081500Z-chat",
        "2026-11-02T08:15:00Z",
        "chat",
        "prod",
        "ab" * 32,
        "PASS",
        {"ttft_p95_ms": 441.0, "tpot_p95_ms": 22.4, "error_rate_max": 0.0},
    )
    return ProfileReview(
        pair=Pair("prod", "chat", side("chat"), side("chat", places=places)),
        fields=(
            FieldChange("endpoint.instance_type", "ml.g6e.2xlarge", "ml.g5.12xlarge"),
            FieldChange("container.settings.tensor_parallel_degree", 1, 4),
            FieldChange("scaling.policies[0].target", 6, 8),
            FieldChange("container.environment.HF_TOKEN", "(value hidden)", "(value hidden)"),
            FieldChange("objectives.e2e_p95_ms", 9000, None),
        ),
        resources=(
            ResourceChange(
                "prod-chat",
                "Endpoint",
                "AWS::SageMaker::Endpoint",
                "replace",
                (PropertyChange("EndpointName", "prod-chat", "prod-chat-g5", True),),
            ),
            ResourceChange(
                "prod-chat",
                "EndpointConfig3F1",
                "AWS::SageMaker::EndpointConfig",
                "replace",
                (PropertyChange("ProductionVariants/0/InstanceType", "ml.g6e.2xlarge", "ml.g5.12xlarge", True),),
                expected=True,
            ),
            ResourceChange("prod-chat", "Component", "AWS::SageMaker::InferenceComponent", "replace", cause="Endpoint"),
            ResourceChange(
                "prod-chat",
                "ScalingTarget",
                "AWS::ApplicationAutoScaling::ScalableTarget",
                "update",
                (PropertyChange("MinCapacity", 1, 2, False),),
            ),
            ResourceChange("prod-chat", "Requests", "AWS::SQS::Queue", "remove", kept=True),
        ),
        findings=(
            Finding(
                "LR010",
                "risk",
                "endpoint.instance_type",
                "the instance type changes from `ml.g6e.2xlarge` to `ml.g5.12xlarge` while scaling holds 2 copies or "
                "more: the update starts from `copies.min`",
                "raise `copies.min` to what runs now before the update, and lower it afterwards",
                "`EndpointConfig3F1` ProductionVariants/0/InstanceType",
            ),
            Finding(
                "LR001",
                "break",
                "Endpoint",
                "endpoint `prod-chat` is replaced by `prod-chat-g5`: the old one is deleted with its copies",
                "keep its name, or deploy the new endpoint beside it and move the callers first",
                "`EndpointName` cannot be changed in place",
            ),
            Finding(
                "LR050",
                "risk",
                "objectives.ttft_p95_ms",
                "TTFT p95 is predicted at 660 ms (508 to 859 ms), before 350 ms; the objective is 500 ms",
                "take the instance type back, or loosen the objective on purpose",
                "planner, grade B",
            ),
            Finding(
                "LR026",
                "info",
                "endpoint.max_instances",
                "needs up to 4 ml.g5.12xlarge: quota `ml.g5.12xlarge for endpoint usage`",
                "look up the quota in Service Quotas before the deployment",
            ),
        ),
        costs=costs(2.42, 7.09),
        objectives=(
            ObjectiveChange("ttft_p95_ms", "<=", figure(500, 350, "meets"), figure(500, 660.4, "misses")),
            ObjectiveChange("tpot_p95_ms", "<=", figure(40, 24.3, "meets"), figure(40, 31.9, "near")),
            ObjectiveChange("e2e_p95_ms", "<=", figure(9000, 6100, "meets"), None),
            ObjectiveChange("error_rate_max", "<=", figure(0.01, 0.0, "meets"), figure(0.01, 0.0, "meets")),
        ),
        evidence=EvidenceState("stale", run, ("endpoint.instance_type", "container.settings.tensor_parallel_degree")),
        price_source=PRICES,
        curves=Curves(curve(1.0, 560.0), curve(1.35, 430.0)),
        notes=("expected cost: at 2 requests per second of the workload",),
    )


def summaries() -> ProfileReview:
    """A good change: more copies at the most."""
    return ProfileReview(
        pair=Pair("prod", "summaries", side("summaries"), side("summaries")),
        fields=(FieldChange("copies.max", 4, 8), FieldChange("endpoint.max_instances", 4, 8)),
        resources=(
            ResourceChange(
                "prod-summaries",
                "ScalingTarget",
                "AWS::ApplicationAutoScaling::ScalableTarget",
                "update",
                (PropertyChange("MaxCapacity", 4, 8, False),),
            ),
        ),
        findings=(),
        costs=(
            CostChange("minimum", CostFigure(2.0), CostFigure(2.0)),
            CostChange("maximum", CostFigure(8.0), CostFigure(16.0)),
        ),
        objectives=(ObjectiveChange("ttft_p95_ms", "<=", figure(900, 350, "meets"), figure(900, 350, "meets")),),
        evidence=NO_EVIDENCE,
        price_source=PRICES,
        curves=Curves(curve(1.0, 560.0), curve(1.0, 560.0)),
    )


def added() -> ProfileReview:
    """A profile that is new."""
    return replace(
        summaries(),
        pair=Pair("dev", "rerank", None, side("rerank", "dev")),
        fields=(),
        findings=(
            Finding(
                "LR062", "info", "", "profile `dev/rerank` is new: its stack is created", "deploy it with `cdk deploy`"
            ),
        ),
        costs=(CostChange("minimum", None, CostFigure(1.006)),),
        objectives=(ObjectiveChange("ttft_p95_ms", "<=", None, figure(900, 350, "meets")),),
        curves=Curves((), curve(1.0, 560.0)),
    )


def refused() -> ProfileReview:
    """A head that the checks refuse."""
    file = "deploy_profiles/staging/chat.yaml"
    problem = Problem(file, 14, 9, "LP204", "copies.min", "expected 0..4, found 6", "lower it or raise copies.max")
    return ProfileReview(
        pair=Pair("staging", "chat", side("chat", "staging"), side("chat", "staging", problems=(problem,))),
        fields=(),
        resources=(),
        findings=(Finding("LR060", "break", "copies.min", "expected 0..4, found 6", "lower it"),),
        costs=(CostChange("minimum", CostFigure(None), CostFigure(None)),),
        objectives=(),
        evidence=NO_EVIDENCE,
    )


def ordinary() -> Review:
    return Review("main", "feature/bigger-instances", (added(), chat(), refused(), summaries()), 96)


def only_good() -> Review:
    return Review("main", "feature/more-copies", (summaries(),), 99)


def comment_only() -> Review:
    """A profile whose file changed, and nothing that is deployed."""
    one = replace(summaries(), fields=(), resources=(), costs=(), objectives=(), price_source="", curves=Curves())
    return Review("main", "feature/words", (one,), 99)


def empty() -> Review:
    return Review("main", "main", (), 100)


def with_text(text: str, code: str = "LR001") -> Review:
    """Every string that a profile, a ref, a file or a message may bring is `text`."""
    place = Side(text, None, None, {}, (Problem(text, 1, 1, "LP101", text, text, text),), text)
    run = MeasuredRun(text, text, text, text, text, text, {"ttft_p95_ms": 1.0}, link=text)
    one = ProfileReview(
        pair=Pair(text, text, place, place),
        fields=(FieldChange(text, text, [text]), FieldChange(text, {text: text}, None)),
        resources=(
            ResourceChange(text, text, text, "replace", (PropertyChange(text, text, text, True),), text),
            ResourceChange(text, text, text, "remove", kept=True),
        ),
        findings=(Finding(code, "break", text, text, text, text), Finding("LR010", "risk", text, text, text, text)),
        costs=costs(1.0, 2.0),
        objectives=(ObjectiveChange(text, "<=", figure(1, 2, "misses"), figure(1, 2, "misses")),),
        evidence=EvidenceState("stale", run, (text, text)),
        price_source=text,
        notes=(text,),
        curves=Curves(curve(1, 100), curve(2, 90)),
    )
    changed = replace(
        one, pair=Pair(text, text + "2", replace(place, problems=(), refusal=""), Side(text, None, None, {}))
    )
    return Review(text, text, (one, changed), 3)


HOSTILE = (
    "</summary></details><script>alert(1)</script>\n\n# Title\n| a | b |\n|---|---|\n![x](https://evil.example/x.png) "
    "[click](https://evil.example) @octocat fixes #1 https://evil.example www.evil.example me@evil.example "
    "```\n~~~\n`x` **bold** <img src=x onerror=alert(1)> &lt;b&gt; \u202egnp.exe \u200b $x^2$ :octocat: "
)


def hostile() -> Review:
    return with_text(HOSTILE)


def long() -> Review:
    """Many profiles with many fields, resources and findings: far more than a comment holds."""
    one = chat()
    fields = tuple(
        FieldChange(f"container.environment.VARIABLE_{at}", f"value {at}", f"other {at}") for at in range(80)
    )
    resources = tuple(replace(one.resources[3], logical_id=f"Target{at}") for at in range(80))
    many = tuple(
        replace(
            one,
            pair=Pair("prod", f"chat-{at:03}", one.pair.before, one.pair.after),
            fields=fields,
            resources=resources,
        )
        for at in range(60)
    )
    return Review("main", "feature/everything", many, 0)

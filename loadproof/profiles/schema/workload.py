"""What requests look like: lengths, sessions and their steps, parts of the traffic, arrivals."""

from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from loadproof.profiles.schema.short import ShortTokens, tokens_of
from loadproof.profiles.workloads import NAMED_WORKLOADS
from loadproof.token_counts import TOKEN_SIDES
from loadproof.vocabulary import Form, Fraction, Name, Part, PositiveInt, PositiveNumber

Process = Literal["closed", "constant", "poisson", "gamma", "trace"]
WorkloadName = Literal["chat-256-256", "generate-32-128", "classify-256-32", "summarize-3840-256"]
LatencyBound = Annotated[
    str,
    StringConstraints(pattern=r"^(ttft|tpot|e2e)_p(50|90|95|99)_ms$"),
    Form("a latency objective's name", "ttft_p95_ms"),
]


def _is_unset(value: object) -> bool:
    """Of a key that a later release brought: evidence is tied to a hash of the profile, which is as before without."""
    return value is None


_OF_ITS_NAME: Any = None  # filled in from the workload's name; without one the key is required
TurnCorrelation = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TokenDistribution(Part):
    """A distribution of token counts, cut to [min, max]."""

    distribution: Literal["fixed", "normal", "lognormal", "uniform", "empirical"]
    mean: PositiveNumber | None = None
    stddev: PositiveNumber | None = None
    min: PositiveInt = 1
    max: PositiveInt | None = None
    values: Annotated[tuple[PositiveInt, ...], Field(max_length=1000)] = Field(
        default=(), description="of empirical: counts to draw from, each as likely; mean, min and max follow from them"
    )

    def model_post_init(self, context: object) -> None:
        """What follows from the values of an empirical distribution."""
        values = self.__dict__.get("values")
        if self.__dict__.get("distribution") == "empirical" and values:
            self.__dict__.update(mean=fmean(values), min=min(values), max=max(values))


if TYPE_CHECKING:
    Tokens = int | TokenDistribution  # once they are read
else:
    Tokens = PositiveInt | TokenDistribution | ShortTokens


class Arrivals(Part):
    """When requests are sent: closed (a fixed number in flight) or open (a rate, or a recorded trace)."""

    process: Process = "closed"
    requests_per_s: PositiveNumber | None = None
    from_requests_per_s: NotNegative | None = Field(
        default=None, description="a ramp: the rate to start from, over benchmark.duration_s"
    )
    burstiness: PositiveNumber | None = None
    trace: str | None = Field(
        default=None, description="recorded traffic: a file, or a folder of its parts; relative to this file"
    )
    hours: Annotated[tuple[NotNegative, ...], Field(max_length=24)] = Field(
        default=(), description="shape of a day: 24 numbers (UTC) whose mean stands for requests_per_s"
    )
    days: Annotated[tuple[NotNegative, ...], Field(max_length=7)] = Field(
        default=(), description="shape of a week: 7 numbers from Monday on, likewise"
    )


class Images(Part):
    """Pictures sent with each request, or with a conversation's first; needs chat messages."""

    width_px: Annotated[int, Field(ge=1, le=8192)]
    height_px: Annotated[int, Field(ge=1, le=8192)]
    count: Annotated[int, Field(ge=1, le=16)] = 1


class WorkloadStep(Part):
    """One request of a session, or several side by side; its prompt begins with all of the first it comes after."""

    name: Name
    after: tuple[Name, ...] | None = Field(
        default=None, description="steps whose answers it waits for; default: the one before it, and [] is none"
    )
    times: Annotated[int, Field(ge=1, le=64)] = Field(default=1, description="so many of it, side by side")
    input_tokens: Tokens = Field(description="what its prompt adds to what came before: what a tool found, say")
    output_tokens: Tokens
    pause_s: NotNegative = Field(default=0, description="between these answers and this step: a tool that runs")
    pause_stddev_s: NotNegative = Field(default=0, description="standard deviation of the pause, then lognormal")

    def model_post_init(self, context: object) -> None:
        """Lengths given as text as what they stand for."""
        _read_tokens(self.__dict__)


class WorkloadClass(Part):
    """A part of the traffic that differs from the workload's own: what is not written here is as there."""

    name: Name
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        description="of all sessions; what is left of 1 is the workload's own"
    )
    input_tokens: Tokens | None = None
    first_input_tokens: Tokens | None = Field(default=None, exclude_if=_is_unset)
    output_tokens: Tokens | None = None
    paired_lengths: bool | None = None
    turns: Annotated[int, Field(ge=1, le=256)] | None = None
    continues: Fraction | None = None
    max_context_tokens: PositiveInt | None = Field(default=None, exclude_if=_is_unset)
    turn_correlation: TurnCorrelation | None = Field(default=None, exclude_if=_is_unset)
    think_time_s: NotNegative | None = None
    think_time_stddev_s: NotNegative | None = None
    shared_prefix_tokens: Annotated[int, Field(ge=0)] | None = None
    steps: Annotated[tuple[WorkloadStep, ...], Field(max_length=64)] | None = None
    objectives: dict[LatencyBound, PositiveNumber] = Field(
        default_factory=dict, description="bounds of its own, at the objectives' concurrency"
    )

    def model_post_init(self, context: object) -> None:
        """Lengths given as text as what they stand for."""
        _read_tokens(self.__dict__)


def _read_tokens(own: dict[str, Any]) -> None:
    for side in TOKEN_SIDES:
        if isinstance(own.get(side), str):
            own[side] = TokenDistribution.model_construct(None, **tokens_of(own[side]))


class Workload(Part):
    """What requests look like. With a dataset, input_tokens and output_tokens are what the planner reckons with."""

    name: WorkloadName | None = Field(
        default=None, description="a published shape of requests, in place of input_tokens and output_tokens"
    )
    input_tokens: Tokens = Field(
        default=_OF_ITS_NAME,
        description="256, a distribution, or one as text: normal:512:64",
    )
    first_input_tokens: Tokens | None = Field(
        default=None,
        exclude_if=_is_unset,
        description="of a conversation's first prompt, where it is longer or shorter than what a later turn brings: a "
        "document, a system prompt, a list of tools; default: input_tokens",
    )
    output_tokens: Tokens = Field(default=_OF_ITS_NAME, description="in the same forms")
    paired_lengths: bool = Field(
        default=False,
        description="of two empirical distributions: the first prompt goes with the first answer, and so on; otherwise "
        "each length is drawn by itself",
    )
    streaming: bool = True
    shared_prefix_tokens: Annotated[int, Field(ge=0)] = 0
    unique_prompts: bool | None = Field(
        default=None,
        description="no two prompts begin alike, so that no cache helps; default: yes, but a dataset is sent as it is",
    )
    turns: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="turns of a conversation, each sent with all before it"
    )
    continues: Fraction = Field(
        default=1, description="chance that a conversation goes on after an answer; `turns` is then the most"
    )
    max_context_tokens: PositiveInt | None = Field(
        default=None,
        exclude_if=_is_unset,
        description="a conversation ends before a turn that would have more, history, prompt and answer together; a "
        "first answer ends there",
    )
    turn_correlation: TurnCorrelation | None = Field(
        default=None,
        exclude_if=_is_unset,
        description="how alike the lengths of a conversation's turns are, since users differ: correlation of two "
        "of its prompts, or answers, by their normal scores; default: each is drawn by itself",
    )
    think_time_s: NotNegative = Field(default=0, description="between an answer and the conversation's next turn")
    think_time_stddev_s: NotNegative = Field(default=0, description="its standard deviation; it is then lognormal")
    steps: Annotated[tuple[WorkloadStep, ...], Field(max_length=64)] = Field(
        default=(), description="an agent's session, in place of turns: requests that wait for each other"
    )
    classes: Annotated[tuple[WorkloadClass, ...], Field(max_length=16)] = Field(
        default=(), description="parts of the traffic that differ from this, each a share of all sessions"
    )
    dataset: str | None = Field(
        default=None, description="prompts to send: ShareGPT's JSON, or JSONL with prompt or messages; relative path"
    )
    tokenizer: str | None = Field(
        default=None, description="the model's tokenizer.json, to count prompt tokens by; relative path"
    )
    answer_length: Literal["asked", "at_most"] = Field(
        default="asked",
        description="asked: answers well shorter than output_tokens keep E2E and rate objectives from passing; "
        "at_most: the model may end its answers sooner",
    )
    images: Images | None = None
    arrivals: Arrivals = Field(default_factory=Arrivals.model_construct)

    @property
    def first_prompts(self) -> Tokens:
        """Lengths of prompts without a history."""
        return self.input_tokens if self.first_input_tokens is None else self.first_input_tokens

    needed_without: ClassVar[dict[str, str]] = {"input_tokens": "name", "output_tokens": "name"}

    @model_validator(mode="after")
    def _has_sizes(self) -> Self:
        for side, other in self.needed_without.items():
            if getattr(self, side) is None:
                raise ValueError(f"{side} is missing, and so is {other}")
        return self

    def model_post_init(self, context: object) -> None:
        """The sizes of a named workload, where none are given; those given as text as what they stand for."""
        named = NAMED_WORKLOADS.get(self.__dict__.get("name") or "")
        for side in ("input_tokens", "output_tokens"):
            given = self.__dict__.get(side)
            if named is not None and given is None:
                self.__dict__[side] = getattr(named, side)
        _read_tokens(self.__dict__)

"""What Loadproof must know of a container family: mypy names what a family's module lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import Field, StringConstraints

from loadproof.catalog import Accelerator, Architecture
from loadproof.errors import Severity
from loadproof.vocabulary import Dtype, EnvironmentName, EnvironmentValue, Form, Part, PositiveInt, Quantization
from loadproof.wire.payloads import ContainerProtocol

CudaVersion = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{2}\.[0-9]$"), Form("a CUDA version in quotes", '"13.0"')
]
Scheduler = Literal["prefill_first", "chunked", "dynamic"]
UNLIMITED: Final = 1 << 30
MOUNTED_WEIGHTS: Final = "/opt/ml/model"  # where SageMaker puts model data
LONG_DTYPES: Final[Mapping[Dtype, str]] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class Settings(Part):
    """A family's typed settings; each names the container's own variable in `setting()`."""

    if TYPE_CHECKING:  # every family declares it, in its own place and with its own words
        tensor_parallel_degree: PositiveInt | None


class Container(Part):
    """What serves the model: a family's own class narrows `family` and `settings`."""

    version: str | None = Field(default=None, description="server version from the catalog; default: its newest")
    image: str | None = Field(
        default=None, description="image URI with tag or digest, instead of the catalog's (never :latest)"
    )
    cuda: CudaVersion | None = Field(
        default=None, description="CUDA inside `image`, in quotes, where its tag does not say (cu130)"
    )
    environment: dict[EnvironmentName, EnvironmentValue] = Field(
        default_factory=dict, description="variables no typed setting covers: the last resort"
    )
    family: str
    settings: Settings


SpeculationMethod = Literal["draft_model", "eagle", "eagle3", "mtp", "ngram"]


class Speculative(Part):
    """Speculative decoding: something cheap proposes tokens, and the model checks them in one step."""

    method: SpeculationMethod = Field(
        description="who proposes: a smaller model, an EAGLE head, the model's own heads, or the prompt's text"
    )
    tokens: Annotated[int, Field(ge=1, le=64)] = Field(description="tokens proposed a step")
    draft_model: str | None = Field(
        default=None,
        description="weights of the draft model or EAGLE head: a folder of the artifact (/opt/ml/model/draft) "
        "or a hub id",
    )

    @property
    def drafted(self) -> bool:
        """The method needs weights of its own."""
        return self.method in ("draft_model", "eagle", "eagle3")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What the server lets into a batch. Token counts cover prompt plus answer unless named otherwise.

    `kv_token_capacity` is None until memory is known (`memory.batch_limits` fills it in). `max_request_tokens` and
    `max_input_tokens` are None where the server derives them from the memory it finds. `dynamic` gathers up to
    `max_sequences` requests, waiting `max_batch_delay_ms` from the first one, and answers them together.
    """

    scheduler: Scheduler
    max_sequences: int
    step_prefill_tokens: int
    max_request_tokens: int | None
    max_input_tokens: int | None
    max_admitted_requests: int
    batch_total_tokens: int | None = None
    waiting_served_ratio: float = 0.3
    max_waiting_steps: int = 20
    kv_token_capacity: int | None = None
    max_batch_delay_ms: float = 0.0
    max_body_bytes: int | None = None


C = TypeVar("C", bound=Container)
S = TypeVar("S", bound=Settings)
P = TypeVar("P", bound=Speculative)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What a container does not start with, or ignores: its place below `container`, what was found, how to mend it."""

    path: tuple[str, ...]
    found: str
    mend: str
    severity: Severity | None = None  # None: an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Generic[C]):
    """A numbered check of one family's containers (docs/checks.md). `stops`: the server does not start; else it
    ignores what contradicts."""

    code: str
    title: str
    reason: str
    mend: str
    check: Callable[[C], Iterator[Contradiction]]
    stops: bool = True


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A file of the model data that says what variables say, and goes before them."""

    name: str
    variables: Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVariables:
    """The variables that say which weights to load. `dtypes`: what the server calls a type; with
    `dtype_beside_quantization` False it refuses one beside a quantization, where the checkpoint decides.

    `looked_up`: where the image's entry point looks for the model, first come: variables, and the folder of mounted
    weights. `unnamed`: what it says where it finds none. `loads_s3`: it fetches a model that is an `s3://` address.
    """

    model: str
    revision: str
    trust_remote_code: str
    dtype: str
    quantization: str
    dtypes: Mapping[Dtype, str] = field(default_factory=lambda: LONG_DTYPES)
    dtype_beside_quantization: bool = True
    looked_up: tuple[str, ...] = ()  # empty: `model` alone
    unnamed: str = "no model is named"
    loads_s3: bool = False
    configured_by: ConfigurationFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation(Generic[C, P]):
    """Of containers with a field `speculative`. `variables` are all that `write` may write; `read` is the way back,
    None where they name nothing that a profile could; `check` says what the method, or the container around it, cannot
    do."""

    variables: tuple[str, ...]
    write: Callable[[P], Mapping[str, str]]
    read: Callable[[Mapping[str, str]], P | None]
    check: Callable[[C, P], Iterator[Contradiction]]


@dataclass(frozen=True, slots=True)
class Admission:
    """The setting that bounds what is admitted, and its default; `beside_batch`: on top of the running batch."""

    setting: str
    default: int
    beside_batch: bool


@dataclass(frozen=True, slots=True)
class PublishedImage:
    """How AWS publishes the image: part of its repository's name, the file of the `sagemaker` SDK that lists it, and
    the pattern of the version in its tag."""

    repository: str
    sdk_file: str
    tag_version: str = r"^v?(\d[\d.]*)"


@dataclass(frozen=True, slots=True)
class PublishedName:
    """How tables of measurements write the server: patterns of its name, and of the name before a version.

    `assumed_version` is meant where none is written. `variables` are what it ran with there, by its version, the
    longest request in tokens, and what the table says of dynamic batching (None: nothing); None where it has none.
    """

    name: str
    before_version: str
    assumed_version: str
    variables: Callable[[str, int, Mapping[str, int] | None], Mapping[str, str] | None]


def written_false(variable: str) -> dict[str, str]:
    """Servers that read `false`."""
    return {variable: "false"}


def never(settings: Settings) -> bool:
    """Not with any setting."""
    return False


def nothing(container: Container) -> None:
    """Every setting has a counterpart in other families."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFamily(Generic[C, S]):
    """One family. Settings are meant by their names in `settings`; None where the server has no such setting.

    Where families name a setting alike (`enable_lora`, `kv_cache_dtype`), it means the same in each.
    """

    name: str
    called: str  # where messages list what is known
    listed: int  # place in the schema and in messages
    preferred: int | None  # place among equals in advice; None: nothing is moved to it
    container: type[C]
    settings: type[S]

    model_variables: ModelVariables | None  # None: nothing is said of the model
    quantizations: Mapping[Quantization, str]
    protocol: ContainerProtocol | None  # None: the setting of that name says it
    image: PublishedImage | None
    published: PublishedName | None

    longest_setting: str | None  # prompt plus answer
    sequences_setting: str | None  # in the running batch
    step_tokens_setting: str | None  # prompt tokens prefilled in one step
    memory_setting: str | None  # share of the accelerators' memory
    memory_share: float  # that share, unset

    server_row: Callable[[S], str]  # of capacity/data/servers.csv
    limits: Callable[[ContainerFamily[C, S], S, Architecture, Accelerator], BatchLimits]
    frees_past_window: Callable[[S], bool]  # drops what sliding layers no longer read from its cache
    alike_since: tuple[tuple[int, ...], ...] | None  # first versions like those measured; None: nobody measured any

    # What most have not, or have alike.
    measured_lines: tuple[tuple[int, ...], ...] = ()  # release lines that rows were fitted of: 1.1 is (1, 1)
    unset: Mapping[str, object] = field(default_factory=dict)  # settings that a container without their variable has
    former_variables: Mapping[str, str] = field(default_factory=dict)  # once or still read -> the field that says it
    switched_off: Callable[[str], Mapping[str, str]] = written_false  # for a variable whose setting is false
    holds_longest: bool = True  # starts only where the cache holds the longest request; else it cuts requests down
    keeps_prompts: Callable[[S], bool] = never  # the KV cache of what ended serves prompts that begin alike
    bare_flags: bool = False  # an empty variable is a flag that is on
    suffixed: Mapping[str, str] = field(default_factory=dict)  # settings that may say 8k -> whose server reads them
    words: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)  # what stands for a number; None: unset
    speculation: Speculation[C, Any] | None = None
    refusals: tuple[Refusal[C], ...] = ()
    longest_is_context: bool = True  # unset, the longest request is the model's context
    degree_variables: Mapping[str, str] = field(default_factory=dict)
    """what multiplies the tensor parallel degree, and the variable with which it does not"""
    prompt_setting: str | None = None  # the prompt alone, which a step must hold whole
    admission: Admission | None = None
    continuous_batching: Mapping[str, str | None] = field(default_factory=dict)  # settings that end dynamic batching
    tied_by: Callable[[C], str | None] = nothing  # what of a container has no counterpart in another family

    def __post_init__(self) -> None:
        """Raises TypeError for a setting named here that `settings` lacks."""
        named = {"tensor_parallel_degree", *self.unset, *self.continuous_batching}
        named |= {value for name in self.__slots__ if name.endswith("_setting") and (value := getattr(self, name))}
        named |= set() if self.admission is None else {self.admission.setting}
        if missing := sorted(named - self.settings.model_fields.keys()):
            raise TypeError(f"family {self.name}: {self.settings.__name__} has no {', '.join(missing)}")

    @property
    def setting_variables(self) -> dict[str, str]:
        """Setting -> variable, from the fields' own `setting()`; `read_back` is one that is no server's."""
        extras = {name: field.json_schema_extra for name, field in self.settings.model_fields.items()}
        return {
            name: str(extra.get("variable") or extra["read_back"])
            for name, extra in extras.items()
            if isinstance(extra, dict)
        }

    def fp8_cache(self, settings: Settings) -> bool:
        """The KV cache holds values of one byte."""
        return getattr(settings, "kv_cache_dtype", None) == "fp8"

    def ranks(self, degree: int, variables: Mapping[str, str]) -> int:
        """How many accelerators the server takes at start: shards, times stages, times replicas."""
        for name, unless in self.degree_variables.items():
            written = variables.get(name, "")
            if written.isdigit() and unless not in variables:
                degree *= max(1, int(written))
        return degree

    def value(self, settings: Settings, name: str | None) -> Any:
        """A setting by one of the names above; None where the server has none, or the profile has it wrong."""
        return None if name is None else getattr(settings, name, None)


def as_published(version: str, request_tokens: int, dynamic: Mapping[str, int] | None) -> dict[str, str] | None:
    """The server's defaults; it does not batch dynamically."""
    return {} if dynamic is None else None


def draft_contradictions(wanted: Speculative) -> Iterator[Contradiction]:
    """A draft model is named where the method needs one, and only there."""
    path = ("speculative",)
    if wanted.drafted and wanted.draft_model is None:
        yield Contradiction(
            path, f"method {wanted.method} needs `draft_model`", "add `draft_model: /opt/ml/model/draft`"
        )
    if not wanted.drafted and wanted.draft_model is not None:
        found = f"method {wanted.method} proposes without a draft model"
        yield Contradiction((*path, "draft_model"), found, "delete it")

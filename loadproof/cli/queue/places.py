"""From a profile to its deployed buffer: stack, clients, and how its model is spoken to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadproof.bench.connect import service_url
from loadproof.bench.from_profile import ProfileChoice, environment_of
from loadproof.errors import InputError
from loadproof.invocation import GenerationRequest, codec_for
from loadproof.invocation.buffer.places import Places, client, places_of
from loadproof.profiles import components_of, load_environment, load_profile, protocol_of
from loadproof.profiles.names import stack_name
from loadproof.profiles.schema import Profile
from loadproof.simulation.targets import buffer_concurrency


@dataclass(frozen=True, slots=True)
class Deployed:
    """A profile's buffer as it is deployed. `client` makes a boto3 client of a service there."""

    profile: Profile
    places: Places
    client: Callable[[str], object]


def deployed(file: Path, environment: str | None, endpoint_url: str | None) -> Deployed:
    """Raises InputError for a profile without a buffer, CouldNotRunError where it is not deployed."""
    profile = buffered(file)
    name, folder = environment_of(ProfileChoice(file, environment))
    region = load_environment(folder).region

    def made(service: str) -> object:
        return client(service, region, endpoint_url or service_url(service.upper()))

    url = endpoint_url or service_url("CLOUDFORMATION")
    return Deployed(profile, places_of(stack_name(name, profile.name), region=region, endpoint_url=url), made)


def buffered(file: Path) -> Profile:
    """Raises InputError for a profile without a buffer."""
    profile = load_profile(file)
    if profile.buffer is None or not profile.buffer.enabled:
        raise InputError(f"{file}: has no buffer; set `buffer: {{}}` and deploy it, or invoke it with loadproof run")
    return profile


def payload_maker(profile: Profile) -> Callable[[GenerationRequest, bool], dict[str, object]]:
    """Makes the model's own payload of a prompt; with True as chat messages."""
    protocol = "converse" if profile.backend == "bedrock" else protocol_of(components_of(profile)[0].container)

    def payload(request: GenerationRequest, chat: bool) -> dict[str, object]:
        spoken = "openai-chat" if chat and protocol != "converse" else protocol
        made: dict[str, object] = orjson.loads(codec_for(spoken).encode(request))
        return made

    return payload


def slots_of(profile: Profile) -> int | None:
    """How many messages all consumers may work on at once; None where nothing says."""
    assert profile.buffer is not None
    consumers = profile.buffer.max_concurrency
    number = buffer_concurrency(profile).value if consumers == "auto" else consumers
    return None if number is None else int(number) * profile.buffer.batch_size

"""`loadproof preflight PROFILE|ENVIRONMENT`: the account looked at before a deployment, by reading alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from loadproof.bench.connect import service_url
from loadproof.cli.options import EndpointUrl, Env
from loadproof.cli.preflight.formats import as_json, as_text
from loadproof.cli.profile_names import complete_place, place_of
from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.invocation.aws_sdk import aws_session
from loadproof.invocation.endpoints import Client, aws_client
from loadproof.preflight.account import CONNECT_S, READ_S, Account
from loadproof.preflight.bootstrapped import bootstrap_qualifier
from loadproof.preflight.collect import Deployments, resources_of
from loadproof.preflight.inspection import WHOLE_S
from loadproof.preflight.inspection import preflight as inspected
from loadproof.preflight.rights import policy_document
from loadproof.preflight.rules import SEVERITIES
from loadproof.profiles import load_environment, load_profile, profile_files
from loadproof.profiles.folders import default_folder
from loadproof.profiles.loader import ENVIRONMENT_FILE

_CONNECTIONS: Final = 24


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


class FailOn(StrEnum):
    """The least severity of a finding that makes exit code 1."""

    WARNING = "warning"
    UNKNOWN = "unknown"
    ERROR = "error"


def preflight(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE|ENVIRONMENT",
            help="a profile's or an environment's file, folder or name",
            autocompletion=complete_place,
        ),
    ],
    env: Env = None,
    endpoint_url: EndpointUrl = None,
    format: Annotated[Format, typer.Option(help="text for people, json for programs")] = Format.TEXT,
    fail_on: Annotated[FailOn, typer.Option(help="exit 1 with a finding of this severity or above")] = FailOn.UNKNOWN,
    timeout_s: Annotated[
        float, typer.Option(min=10, max=300, help="longest time it may take; what is not seen by then is unknown")
    ] = WHOLE_S,
    rights: Annotated[
        bool, typer.Option("--rights", help="print the rights it needs as an IAM policy, and ask nothing")
    ] = False,
) -> int:
    """Look at the account before a deployment; only reads.

    Quotas, weights, keys, names, addresses, images, alarms.

    Exit 0; 1 with findings at --fail-on or above; 2 bad input; 3 could not run: no credentials, or of another account.
    """
    deployments = _deployments(place_of(Path(place)), env)
    if rights:
        environment = deployments.environment
        unasked = Account(_no_client, account=environment.account, region=environment.region, until_s=0.0)
        print(json.dumps(policy_document(resources_of(deployments, unasked)), indent=2))
        return ExitCode.OK

    outcome = inspected(deployments, _clients(deployments.environment.region, endpoint_url), timeout_s)
    print(as_json(outcome) if format is Format.JSON else as_text(outcome))
    failed = outcome.worst is not None and SEVERITIES.index(outcome.worst) >= SEVERITIES.index(fail_on.value)
    return ExitCode.MISSED if failed else ExitCode.OK


def _clients(region: str, endpoint_url: str | None) -> Callable[[str], Client]:
    """Makes the client of a service; all of one session, which halves the time until the first question."""
    session = aws_session(region)

    def client(service: str) -> Client:
        return aws_client(
            service,
            region,
            endpoint_url or service_url(service.upper().replace("-", "_")),
            connect_timeout_s=CONNECT_S,
            read_timeout_s=READ_S,
            connections=_CONNECTIONS,
            session=session,
        )

    return client


def _deployments(place: Path, environment_name: str | None) -> Deployments:
    """What would be deployed: one profile, or every profile of an environment."""
    folder, files = _chosen(place, environment_name)
    return Deployments(
        folder.name,
        load_environment(folder),
        tuple(load_profile(file) for file in files),
        bootstrap_qualifier(folder.resolve()),
    )


def _chosen(place: Path, environment_name: str | None) -> tuple[Path, list[Path]]:
    """The environment's folder, and the files of the profiles. Raises InputError."""
    if place.is_file() and place.name != ENVIRONMENT_FILE:
        own = place.resolve().parent
        return own.parent / environment_name if environment_name else own, [place]
    if environment_name is not None:
        raise InputError(f"--env {environment_name}: goes with a profile; {place} is an environment")
    if place.name == ENVIRONMENT_FILE:
        folder = place.resolve().parent
    else:
        folder = place.resolve() if place.is_dir() else default_folder() / place
    return folder, profile_files(folder.parent, folder.name)


def _no_client(service: str) -> Client:
    raise CouldNotRunError(f"nothing is asked of {service} here")

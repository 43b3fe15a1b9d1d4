"""`loadproof local up|down|status|env`: AWS on loopback."""

from __future__ import annotations

import json
import re
import shlex
import time
from typing import Annotated

import typer

from loadproof.errors import CouldNotRunError, ExitCode, InputError
from loadproof.localcloud import local
from loadproof.localcloud.state import known_states
from loadproof.terminal import Terminal

app = typer.Typer(help="AWS on loopback: deploy and benchmark with no account.", no_args_is_help=True)

_CONFINED = {
    "landlock": "confined by Landlock",
    "bubblewrap": "confined by bubblewrap",
    "none": "without a sandbox: they can read what you can",
}
_SHOWN = ["name", "pid", "port", "endpoint_url", "region", "account", "log_file", "backend_url", "speed", "sandbox"]
Name = Annotated[str, typer.Option(help="Which local cloud; several can run side by side.")]
Format = Annotated[str, typer.Option("--format", help="text or json.")]


@app.command()
def up(
    name: Name = "default",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on localhost; 0 takes a free one.")] = 0,
    backend: Annotated[
        str | None, typer.Option(help="Base URL of a real model server to stand behind every component.")
    ] = None,
    account: Annotated[str, typer.Option(help="Account id of the cloud's own credentials.")] = "123456789012",
    region: Annotated[str, typer.Option(help="Default region.")] = "us-east-1",
    transition_s: Annotated[
        float, typer.Option(min=0.0, help="Seconds from Creating to InService, on the cloud's clock.")
    ] = 0.4,
    speed: Annotated[
        float | None,
        typer.Option(
            help="Seconds of the cloud's clock in one of the wall's, 1 to 100: alarms, cooldowns, schedules and "
            "transitions go by it. Default: $LOADPROOF_LOCAL_SPEED, else 1."
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach/--foreground", help="Run in the background, or until Ctrl-C.")
    ] = True,
) -> int:
    """Start a local cloud, in the background by default.

    It runs until `loadproof local down`.
    """
    _check(account, region, backend)
    console = Terminal(stderr=True, highlight=False)
    with console.status(f"starting local cloud {name} ..."):
        cloud = local.start(
            name,
            port=port,
            backend=backend,
            account=account,
            region=region,
            transition_s=transition_s,
            speed=speed,
            stop_with_parent=not detach,
        )
    if backend is not None and cloud.state.backend_url != backend:
        raise InputError(
            f"local cloud {name} is running already with backend {cloud.state.backend_url or 'the twin'}, "
            f"not {backend}; stop it first: loadproof local down{_name_option(name)}"
        )
    if speed is not None and cloud.state.speed != speed:
        raise InputError(
            f"local cloud {name} is running already at speed {cloud.state.speed:g}, not {speed:g}; "
            f"stop it first: loadproof local down{_name_option(name)}"
        )
    words = "serves" if cloud.fresh else "is running already"
    print(f"local cloud {name} {words} at {cloud.endpoint_url} (account {cloud.account}, {cloud.region})")
    print(f'point a shell at it:  eval "$(loadproof local env{_name_option(name)})"')
    print(f"log: {cloud.log_file}", flush=True)
    if not detach and cloud.fresh:
        _stay(name)
    return ExitCode.OK


@app.command()
def down(
    name: Name = "default",
    everything: Annotated[bool, typer.Option("--all", help="Stop every local cloud of this user.")] = False,
) -> int:
    """Stop a local cloud and all it started.

    Its stacks, queues and objects are gone with it.
    """
    if everything:
        stopped = local.stop_all()
        print("stopped: " + (", ".join(stopped) if stopped else "none was running"))
    else:
        was_running = local.stop(name)
        print(f"local cloud {name} {'stopped' if was_running else 'was not running'}")
    return ExitCode.OK


@app.command()
def status(output: Format = "text") -> int:
    """List the running local clouds."""
    if output not in ("text", "json"):
        raise InputError(f"--format: found {output!r}, allowed are text and json")
    clouds = [state for state in known_states() if local.find(state.name)]
    if output == "json":
        print(json.dumps([{field: getattr(state, field) for field in _SHOWN} for state in clouds], indent=2))
        return ExitCode.OK
    if not clouds:
        print("no local cloud is running; start one with: loadproof local up")
    for state in clouds:
        speed = ""
        if state.speed != 1:
            speed = f", clock {state.speed:g} times as fast, shows {state.now():%Y-%m-%d %H:%M} UTC"
        print(f"{state.name}: {state.endpoint_url} (pid {state.pid}, account {state.account}, {state.region}{speed})")
        print(f"  functions run {_CONFINED[state.sandbox]}")
    return ExitCode.OK


@app.command()
def env(name: Name = "default") -> int:
    """Print the shell lines that point at a local cloud.

    For the AWS CLI, SDKs and the CDK CLI.
    """
    state = local.find(name)
    if state is None:
        print("false  # nothing was set")  # what a shell evaluates fails, instead of leaving it pointed elsewhere
        raise CouldNotRunError(
            f"local cloud {name} is not running; start it with: loadproof local up{_name_option(name)}"
        )
    print("unset AWS_PROFILE AWS_DEFAULT_PROFILE")  # a profile could win over the keys below
    for variable, value in local.environment_of(state).items():
        print(f"export {variable}={shlex.quote(value)}")
    return ExitCode.OK


def _stay(name: str) -> None:
    """Wait until someone stops the cloud, or stop it on Ctrl-C (which then ends this command as interrupted)."""
    try:
        while local.find(name):
            time.sleep(0.5)
    finally:
        local.stop(name)


def _name_option(name: str) -> str:
    return "" if name == "default" else f" --name {name}"


def _check(account: str, region: str, backend: str | None) -> None:
    if not re.fullmatch(r"[0-9]{12}", account):
        raise InputError(f"--account: found {account!r}, allowed are twelve digits")
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]", region):
        raise InputError(f"--region: found {region!r}, allowed is an AWS region such as us-east-1")
    if backend is not None and not backend.startswith(("http://", "https://")):
        raise InputError(f"--backend: found {backend!r}, allowed is a URL such as http://localhost:8000")

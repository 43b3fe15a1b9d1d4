"""`loadproof local up|down|status`."""

import typer

app = typer.Typer(help="AWS on loopback: deploy and benchmark with no account.", no_args_is_help=True)


@app.command()
def status() -> int:
    """(being built)"""
    return 0

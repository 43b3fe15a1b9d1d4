"""How verbs show themselves: options under headings, examples at the end, no word cut at any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from typer._click import Context, HelpFormatter  # Typer carries its own Click
from typer.core import TyperCommand, TyperGroup

from loadproof.cli.plain_values import read_plainly

Group = Literal["Set up", "Predict", "Provision", "Prove", "Review"]
GROUPS: Final[tuple[Group, ...]] = ("Set up", "Predict", "Provision", "Prove", "Review")
EXAMPLES: Final = {
    "init": ("loadproof init endpoints", "loadproof init endpoints --model Qwen/Qwen3-8B --p95 10000 --traffic 2/s"),
    "doctor": ("loadproof doctor", "loadproof doctor --format json"),
    "check": ("loadproof check", "loadproof check deploy_profiles/prod --format sarif"),
    "preflight": ("loadproof preflight prod", "loadproof preflight dev/llama-3-1-8b --format json"),
    "plan": (
        "loadproof plan dev/llama-3-1-8b",
        "loadproof plan dev/llama-3-1-8b --format html",
        "loadproof plan dev/llama-3-1-8b --write --dry-run",
    ),
    "predict": ("loadproof predict --input rows.csv --output predictions.csv",),
    "simulate": (
        "loadproof simulate dev/llama-3-1-8b --rate 10 --minutes 30",
        "loadproof simulate dev/llama-3-1-8b --rate 10 --ramp-from 0.5",
    ),
    "calibrate": (
        "loadproof calibrate --suggest dev/llama-3-1-8b --minutes 10",
        "loadproof calibrate runs/RUN",
        "loadproof calibrate measured.csv --profile dev/llama-3-1-8b",
    ),
    "learn": (
        "loadproof learn capture/ --profile dev/llama-3-1-8b",
        "loadproof learn trace.csv --profile dev/llama-3-1-8b --out workload.diff",
    ),
    "catalog": ("loadproof catalog list instances", "loadproof catalog show Qwen/Qwen3-32B"),
    "local": ("loadproof local up", 'eval "$(loadproof local env)"', "loadproof local down"),
    "demo": ("loadproof demo",),
    "bench": (
        "loadproof bench dev/llama-3-1-8b",
        "loadproof bench dev/llama-3-1-8b --find-max --rate 1..64",
        "loadproof bench --target http://127.0.0.1:8000 --protocol openai",
    ),
    "run": ("loadproof run dev/llama-3-1-8b --input prompts.jsonl --output answers.jsonl",),
    "queue": (
        "loadproof queue send dev/llama-3-1-8b 'Once upon a time'",
        "loadproof queue status dev/llama-3-1-8b",
    ),
    "report": ("loadproof report runs/RUN --junit junit.xml",),
    "verify": ("loadproof verify runs/RUN --profile dev/llama-3-1-8b",),
    "compare": ("loadproof compare runs/BEFORE runs/AFTER",),
    "import": ("loadproof import profile_export.json --as runs/imported",),
    "evidence": ("loadproof evidence list", "loadproof evidence add runs/RUN", "loadproof evidence check"),
    "review": ("loadproof review origin/main", "loadproof review HEAD --format html"),
    "schema": ("loadproof schema profile",),
    "catalog list": ("loadproof catalog list models",),
    "catalog show": ("loadproof catalog show ml.g6e.12xlarge", "loadproof catalog show path/to/config.json"),
    "catalog refresh": ("loadproof catalog refresh",),
    "catalog audit": ("loadproof catalog audit --format json",),
    "local up": ("loadproof local up", "loadproof local up --speed 30"),
    "local down": ("loadproof local down",),
    "local status": ("loadproof local status",),
    "local env": ('eval "$(loadproof local env)"',),
    "queue send": (
        "loadproof queue send dev/llama-3-1-8b 'Once upon a time' --wait",
        "loadproof queue send dev/llama-3-1-8b --input prompts.jsonl",
    ),
    "queue status": ("loadproof queue status dev/llama-3-1-8b",),
    "queue dlq": ("loadproof queue dlq dev/llama-3-1-8b",),
    "queue redrive": ("loadproof queue redrive dev/llama-3-1-8b",),
    "evidence list": ("loadproof evidence list",),
    "evidence show": ("loadproof evidence show RUN",),
    "evidence compare": ("loadproof evidence compare BEFORE AFTER",),
    "evidence add": ("loadproof evidence add runs/RUN",),
    "evidence statement": ("loadproof evidence statement runs/RUN > statement.json",),
    "evidence sign": ("loadproof evidence sign runs/RUN --key gate.pem",),
    "evidence check": ("loadproof evidence check --max-age 30d",),
}

# Of verbs with many options that no specification groups: option -> its heading.
HEADINGS: Final[dict[str, dict[str, str]]] = {
    "init": {
        **dict.fromkeys(("model", "p95", "traffic", "budget", "lengths", "defaults"), "What the endpoint is for"),
        **dict.fromkeys(("environment", "region", "account", "accept_eula", "ci"), "Where it is deployed"),
        **dict.fromkeys(("upgrade", "write", "settled"), "Later, with a newer Loadproof"),
    },
    "plan": {
        **dict.fromkeys(("goal", "instances", "max_usd_per_hour"), "Alternatives"),
        **dict.fromkeys(("write", "dry_run"), "Taking the recommendation"),
    },
    "review": {
        **dict.fromkeys(("context", "direct", "trust", "evidence", "cache"), "What is compared"),
        **dict.fromkeys(("format", "output", "docs", "again"), "What is written"),
    },
}

LONGEST_OPTION: Final = 60


class WholeWords(HelpFormatter):
    """Wraps between words alone: an option, a file or a choice with hyphens can be copied."""

    _HYPHEN_THAT_STAYS: Final = "\u2011"

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", self._HYPHEN_THAT_STAYS))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        kept = [(name, said.replace("-", self._HYPHEN_THAT_STAYS)) for name, said in rows]
        super().write_dl(kept, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(self._HYPHEN_THAT_STAYS, "-")


class VerbContext(Context):
    """Where help is formatted so."""

    formatter_class = WholeWords


class VerbCommand(TyperCommand):
    """A verb: options by their headings, those without one under *Options*, and its examples."""

    context_class = VerbContext

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        read_plainly(self.params)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                own = HEADINGS.get(ctx.info_name or "", {}).get(param.name or "")
                heading = getattr(param, "rich_help_panel", None) or own
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                headings.setdefault(heading or usual, []).append(_folded(*record))
        last = headings.pop("Options", [])
        for heading, records in (*headings.items(), ("Options", last)):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        words = [ctx.info_name or ""]
        while ctx.parent is not None and ctx.parent.parent is not None:  # up to the program, however it was started
            ctx = ctx.parent
            words.insert(0, ctx.info_name or "")
        show_examples(" ".join(words), formatter)


def _folded(option: str, help: str) -> tuple[str, str]:
    """Many words to choose from, where they are wrapped as the rest: no line is longer than the terminal."""
    name, _, choices = option.partition(" <")
    if "|" not in choices or len(option) <= LONGEST_OPTION:
        return option, help
    said, gap, default = help.partition("  [default")
    return f"{name} <choice>", f"{said}: {choices.removesuffix('>').replace('|', ', ')}{gap}{default}"


class VerbGroup(TyperGroup):
    """A verb with verbs of its own, each with the whole first paragraph of its help."""

    context_class = VerbContext

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            every = ((name, self.commands[name].help or "") for name in self.list_commands(ctx))
            formatter.write_dl([(name, " ".join(said.partition("\n\n")[0].split())) for name, said in every])

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        show_examples(self.name, formatter)


def show_examples(name: str | None, formatter: HelpFormatter) -> None:
    """As they are typed: not wrapped, so that they can be copied."""
    if found := EXAMPLES.get(name or ""):
        with formatter.section("Examples"):
            for example in found:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def by_group(lines: dict[str, tuple[Group, str]]) -> Iterator[tuple[Group, list[tuple[str, str]]]]:
    """(group, (verb, its line) each) in the order of an endpoint's life."""
    for group in GROUPS:
        yield group, [(name, line) for name, (of, line) in lines.items() if of == group]

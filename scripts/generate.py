"""Writes what is generated: editor schemas, pages of checks, docs/cli.md, a table of docs/local-cloud.md.

`--check` only compares (exit 1 on drift).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "scripts")]

from recorded_rates import with_rates  # noqa: E402
from reference_cli import cli_page  # noqa: E402
from reference_profile import profile_page  # noqa: E402
from reference_results import results_page  # noqa: E402
from reference_rules import checks_page, findings_page, preflight_page, template_checks_page  # noqa: E402

from loadproof.bench.live.schema import live_schema  # noqa: E402
from loadproof.bench.schema import summary_schema  # noqa: E402
from loadproof.profiles.json_schema import environment_schema, profile_schema  # noqa: E402


def llms_page() -> str:
    """docs/llms.txt (llmstxt.org): the site's pages for readers that are programs, by section."""
    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text("utf-8"))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    for section in config["nav"]:
        for heading, pages in section.items():
            lines += [f"## {heading}", ""]
            lines += [f"- [{title}]({page})" for entry in pages for title, page in entry.items()]
            lines.append("")
    return "\n".join(lines)


def generated() -> dict[Path, str]:
    """Every generated file with its content."""
    return {
        REPOSITORY / "deploy_profiles" / "schema.json": json.dumps(profile_schema(), indent=2) + "\n",
        REPOSITORY / "deploy_profiles" / "environment.schema.json": json.dumps(environment_schema(), indent=2) + "\n",
        REPOSITORY / "docs" / "summary.schema.json": json.dumps(summary_schema(), indent=2) + "\n",
        REPOSITORY / "docs" / "live.schema.json": json.dumps(live_schema(), indent=2) + "\n",
        REPOSITORY / "docs" / "checks.md": checks_page(),
        REPOSITORY / "docs" / "template-checks.md": template_checks_page(),
        REPOSITORY / "docs" / "review-findings.md": findings_page(),
        REPOSITORY / "docs" / "preflight-findings.md": preflight_page(),
        REPOSITORY / "docs" / "cli.md": cli_page(),
        REPOSITORY / "docs" / "llms.txt": llms_page(),
        REPOSITORY / "docs" / "local-cloud.md": with_rates((REPOSITORY / "docs" / "local-cloud.md").read_text("utf-8")),
        REPOSITORY / "docs" / "reference-profile.md": profile_page(),
        REPOSITORY / "docs" / "reference-results.md": results_page(),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` name those that differ."""
    stale = []
    for file, content in generated().items():
        current = file.read_text(encoding="utf-8") if file.is_file() else None
        if current == content:
            continue
        stale.append(file)
        if "--check" not in arguments:
            file.write_text(content, encoding="utf-8")
    for file in stale:
        print(f"{'stale' if '--check' in arguments else 'written'}: {file.relative_to(REPOSITORY)}")
    if stale and "--check" in arguments:
        print("run `make docs` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

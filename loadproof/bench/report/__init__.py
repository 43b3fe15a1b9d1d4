"""The report of a run: verdict first, then the evidence, on one page that needs no network."""

from loadproof.bench.report.page import render_report

__all__ = ["render_report"]

"""Pictures of docs/accuracy.md, written as small SVG by hand: no renderer, the same bytes everywhere."""

from __future__ import annotations

from math import log2

WIDTH, HEIGHT, LEFT, TOP = 300, 180, 46, 28
COLUMNS = 4
RANGE = 0.5  # the axis' end: a residual beyond is drawn at the edge


def residuals(panels: dict[str, list[tuple[int, float]]]) -> str:
    """One panel a title, COLUMNS a row: (concurrency, predicted / measured - 1) points, the ±10% band behind them."""
    rows = -(-len(panels) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH}" height="{rows * (HEIGHT + 40)}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for index, (title, points) in enumerate(panels.items()):
        row, column = divmod(index, COLUMNS)
        parts.append(f'<g transform="translate({column * WIDTH},{row * (HEIGHT + 40)})">{_panel(title, points)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, points: list[tuple[int, float]]) -> str:
    inner = WIDTH - LEFT - 14

    def x(concurrency: float) -> float:
        return LEFT + 8 + log2(concurrency) / 9 * (inner - 16)

    def y(error: float) -> float:
        return TOP + (RANGE - max(-RANGE, min(RANGE, error))) / (2 * RANGE) * (HEIGHT - TOP)

    parts = [
        f'<text x="{LEFT}" y="16" font-weight="bold">{title}</text>',
        f'<rect x="{LEFT}" y="{y(0.1):.1f}" width="{inner}" height="{y(-0.1) - y(0.1):.1f}" fill="#e8f0e8"/>',
    ]
    for level in (-0.5, -0.25, 0.0, 0.25, 0.5):
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + inner}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="#ccc"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level:+.0%}</text>')
    parts += [
        f'<text x="{x(2**power):.1f}" y="{HEIGHT + 16}" text-anchor="middle">{2**power}</text>' for power in range(10)
    ]
    parts.append(f'<text x="{LEFT + inner / 2:.0f}" y="{HEIGHT + 32}" text-anchor="middle">requests in flight</text>')
    parts += [
        f'<circle cx="{x(level):.1f}" cy="{y(error):.1f}" r="2.5" fill-opacity="0.6" '
        f'fill="{"#2b6cb0" if abs(error) <= 0.1 else "#c53030"}"/>'
        for level, error in points
    ]
    return "\n".join(parts)

"""Lengths of time in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """`0:07`, `12:30`, `1:02:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def duration(seconds: float) -> str:
    """As `clock`, from two days on `3 d 4 h`; less than nothing is nothing."""
    hours = max(0, round(seconds)) // 3600
    return f"{hours // 24} d {hours % 24} h" if hours >= 48 else clock(max(0.0, seconds))

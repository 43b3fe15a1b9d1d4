"""A run told while it goes: measured on the way, as typed lines, for a screen, a log and whoever follows the stream."""

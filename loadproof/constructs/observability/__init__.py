"""Alarms, dashboard, and the metrics behind them."""

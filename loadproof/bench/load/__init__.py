"""Sending it: processes, slots and due times."""

"""Sending it: processes, slots and due times; what level comes next."""

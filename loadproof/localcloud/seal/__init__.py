"""What keeps others out: who may reach a local cloud's operations, and what deployed code may reach of the machine."""

"""Our own rules over what was synthesized; nothing with an open error leaves for AWS."""

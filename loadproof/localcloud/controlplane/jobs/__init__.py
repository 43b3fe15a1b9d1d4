"""What runs to an end: state machines, and the Processing jobs they start."""

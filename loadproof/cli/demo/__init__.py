"""The main job on this machine, from check to take-down."""

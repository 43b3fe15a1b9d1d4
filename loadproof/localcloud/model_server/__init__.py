"""What answers behind a copy: the twin with real payloads, or a real HTTP model server."""

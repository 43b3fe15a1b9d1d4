"""`python -m loadproof` is `loadproof`."""

from loadproof.cli.main import main

main()

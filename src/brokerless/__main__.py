"""`python -m brokerless`."""

from brokerless.cli import main

main()

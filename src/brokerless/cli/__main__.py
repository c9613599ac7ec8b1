"""`python -m brokerless.cli`."""

from brokerless.cli import main

main()

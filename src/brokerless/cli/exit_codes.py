"""What the command ends with: 0 for done, or one of these."""

DAMAGE = 1
FAILURE = 2
INTERRUPTED = 130

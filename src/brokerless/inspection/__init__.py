"""What is in files: dumps, findings, profiles."""

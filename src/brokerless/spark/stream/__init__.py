"""The streaming reader."""

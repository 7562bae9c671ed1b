"""Instant messaging, end to end: every other file here says what it tries."""

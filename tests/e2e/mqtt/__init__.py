"""The broker and its clients, end to end: every other file here says what it tries."""

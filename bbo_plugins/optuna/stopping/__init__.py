"""The terminator's completions and records."""

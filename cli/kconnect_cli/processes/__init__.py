"""Commands that run for long: workers, signals that end them, what they report of a start."""

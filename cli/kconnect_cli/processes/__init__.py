"""Commands that run for long: workers, signals that end them, what they tell of a start."""

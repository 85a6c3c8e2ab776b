"""Changes to the internal topics: plans (pure), reasons to refuse them, and the shell that writes them."""

"""Changes to the internal topics: plans (pure), what stands against them, and the shell that writes them."""

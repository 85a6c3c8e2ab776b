"""The pages, one module for each: its routes, and what it reads and shows."""

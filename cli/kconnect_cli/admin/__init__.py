"""How commands change a cluster: over the REST API of a worker, or on its topics (--direct)."""

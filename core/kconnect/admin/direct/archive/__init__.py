"""A cluster as one JSON document: written from its topics, compared with them, and put back."""

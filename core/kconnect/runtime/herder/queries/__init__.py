"""Queries that both herders answer in the same way: configs, statuses, topics, metrics. Nothing is changed."""

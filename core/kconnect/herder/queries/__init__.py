"""What both herders answer in the same way, without changing anything: configs, statuses, topics, metrics."""

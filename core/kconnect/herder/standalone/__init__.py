"""The herder of one process: configs and statuses in memory, orders carried out by the thread that asks."""

"""Operating a cluster, alive or not: by its topics, by its records, before a start, and in a browser.

Imported by the CLI, and by `worker`, which serves the console; imports every floor below. Begin with `direct/`, which
works on a cluster's own topics while no worker runs; `records/` and `dead_letters/` read ordinary topics, `preflight/`
is `connect check`, `console/` has the pages.
"""

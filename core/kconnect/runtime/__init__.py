"""What a worker and its slots are made of, without the engine that runs the tasks.

Imported by `spark`, `testing`, `admin` and `worker`; imports the floors below, of which `builtin` never: plugins are
found by name. Begin with `pipeline/`, the data path of one task, and `herder/`, which decides who runs what. Its own
floors, top to bottom: rest and webhooks; herder; pipeline; storage; kafka and metrics; plugins;
config and health.
"""

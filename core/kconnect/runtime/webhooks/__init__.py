"""Posts what happens in a cluster to a URL: failures, recovered tasks, rebalances, lag, outages. Imported by `worker`.

`documents` makes the bodies, `sender` delivers them on a thread of its own, `worker_webhooks` puts both together and
looks for what nobody announces.
"""

"""What a worker of a cluster decides, without I/O: events go in, instructions come out. `machine` is the way in.

Rules are apart by idea: `membership` (rebalances), `configs` (changes of them), `answers` (requests), `restarts`,
`tasks` (task configs and their retries), `keys` (session keys). All of them share one `facts.Facts`.
"""

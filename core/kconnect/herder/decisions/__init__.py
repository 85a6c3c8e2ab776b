"""What a worker of a cluster decides, without I/O: events go in, instructions come out. `machine` is the way in.

Rules are apart by idea: `membership_rules` (rebalances), `config_rules` (changes of configs), `request_rules`,
`restart_rules`, `task_config_rules` (task configs and their retries), `mismatch_rules` (workers that do not fit
together). All of them share one `facts.HerderFacts`.
"""

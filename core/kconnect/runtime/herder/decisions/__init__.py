"""The decisions of a cluster's worker, without I/O: events go in, instructions come out. `machine` is the entry point.
Each module has the rules of one topic: `membership_rules` (rebalances, and workers that do not fit
together), `config_rules` (changes of configs, task configs and their retries), `request_rules`, `restart_rules`
(requested and automatic ones). All of them share one `facts.HerderFacts`.
"""

"""A worker's place in its group, in Kafka's group protocol on sockets of its own. `member.GroupMember` is the way in.

`join_attempt` joins and syncs, `heartbeats` shows that the worker lives, `coordinator` finds the broker to speak to;
their `member_events` go to the herder's thread. `connection` carries `frames`, which are made of `wire`'s types;
`security` and `sasl` log the worker in.
"""

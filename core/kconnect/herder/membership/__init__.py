"""A worker's place in its group, in Kafka's group protocol on sockets of its own. `member.GroupMember` is the way in.

`attempt` joins and syncs, `heartbeats` shows that the worker lives, `coordinator` finds the broker to speak to,
`connection` and `frames` carry the bytes of `messages`, `security` and `sasl` let the worker in.
"""

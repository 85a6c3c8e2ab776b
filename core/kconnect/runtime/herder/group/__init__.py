"""A worker's place in its group, with Kafka's group protocol on its own sockets. `member.GroupMember` is the entry
point.

`member_threads` join and sync, and keep the session alive; `coordinator` finds the broker to talk to. Their
`member_events` go to the herder's thread. `connection` sends `frames`, built from `wire`'s types;
`security` and `sasl` log the worker in.

Other groups are asked over the same connections: `group_requests` finds their coordinators, `description` says who is
in them, and `admin_frames` has the bytes.
"""

"""The herder of a worker of a cluster. `distributed` answers what REST asks; `thread` turns events into instructions by
way of `kconnect.herder.state`; `performer` carries them out; `local_work` runs this worker's share.
"""

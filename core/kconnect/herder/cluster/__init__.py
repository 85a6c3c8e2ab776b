"""The herder of a worker of a cluster. `herder` answers what REST asks; `herder_thread` turns events into instructions
by way of `kconnect.herder.decisions`; `performer` carries them out; `local_work` runs this worker's share.
"""

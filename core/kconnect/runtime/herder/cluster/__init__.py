"""The herder of a cluster's worker. `herder` answers REST requests; `herder_thread` turns events into instructions
through `kconnect.runtime.herder.decisions`; `performer` carries them out; `local_work` runs this worker's share.
"""

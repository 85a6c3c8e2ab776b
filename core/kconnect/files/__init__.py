"""Files of this machine: folders of a user, whole files, files on disk for sure, a turn that one process has.

May be imported by every room; imports `errors` only. Begin with `durable_file.py`: a file that is there whole after a
loss of power, or is not there.
"""

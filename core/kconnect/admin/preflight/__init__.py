"""What a start of a worker needs, tried beforehand: each a probe, all side by side, each with a deadline.

`results` is what they tell, `probe` runs them; the other modules are the probes, by what they look at, and `checks`
puts them together. Imported by the command line; imports every room below `worker`. Nothing is written: no topic, no
file.
"""

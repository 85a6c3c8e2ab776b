"""A cluster as who operates it sees it, whoever is asked: a worker over REST, or its topics when none is up.

`port.py` says what can be read and changed, `rest_*.py` and `topic_*.py` do it. Commands and pages import this room
and have no way of their own; what is HTML or terminal is theirs. A change is prepared, shown (`description`), checked
(`check`) and made (`make`); nothing is written before that.
"""

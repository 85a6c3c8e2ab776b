"""The health of connectors and tasks: state, condition, restarts, what is wrong and why, the worst first.

One judgement for every screen: tables of the command, `connect top`, the web console, health, webhooks. Pure. Imported
by `herder`, `rest`, `webhooks`, `admin` and the command; imports `model` and `logs` only. Begin with `views.py`.
"""

"""Text to typed settings: files, worker and connector settings, Kafka client settings.

Imported by plugins, kafka, herder, pipeline, worker and the command; imports api, model and errors only. Every
setting stands once, in a ConfigDef table, from which parsing, defaults, validation and documentation are made.
"""

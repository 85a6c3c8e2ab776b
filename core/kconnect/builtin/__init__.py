"""The plugins we ship: connectors, converters, transformations and predicates.

Found by name through `kconnect.plugins`, and imported by nobody else. Imports api and java.compat only, as any plugin
could: so they prove that the plugin API is enough.
"""

"""JsonSchemaConverter: Connect's schemas and values as JSON with JSON Schema.

json_document.py sees a schema as the library of Java's converter does; json_schema_mapping.py maps schemas,
values_to_json.py and values_from_json.py values.
"""

"""Converters that keep their schemas in a schema registry, and the client of Confluent's API that they share.

avro_converter.py, protobuf_converter.py and json_schema_converter.py are the plugins, found by name through `plugins`;
registration.py is what they share. registry_client.py asks and remembers, registry_http.py carries. avro_schema.py is
Avro's own types, schema_to_avro.py and schema_from_avro.py map them to Connect's, values_to_avro.py and
values_from_avro.py map values, avro_codec.py has fastavro write and read them. columns_to_avro.py and
columns_from_avro.py do the same for Arrow columns without it: scalars_to_avro.py has the numbers and texts,
byte_words.py and decimal_words.py the arithmetic, avro_cursor.py and array_elements.py find what is where,
column_rules.py says what goes by records. Protobuf has the same parts: proto_parser.py and proto_text.py read and write
.proto texts, proto_schema.py makes descriptors of them.
For JSON Schema, json_document.py sees a schema as the library of Java's converter does. apicurio_converter.py is
AvroConverter by Apicurio's settings.
"""

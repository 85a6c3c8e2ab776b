"""AvroConverter: Connect's schemas and values as Avro, record by record and in Arrow columns.

avro_schema.py is Avro's own types, schema_to_avro.py and schema_from_avro.py map them to Connect's, avro_values.py
maps values, avro_codec.py has fastavro write and read them. columns_to_avro.py and columns_from_avro.py do the same
for columns without it: byte_words.py and decimal_words.py have the arithmetic, avro_cursor.py finds what is where,
column_rules.py says what goes by records.

Records are the plain twin. In columns a row of six fields is written 14 and read 6 times as fast among 1,000, 42
and 29 times among 10,000 (short arrays: 8 and 3, 29 and 17), and ten times slower when it comes alone: few rows go
by records there, too. tests/unit/builtin/schema_registry/test_avro_columns.py holds both alike.

apicurio_converter.py is AvroConverter by Apicurio's settings.
"""

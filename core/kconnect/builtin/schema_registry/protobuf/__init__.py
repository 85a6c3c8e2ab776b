"""ProtobufConverter: Connect's schemas and values as Protobuf.

proto_parser.py and proto_text.py read and write .proto texts, proto_schema.py makes descriptors of them;
schema_to_protobuf.py and schema_from_protobuf.py map schemas, values_to_protobuf.py and values_from_protobuf.py values.
"""

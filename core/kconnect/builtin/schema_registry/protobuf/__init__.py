"""ProtobufConverter: Connect's schemas and values as Protobuf.

proto_parser.py reads .proto texts, proto_schema.py makes descriptors of them, and texts of descriptors;
schema_mapping.py maps schemas, values_to_protobuf.py and values_from_protobuf.py values.
"""

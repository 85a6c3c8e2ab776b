"""Parameters that Confluent keeps in the option `confluent.field_meta` of a Protobuf field, such as a decimal's scale.

They travel in a descriptor's options as the bytes of that extension: no pool of descriptors has to know it.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kconnect.java.compat.hash_map import grown_map_order

_EXTENSION: Final = 1088


def set_params(field: FieldDescriptorProto, params: dict[str, str]) -> None:
    """Add parameters to a field."""
    carrier = _CARRIER()
    for key, value in params.items():
        carrier.field_meta.params.add(key=key, value=value)
    field.options.MergeFromString(carrier.SerializeToString())


def params_of(field: FieldDescriptor | FieldDescriptorProto) -> dict[str, str]:
    """The parameters of a field, in the order of Java's HashMap: Protobuf itself keeps none."""
    options = field.options if isinstance(field, FieldDescriptorProto) else field.GetOptions()
    found = _CARRIER.FromString(options.SerializeToString())
    return grown_map_order({entry.key: entry.value for entry in found.field_meta.params})


def _carrier() -> Any:  # a class made at run time
    """A message whose one field has the number of the extension. Source: confluent/meta.proto."""
    text, message = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    file = FileDescriptorProto(name="field_params", syntax="proto3")
    file.message_type.append(
        DescriptorProto(
            name="Param",
            field=[
                FieldDescriptorProto(name="key", number=1, type=text, label=one),
                FieldDescriptorProto(name="value", number=2, type=text, label=one),
            ],
        )
    )
    for name, field, number, kind, label in (
        ("Meta", "params", 2, "Param", many),
        ("Options", "field_meta", _EXTENSION, "Meta", one),
    ):
        part = FieldDescriptorProto(name=field, number=number, type=message, type_name=f".{kind}", label=label)
        file.message_type.append(DescriptorProto(name=name, field=[part]))
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Options"))


_CARRIER: Final = _carrier()

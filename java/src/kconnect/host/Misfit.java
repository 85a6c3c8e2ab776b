package kconnect.host;

import java.util.Collection;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.Header;

/**
 * What a record has that is not of the schema it comes with. Connect's converters refuse it, in the words of
 * o.a.k.connect.json.JsonConverter; here it cannot cross to Python either, so that the record fails before.
 */
final class Misfit {
    private Misfit() {}

    /** The error of a record that `cause` kept from crossing: which part of it, in which place, of which class. */
    static DataException of(ConnectRecord<?> record, RuntimeException cause) {
        String found = in("value", record.valueSchema(), record.value());
        if (found == null) found = in("key", record.keySchema(), record.key());
        for (Header header : record.headers()) {
            if (found == null) found = in("header " + header.key(), header.schema(), header.value());
        }
        return found == null ? new DataException(cause.getMessage(), cause) : new DataException(found);
    }

    /** What of a value is wrong, by its path; null if nothing is. */
    private static String in(String path, Schema schema, Object value) {
        if (schema == null || value == null) return null; // what may be null is for the converter to say
        return switch (schema.type()) {
            case STRUCT -> {
                if (!(value instanceof Struct struct)) yield wrongType(path, schema, value);
                if (!struct.schema().equals(schema)) yield "Mismatching schema of the struct in " + path;
                for (Field field : schema.fields()) {
                    String found = in(path + "." + field.name(), field.schema(), struct.getWithoutDefault(field.name()));
                    if (found != null) yield found;
                }
                yield null;
            }
            case ARRAY -> {
                if (!(value instanceof Collection<?> many)) yield wrongType(path, schema, value);
                yield inAll(path + "[]", schema.valueSchema(), many);
            }
            case MAP -> {
                if (!(value instanceof Map<?, ?> map)) yield wrongType(path, schema, value);
                String found = inAll(path + "[key]", schema.keySchema(), map.keySet());
                yield found != null ? found : inAll(path + "[]", schema.valueSchema(), map.values());
            }
            default -> inPlain(path, schema, value);
        };
    }

    private static String inAll(String path, Schema schema, Collection<?> values) {
        for (Object value : values) {
            String found = in(path, schema, value);
            if (found != null) return found;
        }
        return null;
    }

    private static String inPlain(String path, Schema schema, Object value) {
        try {
            ConnectSchema.validateValue(schema, value);
        } catch (DataException e) {
            return wrongType(path, schema, value);
        }
        try {
            if (Decimal.LOGICAL_NAME.equals(schema.name())) Decimal.fromLogical(schema, (java.math.BigDecimal) value);
            if (Date.LOGICAL_NAME.equals(schema.name())) Date.fromLogical(schema, (java.util.Date) value);
            if (Time.LOGICAL_NAME.equals(schema.name())) Time.fromLogical(schema, (java.util.Date) value);
            return null;
        } catch (DataException e) {
            return e.getMessage() + " It is in " + path;
        }
    }

    private static String wrongType(String path, Schema schema, Object value) {
        String type = schema.name() == null ? schema.type().toString() : schema.type() + " (" + schema.name() + ")";
        return "Invalid type for " + type + ": " + value.getClass() + ", in " + path;
    }

    /** A value as text, for who reads of the record; an object of a plugin's own may throw when it is asked. */
    static String text(Object value) {
        try {
            return String.valueOf(value);
        } catch (RuntimeException e) {
            return "a value of " + value.getClass().getName();
        }
    }
}
